"""Describes database failures for messages, without the server's text, which may contain values.

A missing database is distinguished from an unreachable one: an operator creates the first or
corrects its address, the second recovers by itself.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg2

from shared.errors import InfrastructureError

NO_SUCH_DATABASE: Final = "3D000"
#: libpq has no SQLSTATE for a failed connection, only the text of the server or of PgBouncer.
_WORDS: Final = re.compile(r'FATAL: +(?:database ".*" does not exist|no such database)')


class MissingDatabaseError(psycopg2.OperationalError):
    """The server has no database with the address's name."""

    pgcode = NO_SUCH_DATABASE


def is_missing(error: psycopg2.Error) -> bool:
    """Return whether a connection failed because the database is missing (by English messages)."""
    return error.pgcode == NO_SUCH_DATABASE or bool(_WORDS.search(str(error)))


def failure(what: str, error: psycopg2.Error, no_state: str = "none (it cannot be reached)") -> str:
    """Return the failure of the database `what`; `no_state` replaces a missing SQLSTATE."""
    if error.pgcode == NO_SUCH_DATABASE:
        return f"{what} does not exist (SQLSTATE {NO_SUCH_DATABASE})"
    return f"{what}: SQLSTATE {error.pgcode or no_state}"


@contextmanager
def raised_as(
    kind: Callable[[str], Exception], what: str, explain: Callable[[psycopg2.Error], str]
) -> Iterator[None]:
    """Raise failures of the database `what` as `kind`; `explain` returns the text, without the DSN."""
    try:
        yield
    except InfrastructureError as error:
        raise kind(error.detail) from None
    except psycopg2.Error as error:
        is_absent = error.pgcode == NO_SUCH_DATABASE
        raise kind(failure(what, error) if is_absent else explain(error)) from None
