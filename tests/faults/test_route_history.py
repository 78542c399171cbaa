"""The audit evaluates a missing row by the routes that were in force when it was settled."""

import asyncio
import re

import orjson
import pytest

from services.ops.audit.run import Request, audit
from services.ops.findings import Report
from services.writer.model.targets import Target
from services.writer.settle.settlement import Settlement
from shared.kafka_security import Brokers
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import eventually, execute, landed


def _settle(scene: Scene, n: int, other: Other, *, routed: bool) -> None:
    """Send n events while `other` is configured, and `routed` there too or not, and settle them."""
    registry = scene.route(other) if routed else scene.route()
    databases = orjson.dumps({other.name: other.dsn}).decode()
    writer = scene.writer(registry=registry, databases=databases)
    eventually(lambda: set(writer.states.values()) == {"landing"})  # type: ignore[attr-defined]
    scene.send(n)
    scene.all_landed_once()
    writer.stop()


def _audited(scene: Scene, *others: Other) -> Report:
    databases = {scene.database: scene.dsn} | {o.name: o.dsn for o in others}
    return asyncio.run(audit(Request(Brokers(scene.bootstrap), databases, re.escape(scene.topic), deep=True)))


def _codes(report: Report) -> dict[str, int]:
    found = [f.code.value for f in report.findings]
    return {code: found.count(code) for code in found}


def _drop(monkeypatch: pytest.MonkeyPatch, other: Other) -> None:
    """From now on the writer lands nothing in `other`, without a report."""
    land = Settlement.land

    def landing(self: Settlement, target: Target, rows: object) -> None:
        if target.database != other.name:
            land(self, target, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(Settlement, "land", landing)


def test_a_destination_that_never_landed_is_missed_whatever_the_routes_were_before_and_after(
    inline: Scene, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    _settle(inline, 5, other, routed=False)
    _settle(inline, 10, other, routed=True)
    eventually(lambda: landed(other.dsn, inline.name) == 10)
    assert _audited(inline, other).balanced
    _drop(monkeypatch, other)
    _settle(inline, 7, other, routed=True)
    _settle(inline, 5, other, routed=False)
    report = _audited(inline, other)
    assert _codes(report) == {"lost": 7, "unbalanced": len({f.source for f in report.findings})}
    assert not report.unjudged


def test_offsets_skipped_by_a_manual_ledger_update_are_reported_as_lost_and_gap(
    inline: Scene, other: Other
) -> None:
    _settle(inline, 5, other, routed=False)
    _settle(inline, 10, other, routed=True)
    eventually(lambda: landed(other.dsn, inline.name) == 10)
    execute(other.dsn, "UPDATE onramp.ledger SET next_offset = next_offset + 3 WHERE next_offset > 0")
    _settle(inline, 40, other, routed=True)
    missing = 50 - landed(other.dsn, inline.name)
    report = _audited(inline, other)
    codes = _codes(report)
    assert missing
    assert (codes["lost"], report.unjudged) == (missing, 0)
    assert codes["gap"] == codes["unbalanced"] == len({f.source for f in report.findings})


def test_events_settled_without_recorded_routes_are_not_reported_as_reconciled(
    inline: Scene, other: Other
) -> None:
    _settle(inline, 5, other, routed=False)
    _settle(inline, 10, other, routed=True)
    _settle(inline, 5, other, routed=False)
    assert _audited(inline, other).balanced
    for dsn in (inline.dsn, other.dsn):
        execute(dsn, "DELETE FROM onramp.settled_under")
        execute(dsn, "UPDATE onramp.ledger SET digest = NULL, since = NULL, upto = NULL")
    report = _audited(inline, other)
    assert (report.findings, report.balanced) == ([], False)
    assert report.unjudged == 10
    assert any("whether they were routed there is unknown" in said for said in report.unchecked)
