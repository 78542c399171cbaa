"""Two databases, one of them out: it harms only itself, and drains by itself when it returns."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import orjson
import psycopg2
import pytest

from shared import wire
from stack.services import Service
from tests.fixtures.fix_postgres import Database, HasDsn
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import eventually, ledger_of, records, rows


class Other:
    """A second database of the same server, which can be closed to everybody and opened again."""

    def __init__(self, admin_dsn: str, name: str) -> None:
        self._admin_dsn = admin_dsn
        self.name = name
        self.dsn = urlunsplit(urlsplit(admin_dsn)._replace(path=f"/{name}"))

    def execute(self, *statements: str) -> None:
        connection = psycopg2.connect(self._admin_dsn)
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        finally:
            connection.close()

    def close(self) -> None:
        self.execute(
            f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.name}'",  # noqa: S608
        )

    def open(self) -> None:
        self.execute(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS true")


@pytest.fixture
def other(postgres: HasDsn, database: Database) -> Iterator[Other]:
    other = Other(postgres.dsn, urlsplit(database.dsn).path.lstrip("/") + "_other")
    other.execute(f"CREATE DATABASE {other.name}")
    yield other
    other.execute(f"DROP DATABASE {other.name} WITH (FORCE)")


@pytest.fixture
def both(scene: Scene, other: Other, tmp_path: Path) -> Service:
    """A writer that lands the scene's events in both databases."""
    registry = tmp_path / "onramp.yaml"
    destinations = [{"type": "postgres"}, {"type": "postgres", "vanity": "other"}]
    registry.write_bytes(orjson.dumps({"event_types": {scene.name: {"destinations": destinations}}}))
    return scene.writer(registry=registry, databases=orjson.dumps({"other": other.dsn}).decode())


def _landed_in(dsn: str, scene: Scene) -> list[int]:
    """The events' numbers in the order in which they landed, where the table is there."""
    if rows(dsn, "SELECT to_regclass(%s)::text", f"events.{scene.name}") == [(None,)]:
        return []
    found = rows(dsn, f"SELECT (payload->>'n')::int FROM events.{scene.name} ORDER BY ctid")  # noqa: S608
    return [n for (n,) in found]


def test_events_for_a_closed_database_wait_and_drain_when_it_opens(
    scene: Scene, other: Other, both: Service
) -> None:
    scene.send(50)
    eventually(lambda: len(_landed_in(other.dsn, scene)) == 50)

    other.close()
    for _ in range(3):
        scene.send(200)
        eventually(lambda: scene.landed() == scene.accepted)  # the healthy one goes on
    scene.send(1)
    eventually(lambda: scene.landed() == scene.accepted)
    waiting = [r.headers["onramp-waiting"] for r in records(scene.bootstrap, wire.SYSTEM_ERRORS)]
    assert sum(b'"kind":"event"' in w for w in waiting) >= 601
    other.open()

    eventually(lambda: len(_landed_in(other.dsn, scene)) == scene.accepted)
    assert sorted(_landed_in(other.dsn, scene)) == list(range(scene.accepted))
    eventually(lambda: ledger_of(other.dsn, scene.topic) == ledger_of(scene.dsn, scene.topic))
    scene.send(10)  # live traffic takes over again
    eventually(lambda: len(_landed_in(other.dsn, scene)) == scene.accepted)
    scene.all_landed_once()
    assert both.is_ready()
