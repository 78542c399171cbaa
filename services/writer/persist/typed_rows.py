"""Prepares the rows of a typed table: the fields of events' data, as columns of text.

Events with the same fields form a group, so that columns which they omit get their
defaults.  A row with a value that its column does not accept is rejected here, with the SQLSTATE
that the database would report.

Onramp's own columns (`_id`, `_event_name`, `_timestamp`, `_version`, `_received_at`,
`_topic`, `_partition`, `_offset`) are filled if the table has them, for an envelope from
its metadata.  Data may not contain the columns of an event's origin or of its metadata.  A
packet has no metadata, so its data may contain `_id` and the other metadata columns.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from services.writer.columns.catalog import ID, Key, Table
from services.writer.columns.column_types import Column
from services.writer.model.targets import DISCARD, Target
from services.writer.persist.insert_spec import ARRIVAL, Field, InsertSpec
from services.writer.persist.typed_fields import RowIndices, SameFields, parts_of
from shared.errors import DATA_REJECTED, UNKNOWN_FIELD, UNSUITABLE_TABLE, Fault
from shared.landing_columns import COLUMNS, PAYLOAD, Part, changes_silently, named

#: Maximum fields of an event: Postgres allows 1,600 columns per table and 1,664 targets per statement.
MAX_FIELDS: Final = 1_600
_METADATA: Final = tuple(n for n in named(Part.KEY, Part.CONTENT) if n != PAYLOAD)
_ORIGIN: Final = named(Part.ORIGIN, Part.RECEIPT)
_OWN: Final = {c.name: c for c in COLUMNS}


@dataclass(frozen=True, slots=True)
class Rejected:
    """The reason why a row cannot land in the table, found without the database."""

    sqlstate: str
    reason: str
    column: str | None = None
    fault: Fault = DATA_REJECTED


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that supply the same columns: their indices among all rows, and a column of text per field.

    `omitted`: for each row the fields that it omits (`repeats.omitted_fields`), in a merged group.
    """

    spec: InsertSpec
    row_indices: RowIndices
    columns: list[pa.Array]
    omitted: pa.DictionaryArray | None = None


@dataclass(slots=True)
class Prepared:
    """The prepared rows of a table.  Every row is in one group, or rejected (by row index)."""

    groups: list[Group] = field(default_factory=list)
    rejected: dict[int, Rejected] = field(default_factory=dict)
    #: Fields that the table's contract dropped.
    discarded: int = 0


def prepare(rows: pa.Table, target: Target, table: Table) -> Prepared:
    """Prepare `rows` (columns as `landing.COLUMNS`) for `target`, which `table` describes.

    Costs a few passes over the bytes of rows that share a layout, and a parse of each other row.
    """
    out = Prepared()
    is_enveloped = rows.column(ID).is_valid().to_numpy()
    parts: dict[tuple[bool, frozenset[str]], list[SameFields]] = defaultdict(list)
    for part in parts_of(rows.column("payload")):
        enveloped = is_enveloped[part.row_indices]
        for value in np.unique(enveloped).tolist():
            same = enveloped == value
            parts[value, part.names].append(part if same.all() else part.only(same))
    for (value, names), of_names in sorted(parts.items(), key=_first_row):
        _prepare_group(rows, _Plan(target, table, names, value), of_names, out)
    return out


def _first_row(parts: tuple[object, Sequence[SameFields]]) -> int:
    return min(int(part.row_indices[0]) for part in parts[1])


@dataclass(frozen=True, slots=True)
class _Plan:
    """The mapping of events with one set of fields to one table."""

    target: Target
    table: Table
    names: frozenset[str]
    enveloped: bool

    def unknown(self) -> list[str]:
        """Return the names of the fields without a column in the table, sorted."""
        return sorted(n for n in self.names if n not in self.table.columns)

    def own(self) -> list[str]:
        """Return the columns of the table that Onramp fills."""
        return [n for n in (*_ORIGIN, *(_METADATA if self.enveloped else ())) if n in self.table.columns]

    def rejection(self) -> Rejected | None:
        """Return the reason why no row with these fields can land, or None."""
        if len(self.names) > MAX_FIELDS:
            return Rejected("54011", f"{len(self.names)} fields, at most {MAX_FIELDS} are allowed")
        for name in sorted(self.names & {*_ORIGIN, *(_METADATA if self.enveloped else ())}):
            return Rejected("42703", "Onramp fills this column", name, UNKNOWN_FIELD)
        if self.unknown() and self.target.unknown_fields != DISCARD:
            return Rejected("42703", "the table has no such column", self.unknown()[0], UNKNOWN_FIELD)
        for name in sorted(self.names & self.table.columns.keys()):
            if self.table.columns[name].is_generated:
                return Rejected("428C9", "the table generates this column", name, UNKNOWN_FIELD)
        if not self.given():
            return Rejected("42703", "the data contain no column of the table", None, UNKNOWN_FIELD)
        return self._coarse() or self._without_key()

    def _coarse(self) -> Rejected | None:
        """Return a rejection if a column that Onramp fills would change its values, otherwise None."""
        for name in self.own():
            column = self.table.columns[name]
            if changes_silently(_OWN[name], column.type.base_name, column.type.modifier):
                reason = f"the column's type {column.declared} would change Onramp's values"
                return Rejected("42804", reason, name, UNSUITABLE_TABLE)
        return None

    def given(self) -> list[Column]:
        """Return the columns for which these rows have values, in the table's order."""
        wanted = self.names | set(self.own())
        return [c for c in self.table.columns.values() if c.name in wanted and not c.is_generated]

    def key(self) -> Key | None:
        """Return the first of the table's unique keys whose columns these rows all supply.

        A key with a column that differs in repeats of an event comes last.
        """
        wanted = {c.name for c in self.given()}
        keys = [k for k in self.table.keys if wanted.issuperset(k.columns)]
        return min(keys, key=lambda k: not ARRIVAL.isdisjoint(k.columns), default=None)

    def _without_key(self) -> Rejected | None:
        if self.key() is not None:
            return None
        given = {c.name for c in self.given()}
        for column in self.table.keys[0].columns if self.table.keys else ():
            if column not in given and not self.table.columns[column].has_default:
                return Rejected("23502", "the data do not contain the table's key", column)
        return None

    def insert_spec(self) -> InsertSpec:
        """Build the specification of these rows' INSERT."""
        key = self.key()
        fields = tuple(Field(c.name, (c.type.schema, c.type.name), c.declared) for c in self.given())
        columns, index = (key.columns, key.index) if key else ((), "")
        return InsertSpec(self.target, fields, columns, index, has_rules=self.table.has_rules)


def _prepare_group(rows: pa.Table, plan: _Plan, parts: Sequence[SameFields], out: Prepared) -> None:
    """Add the rows of `parts`, which have the fields of `plan`, to `out`."""
    indices = np.concatenate([part.row_indices for part in parts])
    rejection = plan.rejection()
    if rejection:
        out.rejected.update(dict.fromkeys(indices.tolist(), rejection))
        return
    rejected: dict[int, Rejected] = {}
    texts = [
        _given(column, parts, rejected)
        if column.name in plan.names
        else _own(rows.column(column.name), indices)
        for column in plan.given()
    ]
    _require_key(plan, texts, indices, rejected)
    out.rejected |= rejected
    out.discarded += len(plan.unknown()) * (len(indices) - len(rejected))
    good = _ascending(indices, rejected)
    if len(good):
        out.groups.append(Group(plan.insert_spec(), indices[good], [t.take(pa.array(good)) for t in texts]))


def _ascending(indices: RowIndices, rejected: Collection[int]) -> RowIndices:
    """Return the positions that sort `indices`, without those that are `rejected`."""
    order = np.argsort(indices, kind="stable")
    return order[~np.isin(indices[order], list(rejected))] if rejected else order


def _own(column: pa.ChunkedArray, indices: RowIndices) -> pa.Array:
    """Return one of Onramp's own columns as text."""
    return column.combine_chunks().take(pa.array(indices)).cast(pa.string())


def _given(column: Column, parts: Sequence[SameFields], rejected: dict[int, Rejected]) -> pa.Array:
    """Return the values of the rows' data for `column`; add rows with unaccepted values to `rejected`."""
    texts = []
    for part in parts:
        of_part, misfits = part.texts(column)
        texts.append(of_part)
        for i, misfit in misfits.items():
            rejected[int(part.row_indices[i])] = Rejected(misfit.sqlstate, misfit.reason, column.name)
    return pa.concat_arrays(texts)


def _require_key(
    plan: _Plan, texts: Sequence[pa.Array], indices: RowIndices, rejected: dict[int, Rejected]
) -> None:
    """Reject rows with a null in their key, because every repeat of such an event would land."""
    key = plan.key()
    for column, values in zip(plan.given(), texts, strict=True):
        if key is not None and column.name in key.columns and values.null_count:
            for i in values.is_null().to_numpy(zero_copy_only=False).nonzero()[0]:
                rejected.setdefault(int(indices[i]), Rejected("23502", "a key cannot be null", column.name))
