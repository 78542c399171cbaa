"""The Connect worker copies committed changes to Kafka, and resumes at its position after a kill."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import psycopg2
import pytest

from stack.connect import GROUP, Connect
from stack.postgres import Postgres
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import FAST
from tests.fixtures.running_part import started
from tests.fixtures.writer import eventually, records

_PASSWORD = "ONRAMP_SOURCE_SHOP"
_TOPIC = "shop-app-orders"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    settings = {**FAST, "wal_level": "logical"}
    with started(Postgres(tmp_path_factory.mktemp("source"), settings=settings)) as server:
        yield server


# Workers of Kafka Connect on one Kafka are one cluster, and tests of sources have theirs on the shared one.
@pytest.fixture(scope="module")
def connect(
    module_kafka: HasBootstrap, source: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connect]:
    passwords = {_PASSWORD: psycopg2.extensions.parse_dsn(source.dsn)["password"]}
    with started(
        Connect(tmp_path_factory.mktemp("connect"), module_kafka.bootstrap, passwords=passwords)
    ) as worker:
        yield worker


def _configuration(source: Postgres) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(source.port),
        "database.user": "onramp",
        "database.password": f"${{env:{_PASSWORD}}}",
        "database.dbname": "onramp",
        "topic.prefix": "shop",
        "topic.delimiter": "-",
        "schema.include.list": "app",
        "plugin.name": "pgoutput",
        "slot.name": "onramp_shop",
        "skipped.operations": "none",
        "tombstones.on.delete": "false",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "poll.interval.ms": "20",
        "retriable.restart.connector.wait.ms": "1000",
    }


def _execute(source: Postgres, *statements: str) -> None:
    with closing(psycopg2.connect(source.dsn)) as conn, conn, conn.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _changes(kafka: HasBootstrap) -> list[tuple[str, Any]]:
    """Return the operations on the topic and the ids that they are of."""
    values = [json.loads(r.value or b"null") for r in records(kafka.bootstrap, _TOPIC)]
    return [(v["op"], (v["after"] or v["before"] or {"id": None})["id"]) for v in values]


def _is_position_stored(kafka: HasBootstrap) -> bool:
    """Return whether Kafka has a position of the connector behind its snapshot."""
    positions = [r.value or b"" for r in records(kafka.bootstrap, f"{GROUP}.offsets")]
    return any(b"lsn" in each and b"snapshot" not in each for each in positions)


def test_committed_changes_reach_kafka_including_commits_made_while_the_worker_was_dead(
    module_kafka: HasBootstrap, source: Postgres, connect: Connect
) -> None:
    _execute(
        source,
        "CREATE SCHEMA app",
        "CREATE TABLE app.orders (id int PRIMARY KEY, note text)",
        "INSERT INTO app.orders VALUES (1, 'there before')",
    )
    answer = httpx2.put(f"{connect.url}/connectors/shop/config", json=_configuration(source), timeout=60)
    assert answer.status_code == 201, answer.text
    assert psycopg2.extensions.parse_dsn(source.dsn)["password"] not in answer.text
    expected = [("r", 1)]
    eventually(lambda: _changes(module_kafka) == expected, 120)
    _execute(
        source, "INSERT INTO app.orders VALUES (2, 'x')", "UPDATE app.orders SET note = 'y' WHERE id = 1"
    )
    _execute(source, "DELETE FROM app.orders WHERE id = 2", "TRUNCATE app.orders")
    expected += [("c", 2), ("u", 1), ("d", 2), ("t", None)]
    eventually(lambda: _changes(module_kafka) == expected, 120)

    # The worker stores its position once a second; without one it takes another snapshot.
    eventually(lambda: _is_position_stored(module_kafka), 120)
    connect.kill()
    _execute(source, "INSERT INTO app.orders VALUES (3, 'while it was dead')")
    connect.start()
    connect.wait_ready()
    # A kill may repeat what was sent before it, never leave something out.
    eventually(lambda: _changes(module_kafka)[-1] == ("c", 3), 120)
    assert set(_changes(module_kafka)) == {*expected, ("c", 3)}


def test_no_password_is_in_what_the_worker_keeps(
    module_kafka: HasBootstrap, source: Postgres, connect: Connect
) -> None:
    password = psycopg2.extensions.parse_dsn(source.dsn)["password"]
    httpx2.put(f"{connect.url}/connectors/shop/config", json=_configuration(source), timeout=60)
    kept = [r.value or b"" for r in eventually(lambda: records(module_kafka.bootstrap, f"{GROUP}.configs"))]
    assert any(_PASSWORD.encode() in value for value in kept)
    assert not any(password.encode() in value for value in kept)
    files = [path for path in connect.children[0].command.log.parent.iterdir() if path.is_file()]
    assert files
    assert not [path for path in files if password in path.read_text("utf-8")]
    assert password not in " ".join(connect.children[0].command.argv)
