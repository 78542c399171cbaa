"""Silent databases: the caller waits once, then fails at once until a background probe is answered."""

from collections.abc import Callable

import psycopg2
import pytest
from psycopg2.extensions import connection

from shared.errors import InfrastructureError
from shared.postgres.answering import SILENT_SERVERS, answering
from tests.fixtures.silent_servers import black_holes
from tests.fixtures.writer import eventually

_PATIENCE_SECONDS = 0.5


def opening(dsn: str, opened: list[str]) -> Callable[[], connection]:
    def open_() -> connection:
        opened.append(dsn)
        return psycopg2.connect(dsn, connect_timeout=5)

    return open_


def test_silent_database_fails_at_once_on_later_calls_until_it_answers() -> None:
    opened: list[str] = []
    with black_holes(1) as [dsn]:
        for _ in range(3):
            with (
                pytest.raises(InfrastructureError, match="database x does not answer"),
                answering("database x", dsn, opening(dsn, opened), _PATIENCE_SECONDS),
            ):
                pytest.fail("nobody is there")
        assert opened == [dsn]
    # Nobody listens there any more, and its system says so at once: that is an answer.
    eventually(lambda: not SILENT_SERVERS.lasts(dsn))
    with (
        pytest.raises(psycopg2.OperationalError),
        answering("database x", dsn, opening(dsn, opened), _PATIENCE_SECONDS),
    ):
        pytest.fail("nobody is there")
    assert opened == [dsn, dsn]
