"""The stack of the bench of sources: two servers, three sources, Kafka Connect, the writer, the merger.

`steady` and `third` are databases of the server that has the warehouse too; `away` is one of a server of its
own, which may die.  `large` is registered by its part alone.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg2

from loadtest.same_rows import differing
from services.cdc.agent import names
from stack import services
from stack.capture import Capture
from stack.errors import StackError
from stack.kafka import Kafka
from stack.postgres import Postgres
from stack.processes import Child
from stack.registry import OwnRegistry

STEADY: Final = "steady"
AWAY: Final = "away"
THIRD: Final = "third"
LARGE: Final = "large"
SOURCES: Final = (STEADY, AWAY, THIRD)
_PATIENCE_SECONDS: Final = 900.0
_POLL_SECONDS: Final = 0.05
_TABLE: Final = """
    CREATE TABLE app.{} (id bigint PRIMARY KEY, n int, note text, amount numeric(14, 2),
                         at timestamptz NOT NULL DEFAULT clock_timestamp())
"""
_FIRST: Final = "INSERT INTO app.{} (id) VALUES (0)"
_KNOWN: Final = "SELECT 1 FROM onramp_agent.sources WHERE tables ?& %s AND source = %s"
_MERGED: Final = (
    "SELECT coalesce(sum(changes - repeats), 0)::int8 FROM onramp.table_settings WHERE source = %s"
)
_SUSPENDED: Final = "SELECT source, table_name, reason FROM onramp.table_settings WHERE reason IS NOT NULL"


class CdcStack:
    """The stack, created by `cdc_stack`; source tables are in `app`, public ones in the source's name."""

    def __init__(self, folder: Path, server_settings: Mapping[str, str]) -> None:
        settings = {"max_connections": "200", **server_settings}
        self.folder = folder
        self.kafka = Kafka(folder / "kafka")
        self.home = Postgres(folder / "home", settings=settings)
        self.away = Postgres(folder / "away", settings=settings)

    def start(self, stack: ExitStack) -> None:
        """Start all; `stack` stops them."""
        for part in (self.kafka, self.home, self.away):
            part.start()
            stack.callback(part.stop)
        for part in (self.kafka, self.home, self.away):
            part.wait_ready()
        for source in SOURCES:
            self.make_source(source)
        self._registry = OwnRegistry(self.kafka.bootstrap)
        self.register(SOURCES)
        dsns = {_variable(source): self.source(source) for source in (*SOURCES, LARGE)}
        env = {"ONRAMP_WRITER_DSN": self.warehouse, **self._registry.env}
        self.writer = services.writer(
            bootstrap=self.kafka.bootstrap,
            dsn=self.warehouse,
            log=self.folder / "writer.log",
            env={"ONRAMP_WRITER_STANDBY": "false", **env},
        )
        self.writer.start()
        stack.callback(self.writer.stop)
        self.capture = Capture(self.folder, self.kafka.bootstrap, dsns, env={**env, **dsns})
        stack.callback(self.capture.stop)
        self.capture.start()
        self.capture.wait_ready()
        self.writer.wait_ready()

    @property
    def warehouse(self) -> str:
        """The DSN of the database to which all sources are published."""
        return self.home.dsn

    def server(self, source: str) -> Postgres:
        """Return the server of a source."""
        return self.away if source == AWAY else self.home

    def source(self, source: str) -> str:
        """Return the DSN of a source."""
        return self.server(source).dsn_of(f"source_{source}")

    def child(self, name: str) -> Child:
        """Return a process of change data capture: connect, agent or merger."""
        (child,) = (c for c in self.capture.children if c.name == name)
        return child

    def register(self, sources: Iterable[str]) -> None:
        """Write these sources, and no others, into the registry."""
        entries = {s: {"dsn_env": _variable(s), "schemas": ["app"], "publish": s} for s in sources}
        self._registry.put({"sources": entries})

    def make_source(self, source: str) -> None:
        """Create a source's database with its publication."""
        self.server(source).create_database(f"source_{source}")
        publication = (
            f"CREATE PUBLICATION {names.publication(source)} FOR TABLES IN SCHEMA app "
            "WITH (publish_via_partition_root = true)"
        )
        self.execute(self.source(source), "CREATE SCHEMA app", publication)

    def make_table(self, source: str, table: str) -> str:
        """Create a table with this prefix at a streaming source, and wait until one row is public."""
        (made,) = self.make_tables(source, [table])
        return made

    def make_tables(self, source: str, tables: Sequence[str]) -> list[str]:
        """Create several tables."""
        made = [f"{table}_{secrets.token_hex(2)}" for table in tables]
        self.execute(self.source(source), *(_TABLE.format(table) for table in made))
        # A table that has rows at the agent's first poll would be re-snapshotted, and the stream would wait.
        self.until(partial(self._are_known, source, made), "the agent knows the new tables")
        self.execute(self.source(source), *(_FIRST.format(table) for table in made))
        for table in made:
            self.until(partial(self.is_public, source, table, 0), f"{source}.{table} has its row")
        return made

    def _are_known(self, source: str, tables: Sequence[str]) -> bool:
        return bool(self.ask(_KNOWN, [f"app.{table}" for table in tables], source))

    def is_public(self, source: str, table: str, row: int) -> bool:
        """Whether a row is in the public table."""
        try:
            found = self.ask(f"SELECT EXISTS (SELECT FROM {source}.{table} WHERE id = {row})")  # noqa: S608
        except (psycopg2.errors.UndefinedTable, psycopg2.errors.InvalidSchemaName):
            return False
        return bool(found[0][0])

    def merged(self, source: str) -> int:
        """Return the number of a source's changes in its public tables."""
        return int(self.ask(_MERGED, source)[0][0])

    def verify(self, source: str, tables: Iterable[str]) -> dict[str, int]:
        """Wait until public tables equal the source by EXCEPT ALL both ways; raise if they never do."""
        rows = 0
        for table in tables:
            theirs, ours = f"app.{table}", f"{source}.{table}"

            def is_same(theirs: str = theirs, ours: str = ours) -> bool:
                return differing(self.source(source), theirs, self.warehouse, ours) == (0, 0)

            self.until(is_same, f"{ours} equals its source", poll_seconds=0.5)
            rows += self.ask(f"SELECT count(*) FROM {ours}")[0][0]  # noqa: S608 - a name of our own
        return {"rows_compared": rows, "rows_that_differ": 0}

    def until(
        self,
        holds: Callable[[], bool],
        what: str,
        poll_seconds: float = _POLL_SECONDS,
        *,
        is_whole: bool = True,
    ) -> float:
        """Wait for a condition; return its `time.monotonic()`.  Not `is_whole`: parts may be stopped."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise StackError(f"Condition not reached: {what}. Suspended: {self.ask(_SUSPENDED)}")
            for part in (self.capture, self.writer) if is_whole else ():
                part.check()
            time.sleep(poll_seconds)
        return time.monotonic()

    def execute(self, dsn: str, *statements: str) -> float:
        """Run each statement in a transaction of its own; returns when the last was committed."""
        with closing(psycopg2.connect(dsn)) as conn, conn.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                conn.commit()
        return time.monotonic()

    def ask(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Return rows of the warehouse."""
        with closing(psycopg2.connect(self.warehouse)) as conn, conn.cursor() as cursor:
            cursor.execute(query, arguments or None)
            return cursor.fetchall()


@contextmanager
def cdc_stack(folder: Path, server_settings: Mapping[str, str] | None = None) -> Iterator[CdcStack]:
    """Start the stack, wait until three sources stream, stop it at the end."""
    made = CdcStack(folder, server_settings or {})
    with ExitStack() as stack:
        made.start(stack)
        yield made


def _variable(source: str) -> str:
    return f"ONRAMP_SOURCE_{source.upper()}"
