"""The rows of a typed table: what events' data name, as columns of text.

Events that name the same fields go together, so that columns which they leave out keep
their defaults.  A row whose values its columns do not take is parked here, with the same
words that the database would use.

Onramp's own columns (`_id`, `_event_name`, `_timestamp`, `_version`, `_received_at`,
`_topic`, `_partition`, `_offset`) are filled where the table has them, an envelope's from
its metadata.  Data may not name where an event came from, nor what its metadata say; a
packet has no metadata, so its data may name `_id` and the like themselves.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import pyarrow as pa

from services.writer.columns.catalog import ID, Key, Table
from services.writer.columns.column_types import Column
from services.writer.columns.json_to_text import as_texts
from services.writer.model.targets import DISCARD, Target
from services.writer.persist.insert_spec import Field, InsertSpec
from shared.errors import DATA_REJECTED, UNKNOWN_FIELD, Fault
from shared.landing_table import PAYLOAD, Part, named

#: A table has at most as many columns, and a statement 1,664 targets.
MAX_FIELDS: Final = 1_600
_METADATA: Final = tuple(n for n in named(Part.KEY, Part.CONTENT) if n != PAYLOAD)
_ORIGIN: Final = named(Part.ORIGIN, Part.RECEIPT)
_decode: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Why a row does not fit the table, before the table was asked."""

    sqlstate: str
    why: str
    column: str | None = None
    fault: Fault = DATA_REJECTED


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that give the same columns: their places among all rows, and their texts."""

    what: InsertSpec
    places: list[int]
    columns: list[pa.Array]


@dataclass(slots=True)
class Prepared:
    """What the rows of a table were prepared as.  Every row is in one group, or misplaced."""

    groups: list[Group] = field(default_factory=list)
    misplaced: dict[int, Misplaced] = field(default_factory=dict)
    #: Fields that the contract dropped.
    discarded: int = 0


def prepare(rows: pa.Table, target: Target, table: Table) -> Prepared:
    """Prepare `rows` (columns as `landing.COLUMNS`) for `target`, which is `table`."""
    out = Prepared()
    data = [_decode(text) for text in rows.column("payload").to_pylist()]
    has_metadata = rows.column(ID).is_valid().to_pylist()
    by_fields: dict[tuple[bool, frozenset[str]], list[int]] = defaultdict(list)
    spellings: dict[tuple[str, ...], frozenset[str]] = {}
    for place, fields in enumerate(data):
        spelling = tuple(fields)
        if spelling not in spellings:
            spellings[spelling] = frozenset(spelling)
        by_fields[has_metadata[place], spellings[spelling]].append(place)
    for (enveloped, names), places in by_fields.items():
        _prepare_group(rows, _Plan(target, table, names, enveloped), [data[p] for p in places], places, out)
    return out


@dataclass(frozen=True, slots=True)
class _Plan:
    """One set of fields against one table."""

    target: Target
    table: Table
    names: frozenset[str]
    enveloped: bool

    def unknown(self) -> list[str]:
        """The fields that the table has no column for."""
        return sorted(n for n in self.names if n not in self.table.columns)

    def own(self) -> list[str]:
        """Onramp's columns that the table has and that are ours to fill."""
        return [n for n in (*_ORIGIN, *(_METADATA if self.enveloped else ())) if n in self.table.columns]

    def refusal(self) -> Misplaced | None:
        """Why no row with these fields can land, if so."""
        if len(self.names) > MAX_FIELDS:
            return Misplaced("54011", f"{len(self.names)} fields, at most {MAX_FIELDS} are allowed")
        for name in sorted(self.names & {*_ORIGIN, *(_METADATA if self.enveloped else ())}):
            return Misplaced("42703", "Onramp fills it itself", name, UNKNOWN_FIELD)
        if self.unknown() and self.target.unknown_fields != DISCARD:
            return Misplaced("42703", "the table has no such column", self.unknown()[0], UNKNOWN_FIELD)
        for name in sorted(self.names & self.table.columns.keys()):
            if self.table.columns[name].is_generated:
                return Misplaced("428C9", "the table computes it itself", name, UNKNOWN_FIELD)
        if not self.given():
            return Misplaced("42703", "the data name no column of the table", None, UNKNOWN_FIELD)
        return self._without_key()

    def given(self) -> list[Column]:
        """The columns that these rows give, in the table's order."""
        wanted = self.names | set(self.own())
        return [c for c in self.table.columns.values() if c.name in wanted and not c.is_generated]

    def key(self) -> Key | None:
        """The first of the table's keys that these rows give whole."""
        wanted = {c.name for c in self.given()}
        return next((k for k in self.table.keys if wanted.issuperset(k.columns)), None)

    def _without_key(self) -> Misplaced | None:
        if self.key() is not None:
            return None
        for key in self.table.keys:
            if all(self.table.columns[c].has_default for c in key.columns):
                return None
            missing = next(c for c in key.columns if not self.table.columns[c].has_default)
            return Misplaced("23502", "the table's key is not given", missing)
        return None

    def insertion(self) -> InsertSpec:
        """How these rows are inserted."""
        key = self.key()
        fields = tuple(Field(c.name, (c.type.schema, c.type.name), c.declared) for c in self.given())
        columns, index = (key.columns, key.index) if key else ((), "")
        return InsertSpec(self.target, fields, columns, index, self.table.ruled)


def _prepare_group(
    rows: pa.Table, plan: _Plan, data: Sequence[dict[str, msgspec.Raw]], places: list[int], out: Prepared
) -> None:
    refused = plan.refusal()
    if refused:
        out.misplaced.update(dict.fromkeys(places, refused))
        return
    misplaced: dict[int, Misplaced] = {}
    texts = [
        _given(column, data, places, misplaced)
        if column.name in plan.names
        else _own(rows.column(column.name), places)
        for column in plan.given()
    ]
    _require_key(plan, texts, places, misplaced)
    out.misplaced |= misplaced
    out.discarded += len(plan.unknown()) * (len(places) - len(misplaced))
    good = [i for i, place in enumerate(places) if place not in misplaced]
    if good:
        texts = texts if len(good) == len(places) else [t.take(good) for t in texts]
        out.groups.append(Group(plan.insertion(), [places[i] for i in good], texts))


def _own(column: pa.ChunkedArray, places: list[int]) -> pa.Array:
    """What Onramp itself knows of the rows."""
    return column.combine_chunks().take(places).cast(pa.string())


def _given(
    column: Column,
    data: Sequence[dict[str, msgspec.Raw]],
    places: list[int],
    misplaced: dict[int, Misplaced],
) -> pa.Array:
    """What the rows' data give for `column`."""
    texts, misfits = as_texts(column.type, [fields[column.name] for fields in data])
    for i, misfit in misfits.items():
        misplaced[places[i]] = Misplaced(misfit.sqlstate, misfit.why, column.name)
    return pa.array(texts, pa.string())


def _require_key(
    plan: _Plan, texts: Sequence[pa.Array], places: list[int], misplaced: dict[int, Misplaced]
) -> None:
    """A null in the key would let every repeat of the event land."""
    key = plan.key()
    for column, values in zip(plan.given(), texts, strict=True):
        if key is not None and column.name in key.columns and values.null_count:
            for i in values.is_null().to_numpy(zero_copy_only=False).nonzero()[0]:
                misplaced.setdefault(places[i], Misplaced("23502", "a key is never null", column.name))
