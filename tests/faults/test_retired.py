"""Retired databases: waiting events are parked once, and no event waits for the database any more."""

import asyncio
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.cli.show.audit_report import parts_of
from services.ops.operate import kafka_retire
from services.writer.partitions.plan_log import PlanLog
from shared import failpoints, wire
from shared.kafka_security import Brokers
from tests.fixtures.inline import Inline, KilledError
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import Kept, event, eventually, execute, landed, records


@pytest.fixture
def gone(inline: Scene, other: Other) -> Iterator[Scene]:
    """30 events have landed in the scene's own database; 10 have in the other one, and 20 wait for it."""
    writer = inline.writer_into(other)
    inline.send(10)
    eventually(lambda: (inline.landed(), landed(other.dsn, inline.name)) == (10, 10))
    other.close()
    inline.send(20)
    eventually(lambda: inline.landed() == 30)
    eventually(lambda: inline.group() == inline.settled() != {})
    writer.stop()
    inline.route()
    yield inline
    other.open()


def said(scene: Scene, name: str, *more: str) -> Any:
    where = ["--kafka", scene.bootstrap, "--dsn", scene.dsn, "--database", scene.database, *more]
    return CliRunner().invoke(app, ["databases", "retire", name, "--reason", "it was sold", "--json", *where])


def parked(scene: Scene) -> list[Kept]:
    found = records(scene.bootstrap, wire.USER_ERRORS)
    return [r for r in found if (r.key or b"").startswith(f"{scene.topic}/".encode())]


def waits_for(writer: Inline, other: Other) -> int | None:
    """Return the writer's waiting events for the other database; other tests may have some."""
    return writer.unknown.get(other.name)


def settled(scene: Scene) -> PlanLog:
    log = PlanLog()
    for record in records(scene.bootstrap, wire.SETTLED):
        log.read(record.key, record.value)
    return log


def test_events_waiting_for_a_retired_database_are_parked_and_the_totals_reconcile(
    gone: Scene, other: Other
) -> None:
    writer: Inline = gone.writer()
    eventually(lambda: waits_for(writer, other) == 20)
    configured = orjson.dumps({other.name: other.dsn}).decode()
    refused = said(gone, other.name, "--databases", configured)
    assert (refused.exit_code, orjson.loads(refused.stdout)["retired"]) == (1, False)
    assert said(gone, "nobody").exit_code == 1
    assert said(gone, other.name).exit_code == 0
    eventually(lambda: waits_for(writer, other) is None)
    waits = f'onramp_writer_waiting_events{{database="{other.name}",where="kafka"}}'
    eventually(lambda: writer.shown[waits] == 0)

    found = parked(gone)
    assert len(found) == len({r.key for r in found}) == 20
    for record in found:
        error = orjson.loads(record.headers["onramp-error"])
        assert (error["code"], error["destination"]) == (
            "database_retired",
            f"{other.name}.events.{gone.name}",
        )
        assert error["detail"].endswith("it was sold")
        assert orjson.loads(record.value or b"")["metadata"]["id"] == error["id"]
    gone.audited()
    assert other.name not in {name for names in settled(gone).baselines.values() for name in names}
    assert said(gone, other.name).exit_code == 1

    writer.stop()
    again: Inline = gone.writer()
    assert waits_for(again, other) is None
    gone.send(3)
    eventually(lambda: gone.landed() == 33)
    gone.audited()
    assert len(parked(gone)) == 20
    other.open()  # its ledger is behind what is parked, and it is closed
    assert gone.audited(other).closed[other.name] == {"landed": 10}


def test_the_totals_of_a_retired_database_are_closed_and_no_gap(inline: Scene, other: Other) -> None:
    """Events that only it has, packets, and one that is parked: all that others cannot count."""
    execute(other.dsn, "CREATE TABLE public.one (n int PRIMARY KEY)")
    there = {"type": "postgres", "vanity": other.name}
    document = {
        "event_types": {inline.name: {"destinations": [there]}},
        "grants": [{"topic": inline.topic}],
    }
    one = there | {"schema": "public", "table": "one"}
    packets = ({"pipeline_context": {"destinations": [one]}, "data": {"n": n}} for n in (1, 2, "no number"))
    databases = orjson.dumps({other.name: other.dsn}).decode()
    writer = inline.writer(registry=inline.register(document), databases=databases)
    inline.produce(*(event(str(n), inline.name) for n in range(4)), *map(orjson.dumps, packets))
    eventually(lambda: inline.group() == inline.settled() != {})
    eventually(lambda: len(parked(inline)) == 1)
    inline.audited(other)
    writer.stop()
    inline.route()
    again: Inline = inline.writer()
    assert said(inline, other.name).exit_code == 0
    eventually(lambda: not any(other.name in names for names in settled(inline).baselines.values()))
    inline.send(3)
    eventually(lambda: inline.landed() == 3)
    eventually(lambda: inline.group() == inline.settled())

    assert inline.audited().closed[other.name] is None
    given = inline.audited(other)
    assert given.closed[other.name] == {"landed": 6, "parked": 1}
    line = f"closed: {other.name} is retired, so nothing is compared with its totals (6 landed, 1 parked)"
    assert line in [*parts_of(given)]
    assert again.unknown.get(other.name) is None


def test_writer_killed_before_it_records_a_retirement_parks_the_same_events_again(
    gone: Scene, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(name: str) -> None:
        if name == "writer.before_retired":
            raise KilledError(name)

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", die)
        writer: Inline = gone.writer(wait=False)
        assert said(gone, other.name).exit_code == 0
        assert isinstance(writer.ended(), KilledError)
    again: Inline = gone.writer()
    eventually(lambda: waits_for(again, other) is None)
    found = parked(gone)
    assert (len(found), len({r.key for r in found})) == (40, 20)
    gone.audited()


def test_a_word_about_a_database_that_is_configured_counts_for_nothing(gone: Scene, other: Other) -> None:
    """The decision was made while no writer ran, with other settings."""
    asyncio.run(kafka_retire.retire(Brokers(gone.bootstrap), other.name, "it was sold"))
    writer = gone.writer_into(other)
    eventually(lambda: other.name not in settled(gone).retirements.pending())
    writer.stop()
    alone: Inline = gone.writer()
    eventually(lambda: waits_for(alone, other) == 20)
    assert parked(gone) == []
    alone.stop()
    other.open()
    gone.writer_into(other)
    eventually(lambda: landed(other.dsn, gone.name) == 30)
    gone.audited(other)
