"""Why a database does not take a row, in our words: SQLSTATE, table, column, constraint.

Never Postgres' own message or DETAIL, which echo values, and never a value.
"""

from typing import Final

from services.writer.model.targets import Target
from services.writer.postgres.database import Database
from shared.errors import DATA_REJECTED, NO_PERMISSION, UNKNOWN_TABLE, Fault, UserError

#: Faults that have a row of their own in the error table, by SQLSTATE.
_FAULTS: Final = {"42501": NO_PERMISSION, "42P01": UNKNOWN_TABLE, "3F000": UNKNOWN_TABLE}
#: Names of fields are the event's own words: shown, but not at any length.
_LONGEST_FIELD: Final = 80


def refusal(
    database: Database,
    target: Target,
    sqlstate: str | None = None,
    why: str = "",
    *,
    column: str | None = None,
    constraint: str | None = None,
    fault: Fault | None = None,
) -> UserError:
    """The error of a row that `target` does not take."""
    parts = [f"SQLSTATE {sqlstate}" if sqlstate else "", f"table {target}"]
    parts += [f"column {shown(column)}" if column else "", f"constraint {constraint}" if constraint else ""]
    said = f"database {database.name}: {', '.join(p for p in parts if p)}"
    found = fault or _FAULTS.get(sqlstate or "", DATA_REJECTED)
    return UserError(found, f"{said}: {why}" if why else said)


def shown(field: str) -> str:
    """The name of a field or column, safe to show."""
    plain = field.isascii() and field.isidentifier()  # the database that keeps it may not hold more
    return field if plain and len(field) <= _LONGEST_FIELD else f"{field[:_LONGEST_FIELD]!a}"
