"""Merges the groups of a table's rows, so that events that omit different fields land by one COPY.

A column without a default is NULL if an event omits it, so groups can be written together if they supply the
same key and the same columns with defaults.  Separately, each group costs about twenty statements, and events
with ten optional fields are up to a thousand groups.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from services.writer.columns.catalog import Table
from services.writer.persist.insert_spec import InsertResult, InsertSpec
from services.writer.persist.repeats import omitted_fields
from services.writer.persist.typed_rows import Group
from shared.errors import NO_PERMISSION


@dataclass(frozen=True, slots=True)
class MergedGroup:
    """Groups that are written together: `whole` has all their rows and columns, in the order of the rows."""

    whole: Group
    parts: Sequence[Group]

    def uncertain(self, result: InsertResult) -> list[Group]:
        """Return the rows that failed, possibly by the lacking right to a column that they omit.

        They are grouped by their own columns.
        """
        if len(self.parts) == 1:
            return []
        failed = [i for i, error in result.errors.items() if error.fault is NO_PERMISSION]
        if not failed:
            return []
        wanted = self.whole.row_indices[failed]
        parts = (_only(part, np.isin(part.row_indices, wanted)) for part in self.parts)
        return [part for part in parts if len(part.row_indices)]

    def positions(self, part: Group) -> "np.ndarray[Any, np.dtype[np.intp]]":
        """Return the positions of the rows of `part` in `whole`."""
        return np.searchsorted(self.whole.row_indices, part.row_indices)


def merge_groups(groups: Iterable[Group], table: Table) -> list[MergedGroup]:
    """Return `groups` merged as far as their rows stay the same."""
    by_columns: dict[tuple[Any, ...], list[Group]] = defaultdict(list)
    for group in groups:
        defaulted = tuple(f.name for f in group.spec.fields if table.columns[f.name].has_default)
        by_columns[group.spec.key, group.spec.index, defaulted].append(group)
    return [MergedGroup(_merged(parts, table), parts) for parts in by_columns.values()]


def _merged(parts: Sequence[Group], table: Table) -> Group:
    if len(parts) == 1:
        return parts[0]
    fields = {f.name: f for part in parts for f in part.spec.fields}
    names = [name for name in table.columns if name in fields]
    spec: InsertSpec = replace(parts[0].spec, fields=tuple(fields[name] for name in names))
    pieces: dict[str, list[pa.Array]] = {name: [] for name in names}
    omitted: list[str] = []
    for part in parts:
        own = dict(zip((f.name for f in part.spec.fields), part.columns, strict=True))
        absent = pa.nulls(len(part.row_indices), pa.string())
        lacks = omitted_fields(i for i, name in enumerate(names) if name not in own)
        omitted.append(lacks)
        for name, arrays in pieces.items():
            arrays.append(own.get(name, absent))
    row_indices = np.concatenate([part.row_indices for part in parts])
    order = np.argsort(row_indices, kind="stable")
    columns = [pa.concat_arrays(arrays).take(pa.array(order)) for arrays in pieces.values()]
    part_of_row = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part.row_indices) for part in parts])
    omitted_by_row = pa.DictionaryArray.from_arrays(pa.array(part_of_row[order]), pa.array(omitted))
    return Group(spec, row_indices[order], columns, omitted_by_row)


def _only(group: Group, mask: "np.ndarray[Any, np.dtype[np.bool_]]") -> Group:
    chosen = pa.array(mask)
    return Group(group.spec, group.row_indices[mask], [column.filter(chosen) for column in group.columns])
