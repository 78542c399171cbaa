"""Landing a batch is exactly once, in every state of earlier commits; without Kafka."""

import datetime as dt
import threading
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from services.lake.task import delta_commit
from services.lake.task import land as land_module
from services.lake.task.land import land, land_share
from shared.errors import LAKE_TABLE_HALTED, LAKE_UNAVAILABLE
from shared.kafka_read.decompress import CorruptBatchError
from shared.kafka_read.offsets import Partition, Range
from shared.kafka_read.records import PartitionSlice
from shared.lake.delta_log import position_of
from shared.lake.transactions import TablePosition
from tests.fixtures.writer import arrivals, envelope, event, read
from tests.unit.lake.orders import P0, P1, TOPIC_ID, Lake, key, partitioning


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_a_table_is_created_with_protocol_versions_that_each_reader_has(lake: Lake) -> None:
    assert lake.land_flights(range(3)).rows == 3
    protocol = lake.delta().protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert (protocol.reader_features, protocol.writer_features) == (None, None)
    assert lake.rows()["p_n"].to_pylist() == [0, 1, 2]
    assert lake.delta().metadata().configuration["onramp.owner"] == "cluster"


def test_a_repeated_batch_lands_nothing_again(lake: Lake) -> None:
    assert lake.land_flights(range(10)).positions == {key(): TablePosition(10, 10)}
    again = lake.land_flights(range(10))
    assert (again.rows, again.commits, again.positions) == (0, 0, {key(): TablePosition(10, 10)})
    assert lake.offsets() == list(range(10))


def test_a_batch_with_other_bounds_lands_the_rest_alone(lake: Lake) -> None:
    """As after a driver whose batch ended elsewhere."""
    lake.land_flights(range(10))
    later = lake.land_flights(range(5, 15))
    assert (later.rows, later.positions) == (5, {key(): TablePosition(15, 15)})
    assert lake.offsets() == list(range(15))


def test_two_commits_from_one_version_land_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two drivers with one batch: the second commit is refused, compares again, and has nothing left."""
    lake.land_flights(range(1))
    write, other = delta_commit._write, list[bool]()

    def write_second(*arguments: Any) -> None:
        if not other:
            other.append(True)
            lake.land_flights(range(1, 5))
        write(*arguments)

    monkeypatch.setattr(delta_commit, "_write", write_second)
    report = lake.land_flights(range(1, 5))
    assert (report.refused, report.rows) == (1, 0)
    assert lake.offsets() == list(range(5))


def test_a_lost_reply_lands_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit to the log, and return an error as the answer."""
    write, lost = delta_commit._write, list[bool]()

    def write_and_fail(*arguments: Any) -> None:
        write(*arguments)
        if not lost:
            lost.append(True)
            raise OSError("connection reset")

    monkeypatch.setattr(delta_commit, "_write", write_and_fail)
    assert lake.land_flights(range(5)).failure == LAKE_UNAVAILABLE.code
    assert lake.land_flights(range(5)).failure is None
    assert lake.offsets() == list(range(5))


def test_files_of_a_refused_commit_are_in_no_version(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave files without a commit, as a killed task does."""

    def write_files_only(*_: Any) -> None:
        (lake.folder / "flights" / "_date=2026-11-21").mkdir(exist_ok=True)
        (lake.folder / "flights" / "_date=2026-11-21" / "part-orphan.parquet").write_bytes(b"PAR1")
        raise CommitFailedError("refused")

    with monkeypatch.context() as patch:
        patch.setattr(delta_commit, "_write", write_files_only)
        assert lake.land_flights(range(5)).failure == LAKE_UNAVAILABLE.code
    assert lake.land_flights(range(5)).rows == 5
    assert lake.offsets() == list(range(5))


def test_two_tasks_create_one_table_and_add_different_columns_at_once(lake: Lake, tmp_path: Path) -> None:
    other = Lake(tmp_path, {"properties": {"n": {"type": "integer"}, "dest": {"type": "string"}}})
    for round_ in range(5):
        numbers = range(round_ * 10, round_ * 10 + 10)
        tasks = [
            threading.Thread(target=lake.land_flights, args=(numbers, P0)),
            threading.Thread(target=other.land_flights, args=(numbers, P1)),
        ]
        for task in tasks:
            task.start()
        for task in tasks:
            task.join()
    rows = lake.rows()
    assert rows.num_rows == 100
    assert {"p_n", "p_origin", "p_dest"} <= set(rows.column_names)
    assert sorted(rows["p_n"].to_pylist()) == sorted([*range(50)] * 2)


def test_positions_survive_a_checkpoint(lake: Lake) -> None:
    for n in range(45):
        lake.land_flights(range(n, n + 1))
    assert list((lake.folder / "flights" / "_delta_log").glob("*.checkpoint.parquet"))
    for file in sorted((lake.folder / "flights" / "_delta_log").glob("*.json"))[:20]:
        file.unlink()
    assert position_of(lake.delta(), TOPIC_ID, 0) == TablePosition(45, 45)
    assert lake.land_flights(range(45)).rows == 0


def test_a_restored_table_is_halted_and_continues_when_it_is_whole_again(lake: Lake) -> None:
    lake.land_flights(range(5))
    lake.positions |= lake.land_flights(range(5, 10)).positions
    lake.delta().restore(1)
    (lake.folder / "flights" / "_delta_log" / "00000000000000000003.json").unlink()
    (newest := lake.folder / "flights" / "_delta_log" / "00000000000000000002.json").rename(
        aside := lake.folder / "aside.json"
    )
    halted = lake.land_flights(range(10, 12))
    assert halted.failure == LAKE_TABLE_HALTED.code
    assert "below 10 and has the offsets below 5" in halted.detail
    aside.rename(newest)
    assert lake.land_flights(range(10, 12)).failure is None
    assert lake.offsets() == list(range(12))


def test_a_removed_table_is_halted_instead_of_created_anew(lake: Lake) -> None:
    lake.positions |= lake.land_flights(range(5)).positions
    (lake.folder / "flights").rename(lake.folder / "gone")
    assert lake.land_flights(range(5, 7)).failure == LAKE_TABLE_HALTED.code
    assert not (lake.folder / "flights").exists()


def test_the_table_of_another_onramp_or_program_is_halted(lake: Lake, tmp_path: Path) -> None:
    lake.land_flights(range(5))
    lake.owner = "another"
    halted = lake.land_flights(range(5))
    assert halted.failure == LAKE_TABLE_HALTED.code
    assert "Kafka cluster cluster" in halted.detail
    foreign = Lake(tmp_path / "foreign")
    DeltaTable.create(str(tmp_path / "foreign" / "flights"), lake.rows().schema)
    assert foreign.land_flights(range(5)).failure == LAKE_TABLE_HALTED.code


def test_a_folder_with_foreign_files_is_left_alone(lake: Lake) -> None:
    (lake.folder / "flights").mkdir()
    (lake.folder / "flights" / "thesis.docx").write_bytes(b"years of work")
    halted = lake.land_flights(range(5))
    assert (halted.failure, "move them away" in halted.detail) == (LAKE_TABLE_HALTED.code, True)
    assert [each.name for each in (lake.folder / "flights").iterdir()] == ["thesis.docx"]


@pytest.mark.parametrize("damage", ["garbage", "gap", "empty"])
def test_a_damaged_log_halts_its_table_alone(lake: Lake, damage: str) -> None:
    for n in range(3):
        lake.land_flights(range(n, n + 1))
    entries = sorted((lake.folder / "flights" / "_delta_log").glob("*.json"))
    if damage == "gap":
        entries[1].unlink()
    else:
        entries[1].write_text("nonsense\n" if damage == "garbage" else "")
    lake.routed = ("flight", "another")
    report = lake.land([event("a", "flight", n=3), event("b", "another")], first=3)
    failures = {table.table: table.failure for table in report.tables}
    if damage != "empty":  # an empty entry is an entry without actions
        assert failures == {"flights": LAKE_TABLE_HALTED.code, "another": None}
        assert report.ranges[0].failed_table == "flights"
    assert lake.rows("another").num_rows == 1


def test_an_unreachable_storage_fails_and_is_no_halt() -> None:
    lake = Lake(Path("/proc/nowhere"))
    assert lake.land_flights(range(5)).failure == LAKE_UNAVAILABLE.code


def test_rows_before_the_start_of_a_new_table_are_left_out(lake: Lake) -> None:
    lake.starts[key()] = 7
    assert lake.land_flights(range(10)).rows == 3
    assert lake.offsets() == [7, 8, 9]


def test_many_bytes_are_committed_early_and_each_once(lake: Lake) -> None:
    lake.flush_bytes = 1
    order = lake.order(Range(TOPIC_ID, P0, 0, 20))
    pieces = [
        arrivals([event(f"{n}", "flight", n=n) for n in numbers], first=numbers.start, partition=P0)
        for numbers in (range(10), range(10, 20))
    ]
    (table,) = land(order, [P0], read(*pieces)).tables
    assert (table.commits, table.positions) == (2, {key(): TablePosition(20, 20)})
    assert lake.land_flights(range(20)).rows == 0


def test_other_records_are_filtered_and_a_retry_is_counted(lake: Lake) -> None:
    packet = b'{"pipeline_context":{"destinations":[]},"data":{}}'
    huge = envelope("c", "flight", b'{"n":1e400}')  # no double has it: the writer parks it
    values = [event("a", "flight"), event("a", "flight"), event("b", "another"), huge, None, packet]
    report = lake.land(values)
    (table,), (range_,) = report.tables, report.ranges
    assert (table.rows, table.repeated) == (2, 1)
    assert (range_.read, range_.filtered) == (6, 4)
    assert table.positions == {key(): TablePosition(6, 2)}


def test_types_without_a_route_land_from_their_own_topics_if_the_operator_allows_it(lake: Lake) -> None:
    own = Partition("events.another", 0)
    assert lake.land([event("a", "another")], partition=own).tables == []
    lake.is_all = True
    lake.land([event("a", "another", x=1)], partition=own)
    assert lake.rows("another")["payload"].to_pylist() == ['{"x":1}']
    assert lake.land([event(f"{n}", f"name_{n}") for n in range(5)]).tables == []


CHANGED = {"properties": {"n": {"type": "string"}, "origin": {"type": "integer"}}}


@pytest.mark.parametrize("schema", [CHANGED, {"$ref": "#/$defs/Flight", "$defs": {"Flight": CHANGED}}])
def test_a_changed_type_keeps_the_column_and_rescues_the_value(lake: Lake, schema: dict[str, Any]) -> None:
    lake.land_flights(range(1))
    lake.schema = schema
    (table,) = lake.land([event("b", "flight", n="seven", origin=5)], first=1).tables
    assert table.rescued == 2
    rows = lake.rows()
    assert (rows["p_n"].to_pylist(), rows["p_origin"].to_pylist()) == ([0, None], [None, None])
    assert rows["payload"].to_pylist()[1] == '{"n":"seven","origin":5}'


def test_hostile_values_land_whole_in_the_payload(lake: Lake) -> None:
    lake.schema = {
        "properties": {
            "n": {"type": "number"},
            "i": {"type": "integer"},
            "t": {"type": "string", "format": "date-time"},
            "a.b c": {"type": "string"},
            "N": {"type": "integer"},
            "x" * 300: {"type": "boolean"},
        }
    }
    payloads = [
        b'{"n":"1","i":9223372036854775808,"t":"0000-01-01T00:00:00Z","a.b c":5,"N":1.5,"%s":0}'
        % (b"x" * 300),
        b'{"n":1,"i":1.0,"t":"2026-01-01T00:00:00+02:00","a.b c":"y","N":2,"%s":true}' % (b"x" * 300),
    ]
    (table,) = lake.land([envelope(f"{n}", "flight", each) for n, each in enumerate(payloads * 40)]).tables
    assert (table.rows, table.rescued) == (80, 240)
    rows = lake.rows()
    assert rows["payload"].to_pylist() == [each.decode() for each in payloads * 40]
    typed = [name for name in rows.column_names if name.startswith("p_")]
    assert len(typed) == 6
    assert all(rows[name][0].as_py() is None and rows[name][1].as_py() is not None for name in typed)


@pytest.mark.parametrize(("name", "columns"), [("day", ["_date"]), ("month", ["_month"]), ("none", [])])
def test_partitioning_is_fixed_at_the_creation(lake: Lake, name: str, columns: list[str]) -> None:
    lake.table_options = partitioning(name)
    lake.land_flights(range(2))
    lake.table_options = partitioning("day" if name == "none" else "none")
    lake.land_flights(range(2, 4))
    assert lake.delta().metadata().partition_columns == columns
    rows = lake.rows()
    assert set(rows["_date"].to_pylist()) == {dt.date(2026, 11, 21)}
    if name == "month":
        assert set(rows["_month"].to_pylist()) == {dt.date(2026, 11, 1)}


def test_impossible_and_too_many_dates_are_null(lake: Lake) -> None:
    stamps = ["1999-12-31T23:59:59Z", "9999-12-31T00:00:00Z", "0001-01-01T00:00:00Z"]
    days = [dt.date(2001, 1, 1) + dt.timedelta(n) for n in range(1_000)]
    stamps += [f"{day}T12:00:00Z" for day in days]
    values = [
        event(f"{n}", "flight").replace(b"2026-11-21T08:00:00Z", stamp.encode())
        for n, stamp in enumerate(stamps)
    ]
    (table,) = lake.land(values).tables
    assert table.rows == len(values)
    dates = lake.rows()["_date"].to_pylist()
    assert dates[:3] == [None] * 3
    assert len(set(dates)) == 200  # with null
    assert dates.count(None) == 3 + 801


class Corrupt:
    """A reader of a partition with a corrupt batch."""

    def read(self, _: Iterable[Range]) -> Generator[list[PartitionSlice]]:
        raise CorruptBatchError("the record batch at offset 3 cannot be decompressed")
        yield []


def test_a_range_that_cannot_be_read_is_reported_alone(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(land_module, "_reader_of", lambda _: Corrupt())
    order = lake.order(Range(TOPIC_ID, P0, 0, 5), Range(TOPIC_ID, P1, 0, 5))
    (report,) = land_share(order, [[P0], [P1]], iter([0]))
    assert [(each.partition, each.unreadable) for each in report.ranges] == [
        (P0, "the record batch at offset 3 cannot be decompressed")
    ]
    with pytest.raises(CorruptBatchError):  # which of the two it is, the driver finds
        land_share(order, [[P0], [P1]], iter([0, 1]))
