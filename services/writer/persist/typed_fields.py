"""The data of a typed table's rows by field: as columns if many rows share a layout, otherwise row by row."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from services.writer.columns import same_fields
from services.writer.columns.column_types import Column
from services.writer.columns.json_to_text import MisfitError, as_texts
from services.writer.columns.same_fields import Layout, raw_fields
from services.writer.columns.values_to_text import texts_of

_Mask = np.ndarray[Any, np.dtype[np.bool_]]
RowIndices = np.ndarray[Any, np.dtype[np.int64]]
#: The converted values of a column: texts, and errors by the value's index among them.
Texts = tuple[pa.Array, dict[int, MisfitError]]
#: Rows cut at a time, so that they remain in the processor's cache.
_ROWS: Final = 8_192
#: Minimum rows to cut together; fewer rows are cheaper to parse one by one.
_FEW: Final = 64
#: Maximum layouts tried on `_ROWS` rows; rows without one of them are parsed one by one.
_MAX_LAYOUTS: Final = 4


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows of one layout, ascending: a column of values for each field, texts without their quotes."""

    row_indices: RowIndices
    layout: Layout
    values: list[pa.BinaryArray]

    @property
    def names(self) -> frozenset[str]:
        """The names of the fields."""
        return frozenset(self.layout.names)

    def texts(self, column: Column) -> Texts:
        """Return the rows' values for `column`, one of the fields."""
        i = self.layout.names.index(column.name)
        return texts_of(column.type, self.values[i], quoted=self.layout.are_texts[i])

    def only(self, mask: _Mask) -> "Cut":
        """Return those of the rows that `mask` selects."""
        return Cut(self.row_indices[mask], self.layout, [v.filter(pa.array(mask)) for v in self.values])


@dataclass(frozen=True, slots=True)
class Parsed:
    """Rows with the same fields, ascending: a mapping of fields to values for each row."""

    row_indices: RowIndices
    names: frozenset[str]
    data: Sequence[dict[str, msgspec.Raw]]

    def texts(self, column: Column) -> Texts:
        """Return the rows' values for `column`, one of the fields."""
        texts, misfits = as_texts(column.type, [fields[column.name] for fields in self.data])
        return pa.array(texts, pa.string()), misfits

    def only(self, mask: _Mask) -> "Parsed":
        """Return those of the rows that `mask` selects."""
        data = [fields for fields, wanted in zip(self.data, mask.tolist(), strict=True) if wanted]
        return Parsed(self.row_indices[mask], self.names, data)


SameFields = Cut | Parsed


def parts_of(payloads: pa.ChunkedArray) -> Iterator[SameFields]:
    """Yield `payloads` (strict JSON objects) in parts whose rows have the same fields.

    Costs a few passes over their bytes, and a parse of each payload without a shared layout.
    """
    bodies = payloads.combine_chunks().view(pa.binary())
    layouts: list[Layout] = []
    for start in range(0, len(bodies), _ROWS):
        left = np.arange(start, min(start + _ROWS, len(bodies)))
        cuts: list[Cut] = []
        for number in range(_MAX_LAYOUTS):
            if len(left) < _FEW:
                break
            some = bodies.take(pa.array(left))
            known = number < len(layouts)
            layout = layouts[number] if known else same_fields.layout_of(some[number].as_py())
            if layout is None:
                continue
            matches, values = same_fields.cut(layout, some)
            if matches.any():
                cuts.append(Cut(left[matches], layout, values))
                left = left[~matches]
        layouts = [c.layout for c in cuts if len(c.row_indices) >= _FEW]
        yield from cuts
        yield from _parsed(bodies.take(pa.array(left)), left)


def _parsed(bodies: pa.BinaryArray, row_indices: RowIndices) -> Iterator[Parsed]:
    spellings: dict[tuple[str, ...], frozenset[str]] = {}
    indices: dict[frozenset[str], list[int]] = defaultdict(list)
    data = [raw_fields(body) for body in bodies.to_pylist()]
    for i, fields in enumerate(data):
        spelling = tuple(fields)
        if spelling not in spellings:
            spellings[spelling] = frozenset(spelling)
        indices[spellings[spelling]].append(i)
    for names, of_names in indices.items():
        yield Parsed(row_indices[of_names], names, [data[i] for i in of_names])
