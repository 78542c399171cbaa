"""FILTER: the context header, the time of receipt and the size of records."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from shared import wire
from shared.kafka_read.records import USUAL, PartitionSlice, received_at, wanted_of
from tests.fixtures.writer import PARTITION, arrivals


def _offsets(run: PartitionSlice) -> list[int]:
    return run.rows.column("offset").to_pylist()


def _with_context(context: bytes | None) -> PartitionSlice:
    batch = arrivals([b"{}"], context=[USUAL if context == wire.CONTEXT_BYTES else context or None])
    return PartitionSlice(PARTITION, batch).wanted()


@pytest.mark.parametrize(
    "context",
    [
        wire.CONTEXT_BYTES,
        b'{"consumer": {"type": "data_pipeline"}}',
        b' {\n"consumer":\t{"type":"data_pipeline"} }\n',
        b'{"consumer":{"type":"data\\u005fpipeline"}}',
    ],
)
def test_the_same_json_in_other_bytes_is_wanted(context: bytes) -> None:
    assert len(_with_context(context)) == 1


@pytest.mark.parametrize(
    "context",
    [
        None,
        b"",
        b"data_pipeline",
        b'{"consumer":{"type":"other"}}',
        b'{"consumer":{"type":"data_pipeline"}',
        b'{"consumer":"data_pipeline"}',
        b"null",
        b"\xff\xfe",
        b"[" * 5000,
    ],
)
def test_an_absent_or_other_context_is_filtered(context: bytes | None) -> None:
    assert len(_with_context(context)) == 0


def test_wanted_keeps_the_wanted_in_place_among_all_kinds() -> None:
    batch = arrivals(
        [b"{}"] * 5,
        context=[USUAL, b'{"consumer": {"type": "data_pipeline"}}', b"no", None, USUAL],
    )
    assert _offsets(PartitionSlice(PARTITION, batch).wanted()) == [0, 1, 4]


@pytest.mark.parametrize("other", [None, b"no", b'{"consumer": {"type": "data_pipeline"}}'])
def test_many_slices_are_filtered_as_each_by_itself(other: bytes | None) -> None:
    usual = [PartitionSlice(PARTITION, arrivals([b"{}"] * 2, first=first)) for first in (0, 2)]
    assert [id(each) for each in wanted_of(usual)] == [id(each) for each in usual]
    slices = [*usual, PartitionSlice(PARTITION, arrivals([b"{}"] * 2, first=4, context=[USUAL, other]))]
    assert [_offsets(each) for each in wanted_of(slices)] == [_offsets(each.wanted()) for each in slices]
    assert wanted_of([]) == []


@pytest.mark.parametrize("other", [b"at noon", b"9999-12-31T23:59:59-08:00"])
@pytest.mark.parametrize("at", [0, 63, 64, 199])
def test_a_header_that_is_no_time_is_its_records_own_affair(at: int, other: bytes) -> None:
    records = arrivals([b"{}"] * 200)
    headers = [f"2026-11-21T08:00:00.{n:06d}Z".encode() for n in range(200)]
    headers[at] = other
    place = records.schema.get_field_index("received_at")
    records = records.set_column(place, "received_at", pa.array(headers, pa.binary()))
    expected = [datetime(2026, 11, 21, 8, 0, 0, n, UTC) for n in range(200)]
    expected[at] = records.column("timestamp")[at].as_py()
    assert received_at(records).to_pylist() == expected


def test_a_slice_is_as_large_as_what_clients_wrote() -> None:
    large = arrivals([b"x" * 10_000, None, b"{}"], context=[USUAL, b"y" * 5_000, None])
    whole, last = (PartitionSlice(PARTITION, rows).size for rows in (large, large.slice(2)))
    assert 15_000 < whole < 16_000
    assert last < 500
    assert PartitionSlice(PARTITION, large.slice(3)).size == 0
