"""What messages say of a database that fails, without the words of the server, in which there may be values.

A database that does not exist is told from one that cannot be reached: an operator creates the first one or
corrects its address, the second one comes back by itself.
"""

import re
from typing import Final

import psycopg2

NO_SUCH_DATABASE: Final = "3D000"
#: libpq gives no SQLSTATE of a connection that failed, only the words of the server, or of PgBouncer.
_WORDS: Final = re.compile(r'FATAL: +(?:database ".*" does not exist|no such database)')


class MissingDatabaseError(psycopg2.OperationalError):
    """The server has no database of the address's name."""

    pgcode = NO_SUCH_DATABASE


def is_missing(error: psycopg2.Error) -> bool:
    """Return whether a connection failed because the server has no such database, if it speaks English."""
    return error.pgcode == NO_SUCH_DATABASE or bool(_WORDS.search(str(error)))


def failure(what: str, error: psycopg2.Error, no_state: str = "none (it cannot be reached)") -> str:
    """Return what is wrong with `what`, a database; `no_state` stands for a SQLSTATE that there is not."""
    if error.pgcode == NO_SUCH_DATABASE:
        return f"{what} does not exist (SQLSTATE {NO_SUCH_DATABASE})"
    return f"{what}: SQLSTATE {error.pgcode or no_state}"
