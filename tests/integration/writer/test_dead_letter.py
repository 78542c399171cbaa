"""Dead-lettering of waiting events by an operator: in order, once, with a reason, and no other events."""

from contextlib import closing
from typing import Any

import orjson
import psycopg2
import pytest
from psycopg2.extensions import cursor

from services.ops.operate import holds_sql
from services.writer.model.targets import Target
from services.writer.settle import holds, waiting_table
from services.writer.settle.holds import KIND_TABLE, STATE_BLOCKED, STATE_DEAD_LETTERED, Hold, Holds
from services.writer.settle.retry_reasons import BlockedError
from shared import event_lines, failpoints
from shared.event_lines import EventLines
from tests.fixtures.inline import KilledError
from tests.fixtures.writer import PARTITION, TOPIC_ID, event
from tests.integration.writer.waiting_bench import Hall


def _dead_letter(hall: Hall, name: str) -> bool:
    return holds_sql.dead_letter("onramp", hall.bench.dsn, name, by="ann", reason="sent again")


def _reasons(hall: Hall) -> list[dict[str, Any]]:
    found = hall.bench.rows('SELECT error::text FROM onramp.outbox ORDER BY "offset"')
    return [orjson.loads(error) for (error,) in found]


def _pause(hall: Hall, name: str = "order_placed") -> None:
    _hold(hall, "type", name, "paused")


def _hold(hall: Hall, kind: str, name: str, state: str) -> None:
    hall.bench.execute(f"INSERT INTO onramp.holds (kind, name, state) VALUES ('{kind}', '{name}', '{state}')")  # noqa: S608


def test_waiting_events_of_a_locked_table_are_dead_lettered_and_later_events_land(hall: Hall) -> None:
    hall.settle(event("a"))
    with hall.locked():
        hall.settle(event("b"), event("other-1", "other"), event("c"))
        assert _dead_letter(hall, "events.order_placed")
        hall.settle(event("d"))  # nobody has given it up: it queues behind
        assert hall.held() == {"events.order_placed": "dead_lettered"}
        assert hall.release() == ["events.order_placed"]
        assert (hall.parked(), hall.waiting()) == ([1, 3], [4])
        assert hall.held() == {"events.order_placed": "blocked"}
        assert hall.totals() == {"landed": 2, "waiting": 1, "parked": 2}
    assert hall.release() == []
    assert (hall.landed(), hall.totals()) == (["a", "d"], {"landed": 3, "parked": 2})
    for reason in _reasons(hall):
        assert (reason["code"], reason["detail"]) == ("dead_lettered", "dead-lettered by ann: sent again")
        # All that a replay asks for.
        assert (reason["topic_id"], reason["typed"]) == (hall.topic_id, False)


def test_waiting_events_of_a_paused_type_are_dead_lettered_and_the_type_is_resumed(hall: Hall) -> None:
    hall.settle(event("a"))
    _pause(hall)
    hall.settle(event("b"), event("other-1", "other"))
    assert _dead_letter(hall, "order_placed")
    hall.settle(event("c"))
    assert hall.release() == []
    assert (hall.parked(), hall.landed(), hall.landed("other")) == ([1], ["a", "c"], ["other-1"])
    assert (hall.held(), hall.totals()) == ({}, {"landed": 3, "parked": 1})


def test_dead_lettering_of_one_hold_among_several_parks_only_its_events(hall: Hall) -> None:
    hall.settle(event("a"), event("other-1", "other"))
    _pause(hall)
    _pause(hall, "other")
    hall.settle(event("b"), event("other-2", "other"))
    assert _dead_letter(hall, "other")
    assert hall.release() == ["order_placed"]
    assert (hall.parked(), hall.waiting(), hall.held()) == ([3], [2], {"order_placed": "paused"})


def test_dead_lettering_killed_midway_resumes_and_parks_each_event_once(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall.settle(event("a"))
    _pause(hall)
    hall.settle(*(event(f"e-{n}") for n in range(7)))
    assert _dead_letter(hall, "order_placed")
    steps: list[int] = []

    def die(name: str) -> None:
        assert name == "writer.mid_dead_letter"
        steps.append(len(hall.parked()))
        if len(steps) == 2:
            raise KilledError(name)

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", die)
        with pytest.raises(KilledError):
            hall.release(at_once=3)
    assert (hall.parked(), hall.waiting()) == ([1, 2, 3], [4, 5, 6, 7])
    assert hall.release(at_once=3) == []
    assert (hall.parked(), hall.waiting()) == (list(range(1, 8)), [])
    assert (hall.landed(), hall.totals()) == (["a"], {"landed": 1, "parked": 7})


@pytest.mark.parametrize(
    ("kind", "name", "state"),
    [("type", "order_placed", "paused"), ("table", "events.order_placed", "blocked")],
)
def test_dead_letter_request_during_a_release_parks_its_events_too(
    hall: Hall, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, state: str
) -> None:
    hall.settle(event("a"))
    _hold(hall, kind, name, state)
    hall.settle(event("b"))
    assert _dead_letter(hall, name)
    real = waiting_table.take_dead_lettered

    def meanwhile(*arguments: Any) -> list[waiting_table.WaitingEvents]:
        found = real(*arguments)
        monkeypatch.setattr(waiting_table, "take_dead_lettered", real)
        hall.settle(event("c"))
        assert _dead_letter(hall, name)
        return found

    monkeypatch.setattr(waiting_table, "take_dead_lettered", meanwhile)
    hall.release()
    assert hall.release() == []
    assert (hall.parked(), hall.landed()) == ([1, 2], ["a"])


def test_dead_lettering_of_a_type_that_is_not_paused_is_refused(hall: Hall) -> None:
    hall.settle(event("a"))
    _hold(hall, "type", "w", "watched")
    assert not _dead_letter(hall, "order_placed")
    assert not _dead_letter(hall, "w")


def test_dead_lettered_hold_that_has_ended_returns_as_blocked() -> None:
    """Else nobody would ever park what waits behind it: no person has said up to when."""
    target = Target("onramp", "events", "a")
    before = Holds({str(target): Hold(KIND_TABLE, str(target), STATE_DEAD_LETTERED)})
    again = before.tables[str(target)].blocked_again("55P03", suspicious=False)
    held = before.block({target: BlockedError(target, "55P03")})
    assert [again.state, held.tables[str(target)].state] == [STATE_BLOCKED, STATE_BLOCKED]


def test_dead_lettering_that_fails_stops_no_other_dead_lettering_and_no_release(
    hall: Hall, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hall.settle(event("a"), event("o-1", "other"), event("t-1", "third"))
    for name in ("order_placed", "other"):
        _pause(hall, name)
    hall.settle(event("b"), event("o-2", "other"))
    with hall.locked("events.third"):
        hall.settle(event("t-2", "third"))
    real = waiting_table.take_dead_lettered

    def fail(conn: Any, table: waiting_table.WaitingTable, *rest: Any) -> list[waiting_table.WaitingEvents]:
        if table.table == "order_placed":
            raise ZeroDivisionError
        return real(conn, table, *rest)

    assert _dead_letter(hall, "order_placed")
    assert _dead_letter(hall, "other")
    with monkeypatch.context() as patch:
        patch.setattr(waiting_table, "take_dead_lettered", fail)
        assert hall.release() == ["order_placed"]
    assert (hall.parked(), hall.waiting(), hall.landed("third")) == ([4], [3], ["t-1", "t-2"])
    assert hall.held() == {"order_placed": "dead_lettered"}
    (said,) = [r for r in caplog.records if r.exc_info]
    assert vars(said)["waits_for"] == "events.order_placed"
    assert hall.release() == []
    assert hall.parked() == [3, 4]


def test_dead_lettering_of_a_type_does_not_scan_waiting_events_of_other_types(hall: Hall) -> None:
    """Millions may wait for the same table: by their order alone all of them would be read."""
    hall.settle(event("a"))
    hall.bench.execute(
        f"""
        INSERT INTO onramp.waiting (topic_id, topic, partition, "offset", destination, db_schema, db_table,
                                    typed, event_type, code, value, timestamp)
        SELECT '{TOPIC_ID}', 't', 0, n, 'public.t', 'public', 't', true,
               CASE WHEN n % 2000 = 0 THEN 'ours' ELSE 'theirs' END, 'paused', '', now()
        FROM generate_series(1, 20000) n
        """  # noqa: S608
    )
    for name in ("ours", "theirs"):
        _pause(hall, name)
    assert _dead_letter(hall, "ours")
    removed: list[int] = []

    class Explained(cursor):
        """Notes how many rows were read in vain."""

        def execute(self, query: Any, parameters: Any = None) -> None:
            super().execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", parameters)
            (((plan,),),) = super().fetchall()
            removed.append(_removed(plan["Plan"]))

        def fetchall(self) -> list[Any]:
            return []

    hall.bench.execute("ANALYZE onramp.waiting")
    with closing(psycopg2.connect(hall.bench.dsn)) as conn:
        ((dead_lettered,), found) = holds.dead_lettered(conn), waiting_table.tables(conn)
        ((table, types),) = found.items()
        (taken,) = waiting_table.take_dead_lettered(conn, table, dead_lettered, 1000, waiting_table.START)
    assert types == {"ours", "theirs"}
    assert taken.records.column("offset").to_pylist() == [*range(2000, 20001, 2000)]
    with closing(psycopg2.connect(hall.bench.dsn, cursor_factory=Explained)) as conn:
        waiting_table.take_dead_lettered(conn, table, dead_lettered, 1000, waiting_table.START)
    assert removed == [0]


def _removed(node: dict[str, Any]) -> int:
    below = sum(map(_removed, node.get("Plans", ())))
    return below + node.get("Rows Removed by Filter", 0) * node["Actual Loops"]


def test_events_that_land_later_or_are_dead_lettered_each_have_a_log_line(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    lines = EventLines("writer", "x", 1000, write=written.extend)
    monkeypatch.setattr(event_lines, "of_process", lambda *_: lines)
    hall.settle(event("a"))
    with hall.locked():
        hall.settle(event("b"), event("c"))
        assert _dead_letter(hall, "events.order_placed")
        hall.settle(event("d"), event("e"))
        hall.release(event_lines=1000)
    hall.release(event_lines=1000)
    said = [orjson.loads(line) for line in written]
    topic, number = PARTITION
    assert [(line["event_id"], line["receipt"], line["outcome"], line.get("code")) for line in said] == [
        ("b", f"{topic}/{number}/1", "parked", "dead_lettered"),
        ("c", f"{topic}/{number}/2", "parked", "dead_lettered"),
        ("d", f"{topic}/{number}/3", "landed", None),
        ("e", f"{topic}/{number}/4", "landed", None),
    ]
    assert {(line["database"], line["table"]) for line in said} == {("onramp", "events.order_placed")}
