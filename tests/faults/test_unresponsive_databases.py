"""Unresponsive databases: each is unreachable after its liveness timeout, and delays no other."""

import time

import orjson
import pytest

from tests.fixtures.inline import Places
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.silent_servers import Stopped, black_holes
from tests.fixtures.writer import event, eventually, landed, make_topics, produce, rows

#: The promise is 2 s for 99 of 100; without it they wait for as long as the server is stopped.
_MAX_SECONDS = 5.0


def latencies(scene: Scene, name: str, count: int) -> list[float]:
    """Seconds from each event to its row in the healthy database, sorted."""
    make_topics(scene.bootstrap, f"events.{name}")
    found = []
    for n in range(count):
        begin = time.monotonic()
        produce(scene.bootstrap, f"events.{name}", [event(f"e-{n}", name)])
        eventually(lambda n=n: landed(scene.dsn, name) > n)
        found.append(time.monotonic() - begin)
    return sorted(found)


def test_hung_database_does_not_delay_another_database_and_drains_when_it_resumes(
    inline: Scene, hung: Other, server: Stopped
) -> None:
    name = f"{inline.name}_beside"
    make_topics(inline.bootstrap, f"events.{name}")
    writer = inline.writer_into(hung, topics=rf"events\.{inline.name}.*")
    eventually(lambda: set(writer.states.values()) == {"landing"})
    inline.send(10)
    eventually(lambda: landed(hung.dsn, inline.name) == 10)
    server.stop()
    inline.send(10)
    took = latencies(inline, name, 30)
    print(f"beside a stopped server: median {took[15]:.2f} s, most {took[-1]:.2f} s")  # noqa: T201
    assert took[-1] < _MAX_SECONDS
    eventually(lambda: inline.landed() == 20)
    assert writer.states == {inline.database: "landing", hung.name: "out"}
    assert "does not answer" in writer.reasons[hung.name]
    server.go_on()
    eventually(lambda: landed(hung.dsn, inline.name) == 20)
    inline.audited(hung)


def test_a_commit_that_arrives_after_the_writer_gave_up_lands_nothing_twice(
    inline: Scene, hung: Other, server: Stopped, places: Places
) -> None:
    writer = inline.writer_into(hung)
    eventually(lambda: set(writer.states.values()) == {"landing"})
    inline.send(10)
    eventually(lambda: landed(hung.dsn, inline.name) == 10)
    places.at("writer.before_commit", server.stop, after=1)  # the second of the two
    inline.send(10)
    eventually(lambda: writer.states[hung.name] == "out")
    eventually(lambda: inline.landed() == 20)
    server.go_on()
    eventually(lambda: writer.states[hung.name] == "landing")
    assert landed(hung.dsn, inline.name) == 20
    totals = "SELECT outcome, sum(events)::int FROM onramp.totals GROUP BY 1"
    assert dict(rows(hung.dsn, totals)) == {"landed": 20}
    inline.audited(hung)


@pytest.mark.full
def test_eight_unresponsive_databases_do_not_delay_a_reachable_database(inline: Scene) -> None:
    with black_holes(8) as addresses:
        databases = {f"silent_{inline.name}_{n}": dsn for n, dsn in enumerate(addresses)}
        inline.writer(databases=orjson.dumps(databases).decode())
        took = latencies(inline, inline.name, 40)
    print(f"beside eight silent ones: median {took[20]:.2f} s, most {took[-1]:.2f} s")  # noqa: T201
    assert took[-1] < _MAX_SECONDS
