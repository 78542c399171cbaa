"""Builds the error of a row that a database rejects: SQLSTATE, table, column, constraint.

It never contains Postgres' own message or DETAIL, which echo values.
"""

from typing import Final

from services.writer.model.targets import Target
from services.writer.postgres.database import Database
from shared.errors import DATA_REJECTED, NO_PERMISSION, UNKNOWN_TABLE, Fault, UserError

#: SQLSTATEs that have an error code of their own; all others are DATA_REJECTED.
_FAULTS: Final = {"42501": NO_PERMISSION, "42P01": UNKNOWN_TABLE, "3F000": UNKNOWN_TABLE}
#: Field names come from the event: at most so many characters are shown.
_LONGEST_FIELD: Final = 80


def row_error(
    database: Database,
    target: Target,
    sqlstate: str | None = None,
    reason: str = "",
    *,
    column: str | None = None,
    constraint: str | None = None,
    fault: Fault | None = None,
) -> UserError:
    """Build the error of a row that `target` rejects; `fault` overrides what `sqlstate` says."""
    named = shown(column) if column else None
    parts = [f"SQLSTATE {sqlstate}" if sqlstate else "", f"table {target}"]
    parts += [f"column {named}" if named else "", f"constraint {constraint}" if constraint else ""]
    detail = f"database {database.name}: {', '.join(p for p in parts if p)}"
    code = fault or _FAULTS.get(sqlstate or "", DATA_REJECTED)
    error = UserError(code, f"{detail}: {reason}" if reason else detail)
    return error.of_database(sqlstate, named, constraint)


def shown(field: str) -> str:
    """Return a field's or column's name, escaped and cut so that any log and any database can store it."""
    plain = field.isascii() and field.isidentifier()  # the outbox's database may not be UTF8
    return field if plain and len(field) <= _LONGEST_FIELD else f"{field[:_LONGEST_FIELD]!a}"
