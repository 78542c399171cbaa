"""A server whose databases are sources, and a Kafka Connect worker, for all tests of this folder."""

from collections.abc import Iterator

import pytest

from stack.connect import Connect
from stack.postgres import Postgres
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import FAST
from tests.fixtures.sources import ENV, OTHER, Captured, captured, password_of
from tests.fixtures.started import started


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    settings = {**FAST, "max_replication_slots": "50", "max_wal_senders": "50"}
    with started(Postgres(tmp_path_factory.mktemp("source"), settings=settings)) as postgres:
        yield postgres


@pytest.fixture(scope="package")
def connect(
    kafka: HasBootstrap, server: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connect]:
    passwords = {f"{name}_PASSWORD": password_of(server.dsn) for name in (ENV, OTHER)}
    with started(Connect(tmp_path_factory.mktemp("connect"), kafka.bootstrap, passwords=passwords)) as worker:
        yield worker


@pytest.fixture
def shop(server: Postgres, connect: Connect, kafka: HasBootstrap) -> Iterator[Captured]:
    """A source with one table of one row."""
    tables = [
        (
            "CREATE TABLE app.orders (id int PRIMARY KEY, note text, "
            "upper_note text GENERATED ALWAYS AS (upper(note)) STORED)"
        ),
        "INSERT INTO app.orders VALUES (1, 'there before')",
    ]
    with captured(server, connect, kafka.bootstrap, tables) as made:
        yield made
