"""Parses the records of many slices together, and builds their landing rows: SORT of writer and lake."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shared import landing_rows, wire
from shared.errors import RECORD_HEADERS_TOO_LARGE, UserError
from shared.kafka_read.records import LARGE, PartitionSlice
from shared.parse.events import Events
from shared.parse.parse import read

#: The columns of a record, in addition to the value, that its row needs.
_JOINED: Final = ["topic", "partition", "offset", "received_at", "timestamp"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """At least one slice, and the events and rows of all slices' records, concatenated."""

    slices: Sequence[PartitionSlice]
    events: Events
    rows: pa.RecordBatch


def parse(slices: Sequence[PartitionSlice]) -> Parsed:
    """Parse the records of `slices` together, because each of a hundred partitions may have few records."""
    events = _read(slices)
    return Parsed(slices, events, landing_rows.rows(_records(slices), events.columns))


def _records(slices: Sequence[PartitionSlice]) -> pa.RecordBatch:
    """Concatenate the slices' records without their values, which the events contain."""
    return pa.RecordBatch.from_arrays(
        [pa.concat_arrays([each.rows.column(name) for each in slices]) for name in _JOINED], names=_JOINED
    )


def _read(slices: Sequence[PartitionSlice]) -> Events:
    """Parse the values; a record whose headers were too large to carry is invalid regardless of its value."""
    values = pa.concat_arrays([each.rows.column("value") for each in slices])
    large = pc.equal(pa.concat_arrays([each.rows.column("context") for each in slices]), LARGE)
    if not pc.any(large).as_py():
        return read(values)
    events = read(pc.if_else(large, pa.scalar(None, values.type), values))
    errors = dict(events.errors) | {int(i): _headers_too_large() for i in np.flatnonzero(large)}
    return replace(events, errors=errors)


def _headers_too_large() -> UserError:
    detail = (
        f"{wire.HEADER_CONTEXT} and {wire.HEADER_RECEIVED_AT} have more than {wire.MAX_HEADER_BYTES:,} "
        f"bytes together, or there are more than {wire.MAX_HEADERS} headers; the record's value is stored, "
        "its headers are not"
    )
    return UserError(RECORD_HEADERS_TOO_LARGE, detail)
