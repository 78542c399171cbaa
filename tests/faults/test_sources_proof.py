"""Proof of sources: all processes are killed while tables change, and public tables equal the source.

`make proof-sources` runs five seeds over the demo's whole tables; among the tests it is one, with fewer rows.
"""

import asyncio
import os
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from loadtest.same_rows import differing
from services.ops.audit.run import Request, audit
from shared.kafka_security import Brokers
from stack import services, source_demo
from stack.capture import Capture
from stack.kafka import Kafka
from stack.postgres import Postgres
from stack.processes import Child
from stack.services import Service
from tests.fixtures.churn import Churn
from tests.fixtures.fix_postgres import FAST
from tests.fixtures.running_part import started
from tests.fixtures.writer import eventually, rows

pytestmark = pytest.mark.full

#: With this one, whole tables.
SEEDS = range(1, int(os.environ.get("ONRAMP_SOURCES_SEEDS", "1")) + 1)
FLIGHTS = None if "ONRAMP_SOURCES_SEEDS" in os.environ else 5_000
#: Between two kills.
TRANSACTIONS = 12
KILLED = ("connect", "writer", "merger", "postgres", "agent")
#: What the writer reads: not the heartbeats, which have a topic of their own.
AUDITED = rf"cdc\.{source_demo.NAME}-(app-.+|transaction)|events\..+"
PATIENCE = 300.0 if FLIGHTS else 1200.0


class Warehouse:
    """The demo's source, and all that makes tables of it, to be killed one by one."""

    def __init__(self, server: Postgres, kafka: Kafka, folder: Path) -> None:
        server.create_database(source_demo.DATABASE)
        self.server = server
        self.bootstrap = kafka.bootstrap
        self.source = server.dsn_of(source_demo.DATABASE)
        source_demo.fill(self.source, FLIGHTS)
        source_demo.register(self.bootstrap)
        env = {"ONRAMP_WRITER_DSN": server.dsn}
        self.writer: Service = services.writer(
            bootstrap=self.bootstrap, dsn=server.dsn, log=folder / "writer.log", env=env
        )
        variables = {source_demo.DSN_ENV: self.source}
        self.capture = Capture(folder, self.bootstrap, variables, env={**env, **variables})

    def kill(self, name: str) -> None:
        """End a part as `kill -9` does, and start it again."""
        if name == "postgres":
            self.server.kill()
            self.server.start()
            self.server.wait_ready()
            return
        child = self._child(name)
        child.kill()
        child.start()

    def _child(self, name: str) -> Child:
        [child] = [c for c in (*self.capture.children, *self.writer.children) if c.name == name]
        return child

    def tables(self) -> list[str]:
        query = (
            "SELECT relname FROM pg_class WHERE relnamespace = 'app'::regnamespace AND relkind IN ('r', 'p') "
            "AND NOT relispartition"
        )
        return [str(name) for (name,) in rows(self.source, query)]

    def held(self) -> list[tuple[object, ...]]:
        query = "SELECT table_name, reason, changes, repeats FROM onramp.table_settings ORDER BY 1"
        return rows(self.server.dsn, query)

    def merged(self) -> int:
        """Return how many changes are in public tables."""
        return int(rows(self.server.dsn, "SELECT coalesce(sum(changes), 0) FROM onramp.table_settings")[0][0])

    def is_equal(self) -> None:
        """Wait until each public table equals its source."""
        for table in self.tables():
            try:
                eventually(lambda: self.differs(table) == (0, 0), PATIENCE)  # noqa: B023 - called within the turn
            except AssertionError:
                pytest.fail(f"{table}: {self.differs(table)} rows differ; {self.held()}")

    def differs(self, table: str) -> tuple[int, int] | None:
        ours = f"{source_demo.NAME}.{table}"
        return differing(self.source, f"{source_demo.SCHEMA}.{table}", self.server.dsn, ours)


@pytest.fixture
def warehouse(own_kafka: Kafka, tmp_path: Path) -> Iterator[Warehouse]:
    with started(Postgres(tmp_path / "postgres", settings=FAST)) as server:
        made = Warehouse(server, own_kafka, tmp_path)
        with started(made.writer):
            try:
                made.capture.start()
                made.capture.wait_ready()
                yield made
            finally:
                made.capture.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_source_and_published_tables_stay_equal_under_changes_and_process_kills(
    warehouse: Warehouse, seed: int
) -> None:
    warehouse.is_equal()
    churn = Churn(warehouse.source, seed, lambda: _answers(warehouse.source))
    victims = random.Random(-seed).sample(KILLED, len(KILLED))
    for left, name in zip(range(len(victims), 0, -1), victims, strict=True):
        before = warehouse.merged()
        killer = threading.Thread(target=warehouse.kill, args=(name,))
        churn.run(TRANSACTIONS, 1 / left, interruption=killer.start)
        killer.join()
        _answers(warehouse.source)
        eventually(lambda: warehouse.merged() > before, PATIENCE)  # noqa: B023 - called within the turn
    churn.run(TRANSACTIONS, 1, interruption=lambda: None)
    assert churn.is_whole

    warehouse.is_equal()
    assert {"gates", "visits"} <= {*warehouse.tables()}
    databases = {"onramp": warehouse.server.dsn}
    request = Request(Brokers(warehouse.bootstrap), databases, AUDITED, deep=True)
    report = asyncio.run(audit(request))
    assert (report.findings, report.unsettled) == ([], 0)
    assert report.lines


def _answers(dsn: str) -> None:
    def tried() -> bool:
        try:
            with closing(psycopg2.connect(dsn, connect_timeout=2)):
                return True
        except psycopg2.OperationalError:
            return False

    eventually(tried, 120)
