"""SIGKILL at each step: the number of rows equals the number of accepted events, and no process remains.

Processes are killed where the operating system and Spark matter; the other places end writers in threads.
"""

import os
import signal

import orjson
import psutil
import pytest

from stack.process_groups import family_of
from stack.services import Service
from tests.faults.conftest import StartInline
from tests.fixtures.inline import Inline, KilledError, Places
from tests.fixtures.scenes import Scene, exit_code, gone, kill_driver_alone, python_workers
from tests.fixtures.writer import envelope, eventually, rows

#: What a JVM says before anybody could tell it how.
_OF_THE_JVM = (b"NOTE: Picked up", b"WARNING: Using incubator modules")


def _nothing_is_left(scene: Scene, orphans: set[psutil.Process]) -> None:
    """Check that the JVM and the workers have ended, and no session holds a ledger row."""
    assert orphans
    eventually(lambda: gone(orphans), 15)
    eventually(lambda: not scene.sessions(), 15)


def test_killed_in_the_middle_of_a_batch_every_accepted_event_is_one_row(
    scene: Scene, inline_writers: StartInline
) -> None:
    scene.send(500)
    victim = scene.writer("writer.before_commit", wait=False)
    scene.paused_at("writer.before_commit")
    # It is the middle: rows are written, the transaction is open, and nothing of it shows.
    ((size,),) = rows(scene.dsn, "SELECT pg_relation_size(%s)", f"events.{scene.name}")
    assert size > 0
    assert scene.sessions("idle in transaction")
    assert (scene.landed(), scene.settled(), scene.totals()) == (0, {}, {})
    orphans = kill_driver_alone(victim)
    _nothing_is_left(scene, orphans)
    assert (scene.landed(), scene.settled(), scene.totals()) == (0, {}, {})
    scene.writer(start=inline_writers)
    scene.all_landed_once()


@pytest.mark.full
def test_killed_at_every_place_one_after_the_other_the_totals_reconcile(scene: Scene) -> None:
    scene.send(200)
    for place in ("writer.after_copy", "writer.after_commit", "writer.before_group_commit"):
        victim = scene.writer(place, wait=False)
        scene.paused_at(place)
        committed = place != "writer.after_copy"
        assert scene.landed() == (200 if committed else 0)
        assert bool(scene.settled()) == committed
        assert scene.group() == {}
        _nothing_is_left(scene, kill_driver_alone(victim))
    scene.send(100)
    scene.writer()
    scene.all_landed_once()


def test_killed_between_the_error_topic_and_the_outbox_the_event_is_parked_under_one_key(
    inline: Scene, places: Places
) -> None:
    place, bad = "writer.after_outbox_publish", envelope("bad", inline.name, b'{"a":"\\u0000"}')
    inline.send(50)
    inline.produce(bad)

    def kill_when_published() -> None:
        places.at(place, kill_when_published)  # it may come there with an empty outbox first
        if inline.landed() and inline.parked(bad):
            places.at(place, lambda: None)
            raise KilledError(place)

    places.at(place, kill_when_published)
    victim: Inline = inline.writer(wait=False)
    assert isinstance(victim.ended(), KilledError)
    assert rows(inline.dsn, "SELECT count(*) FROM onramp.outbox") == [(1,)]
    inline.writer()
    eventually(lambda: rows(inline.dsn, "SELECT count(*) FROM onramp.outbox") == [(0,)])
    kept = inline.parked(bad)
    assert (len(kept) > 1, len({r.key for r in kept})) == (True, 1)
    inline.all_landed_once()
    assert inline.totals() == {"landed": 50, "parked": 1}


def test_writer_killed_while_isolating_a_bad_row_gives_each_event_one_outcome(
    inline: Scene, places: Places
) -> None:
    bad = envelope("bad", inline.name, b'{"a":"\\u0000"}')
    inline.send(50)
    inline.produce(bad)
    places.kill_at("writer.mid_isolation")
    victim: Inline = inline.writer(wait=False)
    assert isinstance(victim.ended(), KilledError)
    assert (inline.landed(), inline.settled(), inline.parked(bad)) == (0, {}, [])
    inline.writer()
    eventually(lambda: inline.parked(bad))
    inline.all_landed_once()
    assert inline.totals() == {"landed": 50, "parked": 1}
    inline.audited()


def test_a_killed_python_worker_costs_a_repeat_and_sigterm_rolls_the_next_batch_back(
    scene: Scene, inline_writers: StartInline
) -> None:
    place = "writer.before_commit"
    scene.send(100)
    service = scene.writer(place, wait=False)
    scene.paused_at(place)
    workers = python_workers(service)
    assert workers
    for worker in workers:
        worker.kill()
    # What is done again comes by there in pieces, each of which stops.
    eventually(lambda: scene.go_on(place) or scene.landed() == scene.accepted, 120)
    scene.all_landed_once()
    log = service.log.read_bytes().splitlines()
    lines = [orjson.loads(line) for line in log if not line.startswith(_OF_THE_JVM)]
    assert "org.apache.spark.SparkException" in {line.get("exception") for line in lines}
    _sigterm_in_mid_batch_rolls_it_back_within_its_margin(scene, service, place)
    scene.writer(start=inline_writers)
    scene.all_landed_once()


def _sigterm_in_mid_batch_rolls_it_back_within_its_margin(scene: Scene, service: Service, place: str) -> None:
    before = scene.landed(), scene.settled()
    scene.send(100)
    scene.paused_at(place)
    family = family_of(psutil.Process(service.pid))
    os.kill(service.pid, signal.SIGTERM)
    assert exit_code(service) == 0  # a batch that is paused would never end by itself
    eventually(lambda: gone(family))
    eventually(lambda: not scene.sessions())
    assert (scene.landed(), scene.settled()) == before


@pytest.mark.full
def test_a_killed_jvm_does_not_leave_a_writer_that_lives_and_does_nothing(scene: Scene) -> None:
    scene.send(20)
    service = scene.writer()
    scene.all_landed_once()
    (jvm,) = (p for p in family_of(psutil.Process(service.pid)) if p.name() == "java")
    jvm.kill()
    scene.send(20)
    # Either is right: it lands by itself, or it ends and whoever supervises it starts another.
    eventually(lambda: service.child.exit_code is not None or scene.landed() == scene.accepted, 30)
    if service.child.exit_code is not None:
        assert service.child.exit_code not in (0, 3)
        scene.writer()
    scene.all_landed_once()
