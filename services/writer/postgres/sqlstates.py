"""What a SQLSTATE means for an event: whose fault it is.  The one place that knows.

Classes: https://www.postgresql.org/docs/current/errcodes-appendix.html
"""

from enum import Enum
from typing import Final


class Verdict(Enum):
    """What to do with the work that met this SQLSTATE."""

    RETRY = "retry"  # in place: it lost a race
    WAIT = "wait"  # the database or the infrastructure is at fault
    PARK = "park"  # the event or its sender is at fault


_RETRY: Final = frozenset({"40001", "40P01"})
_WAIT_CLASSES: Final = frozenset({"08", "28", "53", "57", "58"})
_WAIT: Final = frozenset({"55P03", "25006", "3D000"})
#: Waiting that no other table of the database would be spared.
_OF_DATABASE_CLASSES: Final = frozenset({"08", "28", "57"})
_OF_DATABASE: Final = frozenset({"25006", "3D000", "53000", "53200", "53300"})
#: States that the server itself gives for what no row can help, beside those that wait.
_NEVER_OF_A_ROW_CLASSES: Final = frozenset({*_WAIT_CLASSES, "XX"})
#: A statement ran out of time, or somebody cancelled it.
STATEMENT_TIMEOUT: Final = "57014"
UNIQUE_VIOLATION: Final = "23505"
#: Classes and states that are the rows' fault.
PARK_CLASSES: Final = frozenset({"0A", "22", "23", "42", "44", "54"})
PARK_STATES: Final = frozenset({"P0001"})


def verdict(sqlstate: str | None) -> Verdict:
    """The verdict on `sqlstate`; None (no answer from the server) and the unknown wait."""
    if sqlstate in _RETRY:
        return Verdict.RETRY
    if sqlstate is None or sqlstate in _WAIT or sqlstate[:2] in _WAIT_CLASSES:
        return Verdict.WAIT
    if sqlstate in PARK_STATES or sqlstate[:2] in PARK_CLASSES:
        return Verdict.PARK
    return Verdict.WAIT


def is_of_one_table(sqlstate: str | None) -> bool:
    """Whether what waits is one table's matter (a lock, a quota), while others of the database land."""
    if verdict(sqlstate) is not Verdict.WAIT or sqlstate is None:
        return False
    of_database = sqlstate in _OF_DATABASE or sqlstate[:2] in _OF_DATABASE_CLASSES
    return sqlstate == STATEMENT_TIMEOUT or not of_database


def may_be_of_one_row(sqlstate: str | None) -> bool:
    """Whether the server may give this state for one row's sake, while the table takes others.

    A statement that runs out of time, and what nobody here knows.
    """
    if sqlstate is None or sqlstate in _WAIT or sqlstate in _RETRY:
        return False
    return sqlstate == STATEMENT_TIMEOUT or sqlstate[:2] not in _NEVER_OF_A_ROW_CLASSES
