"""Which rows have a line: failures first, then each table's fair share, and the rest is counted."""

from collections import Counter
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.writer.model.targets import Target
from services.writer.persist.row_results import Parked as ParkedRow
from services.writer.persist.row_results import PersistResult
from services.writer.settle import event_log
from services.writer.settle.event_log import Parked, Piece, Settled
from shared import event_lines, wire
from shared.errors import DATA_REJECTED, UNKNOWN_TABLE, UserError
from shared.event_lines import EventLines
from shared.kafka_read.offsets import Partition
from shared.path_steps import Step

CANARY = "canary-4711"
REJECTED = UserError(DATA_REJECTED, CANARY)


def rows_of(table: str, count: int) -> pa.Table:
    columns = {
        "_id": [f"{table}-{n}" for n in range(count)],
        "_topic": [f"events.{table}"] * count,
        "_partition": [1] * count,
        "_offset": list(range(count)),
        "payload": [CANARY] * count,
    }
    return pa.table(columns)


def settled(table: str, *, landed: int = 0, duplicates: int = 0, parked: int = 0, late: int = 0) -> Settled:
    """Rows of `table` by outcome, in this order."""
    count = landed + duplicates + parked + late
    bad = range(landed + duplicates, count)
    result = PersistResult(
        Counter(),
        parked=[ParkedRow(Partition(f"events.{table}", 1), n, REJECTED, n) for n in bad],
        mask=np.arange(count) < landed,
    )
    return Settled(Target("shop", "events", table), rows_of(table, count), result, list(bad)[parked:])


class Log:
    """The log lines of `pieces` with a limit of `limit` lines per second and a stopped clock."""

    def __init__(self, limit: int, *pieces: Piece) -> None:
        written: list[bytes] = []
        self.lines = EventLines("writer", "x", limit, clock=lambda: 0.0, write=written.extend)
        event_log._write(self.lines, pieces)
        self.lines.write_summary()
        self.raw = b"".join(written).decode()
        parsed = [orjson.loads(line) for line in written]
        self.events: list[dict[str, Any]] = [line for line in parsed if line["message"] == "event"]
        self.suppressed = sum((Counter(line.get("suppressed")) for line in parsed), Counter())

    def told(self, table: str) -> Counter[str]:
        return Counter(line["outcome"] for line in self.events if line.get("table") == f"events.{table}")


def test_event_parked_before_any_table_is_logged_with_its_known_id_table_and_step() -> None:
    event, error = (Partition("events.a", 0), 5, "a-5"), UserError(UNKNOWN_TABLE, CANARY)
    dead_lettered = Parked([(*event, error)], step=Step.REPLAY, target=Target("shop", "events", "a"))
    (line,) = Log(100, dead_lettered).events
    assert {
        "event_id": "a-5",
        "step": "replay",
        "database": "shop",
        "table": "events.a",
    }.items() <= line.items()


def test_rolled_back_commit_logs_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Piece] = []
    monkeypatch.setattr(event_log, "write", lambda _, pieces: written.extend(pieces))

    def fail() -> None:
        with event_log.of_commit(100) as said:
            said.append(settled("a", landed=1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert written == []


def test_each_event_has_its_line_without_a_value() -> None:
    error = UserError(UNKNOWN_TABLE, CANARY)
    sorted_out = Parked([(Partition("events.other", 0), 5, None, error)])
    held = Settled(Target("shop", "events", "held"), rows_of("held", 1))
    log = Log(100, settled("a", landed=1, duplicates=1, parked=1, late=1), held, sorted_out)
    where = {"step": "persist", "database": "shop", "table": "events.a"}
    head = {"time", "level", "service", "logger", "message"}
    said = [{name: value for name, value in line.items() if name not in head} for line in log.events]
    assert said == [
        {"receipt": "events.a/1/0", **where, "outcome": "landed", "event_id": "a-0"},
        {"receipt": "events.a/1/1", **where, "outcome": "duplicate", "event_id": "a-1"},
        {"receipt": "events.a/1/2", **where, "outcome": "parked", "event_id": "a-2", "code": "data_rejected"},
        {"receipt": "events.a/1/3", **where, "outcome": "waiting", "event_id": "a-3"},
        {
            "receipt": "events.held/1/0",
            "step": "persist",
            "outcome": "waiting",
            "database": "shop",
            "table": "events.held",
            "event_id": "held-0",
        },
        {"receipt": "events.other/0/5", "step": "sort", "outcome": "parked", "code": "unknown_table"},
    ]
    assert CANARY not in log.raw
    assert not log.suppressed


def test_failures_have_their_lines_before_what_landed() -> None:
    log = Log(50, settled("a", landed=10_000, parked=30, late=10))
    assert log.told("a") == {"parked": 30, "waiting": 10, "landed": 10}
    assert log.suppressed == {"landed": 9_990}


def test_parked_events_are_logged_before_waiting_events() -> None:
    log = Log(50, settled("a", landed=10, late=500), settled("b", parked=80))
    # A second's lines, and a second's that are borrowed.
    assert (log.told("b"), log.told("a")) == ({"parked": 80}, {"waiting": 20})
    assert log.suppressed == {"waiting": 480, "landed": 10}


def test_a_table_of_few_rows_is_not_lost_among_one_of_many() -> None:
    log = Log(100, settled("many", landed=100_000), settled("few", landed=3), settled("some", landed=60))
    assert log.told("few") == {"landed": 3}
    assert (log.told("some"), log.told("many")) == ({"landed": 48}, {"landed": 49})


def test_the_sample_is_spread_over_a_tables_rows_in_their_order() -> None:
    log = Log(4, settled("a", landed=1000))
    assert [line["receipt"] for line in log.events] == [f"events.a/1/{n}" for n in (0, 250, 500, 750)]


AMOUNTS = st.integers(0, 40)
PIECES = st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=5)


@given(PIECES, st.integers(1, 200))
def test_lines_and_what_is_left_out_are_all_events_and_failures_won(
    amounts: list[tuple[int, int, int, int]], limit: int
) -> None:
    pieces = [
        settled(f"t{n}", landed=a, duplicates=b, parked=c, late=d) for n, (a, b, c, d) in enumerate(amounts)
    ]
    log = Log(limit, *pieces)
    told = Counter(line["outcome"] for line in log.events)
    names = ("landed", "duplicate", "parked", "waiting")
    assert told + log.suppressed == Counter(
        {name: n for name, n in zip(names, map(sum, zip(*amounts, strict=True)), strict=True) if n}
    )
    assert told.total() <= 2 * limit
    if log.suppressed["parked"] or log.suppressed["waiting"]:
        assert not told["landed"] + told["duplicate"]
    if log.suppressed["parked"]:
        assert not told["waiting"]
    for n in range(len(pieces)):
        offsets = [line["receipt"] for line in log.events if line["table"] == f"events.t{n}"]
        assert offsets == sorted(offsets, key=lambda receipt: int(receipt.rpartition("/")[2]))


def test_no_lines_are_wanted_and_a_probe_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    lines = EventLines("writer", "x", 10, write=written.extend)
    monkeypatch.setattr(event_lines, "of_process", lambda *_: lines)
    event_log.write(0, [settled("a", landed=5)])
    event_log.write(10, [settled(wire.PROBE_EVENT, landed=5)])
    assert written == []
    event_log.write(10, [settled("a", landed=5)])
    assert len(written) == 5
