"""The result of writing rows to one table: each row has exactly one outcome, an error if it is parked.

An error never contains Postgres' message or DETAIL, which echo values.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from services.writer.model.targets import Target
from services.writer.persist.copy import by_partition
from services.writer.postgres.database import Database
from shared.errors import DATA_REJECTED, NO_PERMISSION, UNKNOWN_TABLE, Fault, UserError
from shared.kafka_read.offsets import Partition

_RECEIPT: Final = ("_topic", "_partition", "_offset")
#: SQLSTATEs that have an error code of their own; all others are DATA_REJECTED.
_FAULTS: Final = {"42501": NO_PERMISSION, "42P01": UNKNOWN_TABLE, "3F000": UNKNOWN_TABLE}
#: Maximum characters of a field name in an error; field names come from the event.
_MAX_FIELD_LENGTH: Final = 80


@dataclass(frozen=True, slots=True)
class Parked:
    """A row that the database rejected for its values; `row_index`: its index among the rows, from 0."""

    partition: Partition
    offset: int
    error: UserError
    row_index: int


@dataclass(slots=True)
class PersistResult:
    """The number of rows that landed, and the parked rows; all others were duplicates."""

    rows: Counter[Partition]
    landed: Counter[Partition] = field(default_factory=Counter)
    parked: list[Parked] = field(default_factory=list)
    _: KW_ONLY
    #: Rows that landed without a key that identifies repeats, so that a producer's repeats land twice.
    unkeyed: int = 0
    #: Fields that the table's contract dropped.
    discarded_fields: int = 0
    #: By row index: whether the row landed.
    mask: "np.ndarray[Any, np.dtype[np.bool_]]" = field(default_factory=lambda: np.zeros(0, dtype=bool))

    @property
    def finds_no_table(self) -> bool:
        """Return whether all parked rows are parked because the table does not exist."""
        return all(p.error.fault is UNKNOWN_TABLE for p in self.parked)

    def parked_by_partition(self) -> Counter[Partition]:
        """Count the parked rows by partition."""
        return Counter(p.partition for p in self.parked)

    def duplicates(self) -> Counter[Partition]:
        """Count the rows whose key existed already, by partition."""
        return self.rows - self.landed - self.parked_by_partition()


def all_parked(rows: pa.Table, error: UserError) -> PersistResult:
    """Return the result of `rows`, all of which are parked for the same `error`."""
    return assemble(rows, np.zeros(rows.num_rows, dtype=bool), dict.fromkeys(range(rows.num_rows), error))


def assemble(
    rows: pa.Table, landed: "np.ndarray[Any, np.dtype[np.bool_]]", errors: Mapping[int, UserError]
) -> PersistResult:
    """Build the result of `rows`; `landed` is a mask, `errors` are by row index."""
    parked = _parked(rows, errors) if errors else []
    counts = by_partition(rows)
    new = Counter(counts) if landed.all() else by_partition(rows.filter(pa.array(landed)))
    return PersistResult(counts, new, parked, mask=landed)


def _parked(rows: pa.Table, errors: Mapping[int, UserError]) -> list[Parked]:
    bad = sorted(errors)
    receipts = rows.select(list(_RECEIPT)).take(pa.array(bad, pa.int64())).to_pylist()
    return [
        Parked(Partition(r["_topic"], r["_partition"]), r["_offset"], errors[row_index], row_index)
        for row_index, r in zip(bad, receipts, strict=True)
    ]


def concatenated(pieces: Mapping[int, PersistResult]) -> PersistResult:
    """Return the combined result of `pieces`, which are keyed by the index of each piece's first row."""
    out = PersistResult(Counter())
    for start, piece in sorted(pieces.items(), key=lambda item: item[0]):
        out.rows += piece.rows
        out.landed += piece.landed
        out.parked += [replace(p, row_index=start + p.row_index) for p in piece.parked]
        out.unkeyed += piece.unkeyed
        out.discarded_fields += piece.discarded_fields
    out.mask = np.concatenate([piece.mask for _, piece in sorted(pieces.items(), key=lambda item: item[0])])
    return out


def row_error(
    database: Database,
    target: Target,
    sqlstate: str | None = None,
    reason: str = "",
    *,
    column: str | None = None,
    column_type: str | None = None,
    constraint: str | None = None,
    fault: Fault | None = None,
) -> UserError:
    """Build the error of a row that `target` rejects; `fault` overrides the fault of `sqlstate`."""
    named = shown(column) if column else None
    parts = [f"SQLSTATE {sqlstate}" if sqlstate else "", f"table {target}"]
    parts += [f"column {named}" if named else "", f"constraint {constraint}" if constraint else ""]
    detail = f"database {database.name}: {', '.join(p for p in parts if p)}"
    code = fault or _FAULTS.get(sqlstate or "", DATA_REJECTED)
    error = UserError(code, f"{detail}: {reason}" if reason else detail)
    error.column_type = column_type if named else None
    return error.of_database(sqlstate, named, constraint)


def shown(field: str) -> str:
    """Return a field's or column's name, escaped and truncated so that any log and database can store it."""
    plain = field.isascii() and field.isidentifier()  # the outbox's database may not be UTF8
    return field if plain and len(field) <= _MAX_FIELD_LENGTH else f"{field[:_MAX_FIELD_LENGTH]!a}"
