"""READ and FILTER: runs of one partition, what is settled left out, and the context header."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.writer.model.offsets import Partition
from services.writer.model.records import USUAL, PartitionSlice, runs
from shared import wire
from tests.fixtures.writer import PARTITION, arrivals

OTHERS = [Partition("events.order_placed", 1), Partition("events.other", 0)]


def _offsets(run: PartitionSlice) -> list[int]:
    return run.rows.column("offset").to_pylist()


def _with_context(context: bytes | None) -> PartitionSlice:
    batch = arrivals([b"{}"], context=[USUAL if context == wire.CONTEXT_BYTES else context or None])
    return PartitionSlice(PARTITION, batch).wanted()


@settings(deadline=None)  # the first call loads Arrow's kernels
@given(st.lists(st.sampled_from([PARTITION, *OTHERS]), max_size=20))
def test_runs_hold_every_record_once_in_order_and_one_partition_each(order: list[Partition]) -> None:
    batch = pa.Table.from_batches(
        [arrivals([b"{}"], first=at, partition=p) for at, p in enumerate(order)], schema=arrivals([]).schema
    ).combine_chunks()
    found = [(run.partition, o) for b in batch.to_batches() for run in runs(b) for o in _offsets(run)]
    assert found == [(p, at) for at, p in enumerate(order)]


def test_neighbours_of_one_partition_are_one_run() -> None:
    assert [len(run) for run in runs(arrivals([b"{}"] * 5))] == [5]


def test_an_empty_batch_has_no_runs() -> None:
    assert list(runs(arrivals([]))) == []


@pytest.mark.parametrize(
    ("offset", "left"), [(0, [10, 11, 15]), (10, [10, 11, 15]), (11, [11, 15]), (12, [15]), (16, [])]
)
def test_since_leaves_out_what_is_settled_also_across_holes(offset: int, left: list[int]) -> None:
    batch = arrivals([b"{}"] * 3, offset=[10, 11, 15])
    assert _offsets(PartitionSlice(PARTITION, batch).since(offset)) == left


@pytest.mark.parametrize(
    "context",
    [
        wire.CONTEXT_BYTES,
        b'{"consumer": {"type": "data_pipeline"}}',
        b' {\n"consumer":\t{"type":"data_pipeline"} }\n',
        b'{"consumer":{"type":"data\\u005fpipeline"}}',
    ],
)
def test_the_same_json_in_other_bytes_is_wanted(context: bytes) -> None:  # W2
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
def test_an_absent_or_other_context_is_filtered(context: bytes | None) -> None:  # W2
    assert len(_with_context(context)) == 0


def test_wanted_keeps_the_wanted_in_place_among_all_kinds() -> None:
    batch = arrivals(
        [b"{}"] * 5,
        context=[USUAL, b'{"consumer": {"type": "data_pipeline"}}', b"no", None, USUAL],
    )
    assert _offsets(PartitionSlice(PARTITION, batch).wanted()) == [0, 1, 4]
