"""What a batch's values are, as columns: a row for each value, whatever it is."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shared.errors import UserError

#: A packet has no metadata, and what is neither envelope nor packet has nothing.  `body` is
#: what lands: an envelope's payload, a packet's data.  `context`: a `pipeline_context`, as sent.
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
Places = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Events:
    """The events of some values, in their order, and why a value is none, by its place, in that order."""

    columns: pa.RecordBatch
    errors: Mapping[int, UserError] = field(default_factory=dict)

    def part(self, start: int, length: int) -> "Events":
        """So many of them from `start` on."""
        at = list(self.errors)
        here = at[bisect_left(at, start) : bisect_left(at, start + length)]
        return Events(self.columns.slice(start, length), {i - start: self.errors[i] for i in here})

    def by_context(self) -> dict[bytes, Places]:
        """The places of the events that name their destinations, by what they say."""
        return _places(self.columns.column("context"))

    def by_name(self) -> dict[str, Places]:
        """The places of all other events, by their names."""
        names, contexts = self.columns.column("event_name"), self.columns.column("context")
        if contexts.null_count < len(contexts):
            names = pc.if_else(contexts.is_null(), names, None)
        return _places(names)


def together(parts: Iterable[tuple[Places, Events]]) -> Events:
    """The events of `parts`, each with the places of its events in the whole."""
    at, columns, errors = [], [], {}
    for places, events in parts:
        at.append(places)
        columns.append(events.columns)
        errors.update({int(places[i]): error for i, error in events.errors.items()})
    errors = dict(sorted(errors.items()))
    if len(columns) == 1:
        return Events(columns[0], errors)
    order = np.argsort(np.concatenate(at), kind="stable")
    whole = pa.Table.from_batches(columns).combine_chunks().take(order)
    return Events(whole.to_batches()[0], errors)


def _places(column: pa.Array) -> dict[Any, Places]:
    """Where each distinct value of `column` stands; nulls stand nowhere."""
    encoded = column.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    if len(distinct) == 1 and not column.null_count:
        return {distinct[0]: np.arange(len(column))}
    codes = encoded.indices.fill_null(-1).to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(distinct) + 1))
    return {value: order[starts[i] : starts[i + 1]] for i, value in enumerate(distinct)}
