"""Databases that are renamed or removed between a crash and a restart: no event is lost, each is reported."""

import asyncio
import re
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.ops.audit.run import Request, audit
from services.ops.findings import Code
from services.writer.databases.trim import RetentionCleanup
from shared import wire
from shared.kafka_security import Brokers
from tests.faults.test_owners import hand_over
from tests.fixtures.inline import Inline, KilledError, Places
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import event, eventually, landed, make_topics, produce, records, rows


@pytest.fixture
def planned(inline: Scene, places: Places) -> Scene:
    """A scene whose writer ended after its plan and before its rows."""
    inline.send(30)
    places.kill_at("writer.after_copy")
    assert isinstance(inline.writer(wait=False).ended(), KilledError)
    return inline


def beside(scene: Scene) -> str:
    """The name of another event type, of which an event is on Kafka."""
    name = f"{scene.name}_beside"
    make_topics(scene.bootstrap, wire.topic_of(name))
    produce(scene.bootstrap, wire.topic_of(name), [event("b-1", name)])
    return name


def both(scene: Scene, **settings: Any) -> Inline:
    """A writer of the scene's event type and of the second one."""
    return scene.writer(topics=rf"events\.{scene.name}.*", **settings)


def test_a_plan_for_a_renamed_database_halts_its_partitions_and_lands_under_the_old_name(
    planned: Scene,
) -> None:
    was, name = planned.database, beside(planned)
    planned.database = f"renamed_{was}"
    writer = both(planned, wait=False)
    hand_over(writer, planned.database, planned.dsn)
    eventually(lambda: landed(planned.dsn, name) == 1)
    assert {p.topic for p in writer.refused} == {planned.topic}
    assert all(was in why for why in writer.refused.values())
    assert (planned.landed(), planned.group()) == (0, {})
    writer.stop()

    planned.database = was
    hand_over(planned.writer(wait=False), was, planned.dsn)
    eventually(lambda: planned.landed() == 30)
    eventually(lambda: planned.group() == planned.settled())
    planned.audited()


def test_a_plan_for_a_removed_database_halts_its_partitions(
    inline: Scene, places: Places, other: Other
) -> None:
    first = inline.writer_into(other)
    eventually(lambda: set(first.states.values()) == {"landing"})
    # While one event's batch is held the others gather: the next batch has them all.
    held = places.hold_at("writer.before_group_commit")
    inline.send(1)
    held.wait()
    places.kill_at("writer.after_commit")  # of the one database
    inline.send(30)
    held.go_on()
    assert isinstance(first.ended(), KilledError)
    name = beside(inline)
    writer = both(inline)
    eventually(lambda: landed(inline.dsn, name) == 1)
    assert writer.refused
    assert all(other.name in why for why in writer.refused.values())
    writer.stop()
    inline.writer_into(other)
    eventually(lambda: (inline.landed(), landed(other.dsn, inline.name)) == (31, 31))
    eventually(lambda: inline.group() == inline.settled())
    inline.audited(other)


def test_events_waiting_for_a_removed_database_are_reported_and_stay_until_it_returns(
    inline: Scene, other: Other, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    trims = _counted(monkeypatch)
    other.close()
    first = inline.writer_into(other)
    inline.send(20)
    eventually(lambda: inline.group() == inline.settled() != {})
    first.stop()

    again = inline.writer(drained_retention_seconds=0.2)
    assert again.unknown[other.name] == 20
    [said] = [r for r in caplog.records if getattr(r, "database", "") == other.name and "configured" in r.msg]
    assert (said.levelname, said.waiting) == ("ERROR", 20)  # type: ignore[attr-defined]
    trimmed = len(trims)
    eventually(lambda: len(trims) > trimmed + 2)
    waiting = [
        orjson.loads(r.headers["onramp-waiting"]) for r in records(inline.bootstrap, wire.SYSTEM_ERRORS)
    ]
    assert sum((w["database"], w["kind"]) == (other.name, "event") for w in waiting) == 20
    again.stop()

    other.open()
    inline.writer_into(other)
    eventually(lambda: landed(other.dsn, inline.name) == 20)
    inline.audited(other)


@pytest.mark.parametrize(
    ("word", "there"),
    [
        pytest.param("skip", range(10), id="skip"),
        pytest.param("refill", range(20), id="refill", marks=pytest.mark.full),
    ],
)
def test_a_database_that_is_put_back_after_events_went_on_without_it_is_halted(
    inline: Scene, other: Other, word: str, there: range
) -> None:
    first = inline.writer_into(other)
    inline.send(10)
    eventually(lambda: (inline.landed(), landed(other.dsn, inline.name)) == (10, 10))
    eventually(lambda: inline.group() == inline.settled())
    first.stop()

    inline.route()
    alone = inline.writer()
    inline.send(10)
    eventually(lambda: inline.landed() == 20)
    eventually(lambda: inline.group() == inline.settled())
    alone.stop()

    again = inline.writer_into(other)
    eventually(lambda: again.states[other.name] == "halted")
    assert "ledger" in again.reasons[other.name]
    asked = ["databases", "resolve", other.name, word]
    where = ["--dsn", inline.dsn, "--databases", orjson.dumps({other.name: other.dsn}).decode()]
    assert CliRunner().invoke(app, [*asked, *where]).exit_code == 0
    eventually(lambda: again.states[other.name] == "landing")
    inline.send(3)
    eventually(lambda: landed(other.dsn, inline.name) == len(there) + 3)
    assert numbers(other, inline.name) == [*there, *range(20, 23)]
    assert inline.landed() == 23
    assert dead_lettered(inline, other) == (word == "skip")


def dead_lettered(scene: Scene, other: Other) -> bool:
    """Return whether the audit's only findings are ranges that the other database has not settled."""
    databases = {scene.database: scene.dsn, other.name: other.dsn}
    report = asyncio.run(
        audit(Request(Brokers(scene.bootstrap), databases, re.escape(scene.topic), deep=True))
    )
    assert all(f.code is Code.GAP and other.name in f.detail for f in report.findings), report.findings
    return bool(report.findings)


def numbers(database: Other, name: str) -> list[int]:
    """Which events are in a landing table."""
    found = rows(database.dsn, f"SELECT (payload->>'n')::int FROM events.{name}")  # noqa: S608
    return sorted(n for (n,) in found)


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows with each time that the topic was trimmed."""
    done: list[None] = []
    trim = RetentionCleanup.trim

    async def counted(of: RetentionCleanup) -> None:
        await trim(of)
        done.append(None)

    monkeypatch.setattr(RetentionCleanup, "trim", counted)
    return done
