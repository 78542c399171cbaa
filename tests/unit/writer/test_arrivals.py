"""FILTER: the context header."""

import pytest

from services.writer.model.records import USUAL, PartitionSlice
from shared import wire
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
