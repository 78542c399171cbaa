"""Classifies SQLSTATEs by fault, which decides the outcome of an event.  No other module does.

Classes: https://www.postgresql.org/docs/current/errcodes-appendix.html
"""

from enum import Enum
from typing import Final


class Verdict(Enum):
    """The action for work that failed with a SQLSTATE."""

    RETRY = "retry"  # in place: a serialization conflict or a deadlock
    WAIT = "wait"  # the database or the infrastructure is at fault
    PARK = "park"  # the event or its sender is at fault


_RETRY: Final = frozenset({"40001", "40P01"})
_WAIT_CLASSES: Final = frozenset({"08", "28", "53", "57", "58"})
#: An exhausted sequence fails for every row, regardless of its values.
_EXHAUSTED_SEQUENCE: Final = "2200H"
_WAIT: Final = frozenset({"55P03", "25006", "3D000", _EXHAUSTED_SEQUENCE})
#: States that affect all tables of the database while its session continues.  After states of connections and
#: of its own stop the server ends the session: an open session got them from another server (postgres_fdw).
#: A database that is read-only refuses the lock of the ledger first.
_OF_DATABASE: Final = frozenset({"53000", "53200"})
#: Classes and states that the server never returns because of a single row.  Input functions of extensions
#: (hstore before Postgres 16, PostGIS) report a value that they cannot parse as an internal error, XX000.
_NEVER_OF_A_ROW_CLASSES: Final = _WAIT_CLASSES
_CORRUPTED: Final = frozenset({"XX001", "XX002"})
#: A statement timed out or was canceled.
STATEMENT_TIMEOUT: Final = "57014"
UNIQUE_VIOLATION: Final = "23505"
#: Classes and states that are the rows' fault, and the exceptions among these classes.
PARK_CLASSES: Final = frozenset({"0A", "22", "23", "42", "44", "54"})
PARK_STATES: Final = frozenset({"P0001"})
NOT_PARKED: Final = frozenset({_EXHAUSTED_SEQUENCE})


def verdict(sqlstate: str | None) -> Verdict:
    """Return the action; None (no answer from the server) and unknown states wait."""
    if sqlstate in _RETRY:
        return Verdict.RETRY
    if sqlstate is None or sqlstate in _WAIT or sqlstate[:2] in _WAIT_CLASSES:
        return Verdict.WAIT
    if sqlstate in PARK_STATES or sqlstate[:2] in PARK_CLASSES:
        return Verdict.PARK
    return Verdict.WAIT


def is_of_one_table(sqlstate: str | None) -> bool:
    """Return whether only one table waits (for a lock, a quota), while others of the database can land.

    `sqlstate`: of an error after which the session is open.
    """
    return sqlstate is not None and verdict(sqlstate) is Verdict.WAIT and sqlstate not in _OF_DATABASE


def may_be_of_one_row(sqlstate: str | None) -> bool:
    """Return whether the server may return this state because of one row, while other rows can land.

    True for a statement timeout, an internal error, and for unknown states.
    """
    if sqlstate is None or sqlstate in _WAIT or sqlstate in _RETRY or sqlstate in _CORRUPTED:
        return False
    return sqlstate == STATEMENT_TIMEOUT or sqlstate[:2] not in _NEVER_OF_A_ROW_CLASSES
