"""The parsed events of a batch as Arrow columns: one row for each Kafka value, in order, valid or not."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shared.errors import UserError

#: A packet's row has no metadata; the row of an invalid value is all null.  `body`: the JSON that
#: lands, an envelope's payload or a packet's data.  `context`: a `pipeline_context`, as sent.
COLUMNS: Final = pa.schema(
    [
        ("id", pa.string()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("version", pa.string()),
        ("event_name", pa.string()),
        ("body", pa.string()),
        ("context", pa.binary()),
    ]
)
#: Indices of values in their batch, starting at 0.
RowIndices = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Events:
    """One row of `columns` (`COLUMNS`) for each value; `errors`: reasons of invalid rows, by row index."""

    columns: pa.RecordBatch
    errors: Mapping[int, UserError] = field(default_factory=dict)

    def slice(self, start: int, length: int) -> "Events":
        """Return rows `start` to `start + length`, re-indexed from 0, as a view without a copy."""
        bad = list(self.errors)
        inside = bad[bisect_left(bad, start) : bisect_left(bad, start + length)]
        return Events(self.columns.slice(start, length), {i - start: self.errors[i] for i in inside})

    def by_context(self) -> dict[bytes, RowIndices]:
        """Group the rows of events that name their own destinations, by the bytes of that context."""
        return group(self.columns.column("context"))

    def by_name(self) -> dict[str, RowIndices]:
        """Group the rows of all other events, by event name."""
        names, contexts = self.columns.column("event_name"), self.columns.column("context")
        if contexts.null_count < len(contexts):
            names = pc.if_else(contexts.is_null(), names, None)
        return group(names)


def merge(parts: Iterable[tuple[RowIndices, Events]]) -> Events:
    """Merge `parts` in the order of their values; each part comes with its rows' indices in the batch."""
    indices, columns, errors = [], [], {}
    for rows, events in parts:
        indices.append(rows)
        columns.append(events.columns)
        errors.update({int(rows[i]): error for i, error in events.errors.items()})
    errors = dict(sorted(errors.items()))
    if len(columns) == 1:
        return Events(columns[0], errors)
    order = np.argsort(np.concatenate(indices), kind="stable")
    whole = pa.Table.from_batches(columns).combine_chunks().take(order)
    return Events(whole.to_batches()[0], errors)


def group(column: pa.Array) -> dict[Any, RowIndices]:
    """Group row indices by the values of `column`, ascending within a group; nulls belong to no group."""
    if column.null_count == len(column):
        return {}
    encoded = column.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    if len(distinct) == 1 and not column.null_count:
        return {distinct[0]: np.arange(len(column))}
    codes = encoded.indices.fill_null(-1).to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(distinct) + 1))
    return {value: order[starts[i] : starts[i + 1]] for i, value in enumerate(distinct)}
