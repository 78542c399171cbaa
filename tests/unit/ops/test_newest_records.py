"""The newest records of a topic are bounded by their number and by their bytes."""

from services.ops.findings import Source
from services.ops.kafka_logs import LogRecord
from services.ops.operate.newest_records import NewestRecords


def _record(offset: int, size: int, partition: int = 0) -> LogRecord:
    source = Source("events.order_made", partition)
    value = b"x" * size
    return LogRecord(
        source=source, offset=offset, timestamp=offset, key=None, value=value, headers={}, header_count=0
    )


def _offsets(records: NewestRecords) -> list[int]:
    return [record.offset for record in records.by_time()]


def test_the_newest_of_all_partitions_are_returned_by_time() -> None:
    records = NewestRecords(last=3)
    for offset in (5, 1, 4, 2, 3):
        records.add(_record(offset, 10, partition=offset % 2))
    assert _offsets(records) == [3, 4, 5]


def test_large_records_are_bounded_by_their_bytes_and_not_by_their_number() -> None:
    records = NewestRecords(last=1000, max_bytes=100)
    for offset in range(10):
        records.add(_record(offset, 30))
    assert _offsets(records) == [7, 8, 9]
    records.add(_record(10, 500))  # one record is returned at any size
    assert _offsets(records) == [10]
