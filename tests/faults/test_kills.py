"""kill -9 wherever it hurts: exactly as many rows as accepted events, and nobody left behind."""

import orjson
import psutil

from stack.families import family_of
from tests.fixtures.other import Other
from tests.fixtures.scenes import Scene, gone, kill_driver_alone, python_workers
from tests.fixtures.writer import envelope, eventually, landed, rows

#: What a JVM says before anybody could tell it how.
_OF_THE_JVM = (b"NOTE: Picked up", b"WARNING: Using incubator modules")


def _nothing_is_left(scene: Scene, orphans: set[psutil.Process]) -> None:
    """Neither the JVM nor a worker goes on, and no session holds a ledger row."""
    assert orphans
    eventually(lambda: gone(orphans), 15)
    eventually(lambda: not scene.sessions(), 15)


def test_killed_in_the_middle_of_a_batch_every_accepted_event_is_one_row(scene: Scene) -> None:
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
    scene.writer()
    scene.all_landed_once()


def test_killed_at_every_place_one_after_the_other_the_books_balance(scene: Scene) -> None:
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
    scene: Scene,
) -> None:
    place, bad = "writer.after_outbox_publish", envelope("bad", scene.name, b'{"a":"\\u0000"}')
    scene.send(50)
    scene.produce(bad)
    victim = scene.writer(place, wait=False)

    def published() -> bool:
        if scene.flag(place).exists() and scene.landed() and scene.parked(bad):
            return True
        scene.go_on(place)  # it was there with an empty outbox
        return False

    eventually(published, 60)
    assert rows(scene.dsn, "SELECT count(*) FROM onramp.outbox") == [(1,)]
    _nothing_is_left(scene, kill_driver_alone(victim))
    scene.writer()
    eventually(lambda: rows(scene.dsn, "SELECT count(*) FROM onramp.outbox") == [(0,)])
    kept = scene.parked(bad)
    assert (len(kept) > 1, len({r.key for r in kept})) == (True, 1)
    scene.all_landed_once()
    assert scene.totals() == {"landed": 50, "parked": 1}


def test_a_killed_python_worker_costs_a_repeat_and_nothing_else(scene: Scene) -> None:
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


def test_killed_while_bad_rows_are_looked_for_each_event_has_one_verdict(scene: Scene) -> None:
    place, bad = "writer.mid_isolation", envelope("bad", scene.name, b'{"a":"\\u0000"}')
    scene.send(50)
    scene.produce(bad)
    victim = scene.writer(place, wait=False)
    scene.paused_at(place)
    assert (scene.landed(), scene.settled(), scene.parked(bad)) == (0, {}, [])
    _nothing_is_left(scene, kill_driver_alone(victim))
    scene.writer()
    eventually(lambda: scene.parked(bad))
    scene.all_landed_once()
    assert scene.totals() == {"landed": 50, "parked": 1}
    scene.audited()


def test_killed_before_a_marker_and_again_in_the_middle_of_the_drain(scene: Scene, other: Other) -> None:
    other.close()
    scene.send(100)
    place = "writer.between_divert_and_marker"
    victim = scene.writer_into(other, pause=place, wait=False)
    scene.paused_at(place)
    assert (scene.landed(), scene.group()) == (100, {})  # landed here, diverted there, and nothing says so
    _nothing_is_left(scene, kill_driver_alone(victim))

    place = "writer.mid_drain"
    victim = scene.writer_into(other, pause=place, wait=False)
    eventually(lambda: scene.group() == scene.settled() != {}, 120)
    other.open()
    scene.paused_at(place)
    assert 0 < landed(other.dsn, scene.name) < 100  # one partition's range of two
    _nothing_is_left(scene, kill_driver_alone(victim))

    scene.writer_into(other)
    eventually(lambda: landed(other.dsn, scene.name) == 100)
    scene.send(10)
    scene.all_landed_once()
    eventually(lambda: landed(other.dsn, scene.name) == 110)
    scene.audited(other)
