"""The lake's audit: rows against the table's own counts, and against records by receipt."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from services.lake.compaction.delta_drop import drop
from services.ops.audit.classify import Event, classify
from services.ops.audit.lake_checks import ReceiptCheck, check_files, check_totals, lines_of
from services.ops.findings import Code, Source
from services.ops.kafka_logs import LogRecord
from services.ops.lake.delta_receipts import TableReceipts, read_receipts
from shared import wire
from shared.lake.delta_files import Partition
from shared.lake.lake_topic import PositionKey
from shared.lake.transactions import landed_id, position_id
from tests.fixtures.delta_tables import FIRST_DAY, TOPIC, TOPIC_ID, append, rows, small_files

KEY = PositionKey("flights", TOPIC, TOPIC_ID, 0)
HEADERS = {wire.HEADER_CONTEXT: b'{"consumer": {"type": "data_pipeline"}}'}


def read(folder: Path) -> TableReceipts:
    return read_receipts("flights", DeltaTable(str(folder)), [KEY], {TOPIC: TOPIC_ID})


def totals(folder: Path) -> list[tuple[Code, str]]:
    receipts = read(folder)
    return [(f.code, f.receipt) for line in lines_of(receipts) for f in check_totals(receipts, line)]


def record(offset: int, name: str = "flight_departed", day: date = FIRST_DAY, version: str = "1") -> Event:
    metadata = {"id": f"0-{offset}", "timestamp": f"{day}T00:00:00Z", "version": version}
    value = json.dumps({"metadata": metadata, "event_name": name, "payload": {}}).encode()
    return classify(
        LogRecord(
            source=Source(TOPIC, 0),
            offset=offset,
            timestamp=0,
            key=None,
            value=value,
            headers=HEADERS,
            header_count=1,
        ),
        TOPIC,
    )


def compare(
    receipts: TableReceipts,
    events: list[Event],
    *,
    first: int = 0,
    start: int = 0,
    is_for_table: Callable[[str], bool] = "flight_departed".__eq__,
) -> list[tuple[Code, int | None]]:
    upto = receipts.positions[KEY].next_offset
    check = ReceiptCheck(receipts, KEY, first=first, start=start, upto=upto, is_for_table=is_for_table)
    for event in events:
        check.check(event)
    return [(finding.code, finding.offset) for finding in check.finish()]


def test_a_sound_table_reconciles(tmp_path: Path) -> None:
    small_files(str(tmp_path), 3)
    append(str(tmp_path), 1, 5)
    receipts = read(tmp_path)
    lines = [(line.partition, line.next_offset, line.landed, line.rows) for line in lines_of(receipts)]
    assert lines == [(0, 30, 30, 30), (1, 5, 5, 5)]
    assert totals(tmp_path) == []
    assert compare(receipts, [record(offset) for offset in range(30)]) == []


def test_a_file_that_was_removed_by_hand_is_named_with_its_receipts(tmp_path: Path) -> None:
    table = small_files(str(tmp_path), 3)
    lost = next(path for path in table.file_uris() if "-c000" in path)
    (tmp_path / lost.removeprefix(str(tmp_path) + "/")).unlink()
    receipts = read(tmp_path)
    (finding,) = check_files(receipts, [TOPIC])
    present = set(receipts.offsets[Source(TOPIC, 0)])
    missing = [offset for offset in range(30) if offset not in present]
    assert (finding.code, finding.source) == (Code.LOST, Source(TOPIC, 0))
    assert f"10 rows are missing, offsets {missing[0]} to {missing[-1]} of partition 0" in finding.detail
    assert totals(tmp_path) == [(Code.WRONG_TOTAL, f"{TOPIC}/0")]
    events = [record(offset) for offset in range(30)]
    assert compare(receipts, events) == [(Code.LOST, offset) for offset in missing]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    table = small_files(str(tmp_path), 2)
    path = Path(table.file_uris()[0])
    path.write_bytes(b"PAR1" + b"\0" * (path.stat().st_size - 8) + b"PAR1")
    assert [f.code for f in check_files(read(tmp_path), [TOPIC])] == [Code.LOST]


def test_a_receipt_with_two_rows_is_found(tmp_path: Path) -> None:
    small_files(str(tmp_path), 2)
    write_deltalake(str(tmp_path), rows(0, [7, 8], [FIRST_DAY]), mode="append")
    assert totals(tmp_path) == [
        (Code.WRONG_TOTAL, f"{TOPIC}/0"),
        (Code.DUPLICATE, f"{TOPIC}/0/7"),
        (Code.DUPLICATE, f"{TOPIC}/0/8"),
    ]


def test_a_recreated_topic_has_equal_offsets(tmp_path: Path) -> None:
    small_files(str(tmp_path), 2)
    other = [Transaction(position_id("other", 0), 20), Transaction(landed_id("other", 0), 20)]
    data = rows(0, range(20), [FIRST_DAY])
    write_deltalake(
        str(tmp_path), data, mode="append", commit_properties=CommitProperties(app_transactions=other)
    )
    table, earlier = DeltaTable(str(tmp_path)), PositionKey("flights", TOPIC, "other", 0)
    receipts = read_receipts("flights", table, [KEY, earlier], {TOPIC: TOPIC_ID})
    (line,) = lines_of(receipts)
    assert (line.landed, line.rows) == (40, 40)
    assert [*check_totals(receipts, line)] == []


def test_dropped_dates_are_neither_lost_nor_a_wrong_total(tmp_path: Path) -> None:
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    table = small_files(str(tmp_path), 2, days=days)
    drop(table, Partition("_date", "2026-01-01"))
    receipts = read(tmp_path)
    (line,) = lines_of(receipts)
    assert (line.rows, line.dropped, line.landed) == (10, 10, 20)
    assert [*check_totals(receipts, line)] == []
    assert compare(receipts, [record(offset, day=days[offset % 2]) for offset in range(20)]) == []
    later = [record(offset, day=date(2026, 1, 2)) for offset in range(20)]
    assert compare(receipts, later) == [(Code.LOST, offset) for offset in range(0, 20, 2)]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([0, 1, 2, 3], []),
        ([0, 2, 3], [(Code.PHANTOM, 1)]),
        ([0, 1, 2], [(Code.PHANTOM, 3)]),
    ],
)
def test_a_row_whose_receipt_kafka_does_not_know(
    tmp_path: Path, events: list[int], expected: list[tuple[Code, int]]
) -> None:
    append(str(tmp_path), 0, 4)
    assert compare(read(tmp_path), [record(offset) for offset in events]) == expected


def test_rows_that_kafka_has_deleted_and_events_before_the_start_are_not_compared(tmp_path: Path) -> None:
    append(str(tmp_path), 0, 4)
    receipts = read(tmp_path)
    assert compare(receipts, [record(2), record(3)], first=2) == []
    late = TableReceipts("flights", 1, positions=receipts.positions)
    events = [record(offset) for offset in range(4)]
    assert compare(late, events, start=3) == [(Code.LOST, 3)]


def test_events_of_other_types_and_invalid_ones_have_no_row(tmp_path: Path) -> None:
    append(str(tmp_path), 0, 4)
    receipts = read(tmp_path)
    events = [record(0), record(1, "train_departed"), record(2), record(3)]
    assert compare(receipts, events) == [(Code.PHANTOM, 1)]
    none = TableReceipts("flights", 1, positions=receipts.positions)
    parked = [record(0, version="\x07"), record(1, "train_departed")]
    assert compare(none, parked) == []


def test_a_row_above_the_position_is_found(tmp_path: Path) -> None:
    append(str(tmp_path), 0, 4)
    write_deltalake(str(tmp_path), rows(0, [9], [FIRST_DAY]), mode="append")
    events = [record(offset) for offset in range(4)]
    assert compare(read(tmp_path), events) == [(Code.PHANTOM, 9)]


def test_events_of_the_probe_have_rows(tmp_path: Path) -> None:
    append(str(tmp_path), 0, 2)
    events = [record(0, wire.PROBE_EVENT), record(1, wire.PROBE_EVENT)]
    assert compare(read(tmp_path), events, is_for_table=wire.PROBE_EVENT.__eq__) == []
