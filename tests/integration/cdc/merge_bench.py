"""A bench for tests of the merger: landed changes, a table history, and merges."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
from psycopg2.extensions import connection

from services.cdc.agent.source_state_sql import StateStore
from services.cdc.change_detection.topic_generation_sql import End
from services.cdc.merge import history_sql, state_sql
from services.cdc.merge.history_sql import TableName
from services.cdc.merge.public_table import Cleaning, public_table
from services.cdc.merge.table_merge import MAX_CHANGES, Merge
from services.cdc.merger.merger import only_feed
from services.writer.model.routes import Routes, SourceRoute
from shared.kafka_read.offsets import Partition
from shared.postgres.connect import connect
from tests.fixtures.changes import Stream
from tests.fixtures.writer import Bench, arrivals

ROUTES = Routes("onramp", sources=(SourceRoute("shop", "onramp"),))
OPTIONS = "-c search_path=pg_catalog,pg_temp -c timezone=UTC"
TOPIC = Partition(Stream().topic, 0)
ENDS_ID = str(UUID(int=10))
UNCLEANED = Cleaning()
#: More than any test has changes.
_MAX_MERGES = 1_000
NAME = TableName("shop", "app", "orders")


@dataclass
class Desk:
    """One source's table, `app.orders` of `shop`, published in `shop`."""

    bench: Bench
    topic_id: str = str(UUID(int=9))
    topic: Partition = TOPIC
    next_offset: int = 0
    columns: dict[str, str] = field(default_factory=lambda: {"id": "integer", "note": "text"})
    key: Sequence[str] | None = ("id",)

    def prepare(self) -> "Desk":
        self.bench.claim([self.topic], topic_id=self.topic_id)
        return self

    def tell(self, *, lsn: int = 1, dropped: bool = False, generated: Sequence[str] = ()) -> "Desk":
        """Write the table's columns and key into the history, as the agent does."""
        columns = [
            {"name": n, "type": t, "not_null": False, "generated": n in generated}
            for n, t in self.columns.items()
        ]
        with self.connected() as conn, conn, conn.cursor() as cursor:
            cursor.execute(
                "INSERT INTO onramp.source_tables "
                "VALUES (%s, %s, %s, clock_timestamp(), '0/0'::pg_lsn + %s, %s, %s, %s)",
                (*NAME, lsn, orjson.dumps(columns).decode(), self.key and list(self.key), dropped),
            )
            state_sql.add(conn, [NAME])
        return self

    def land(self, *streams: Stream | Sequence[bytes]) -> "Desk":
        """Let the writer land these changes of the topic."""
        for stream in streams:
            values = stream.values if isinstance(stream, Stream) else stream
            batch = arrivals(values, first=self.next_offset, partition=self.topic)
            landed = self.bench.settle(batch, routes=ROUTES, topic_id=self.topic_id)
            assert landed.failures == ()
            self.next_offset += len(values)
        return self

    def end(self, offset: int | None = None) -> End:
        """The end of its topic, or its end at `offset`."""
        return End(self.next_offset if offset is None else offset, self.topic_id)

    @contextmanager
    def store(self, source: str = NAME.source) -> Iterator[StateStore]:
        """The agent's stored state of a source."""
        with closing(StateStore(source, "ONRAMP_SOURCE_SHOP", self.bench.dsn)) as store:
            yield store

    def begin_again(self, *, by_a_resync: bool) -> "Desk":
        """Empty the table at the end of its topic: its source has no rows."""
        if by_a_resync:
            return self.resync().end_first_snapshot()
        with self.store() as store:
            store.empty(NAME[1:], self.next_offset)
        return self

    def resync(self) -> "Desk":
        """Begin a first snapshot, as the agent does."""
        with self.store() as store:
            store.heal({NAME[1:]: self.end()})
        return self

    def end_first_snapshot(self) -> "Desk":
        """End the first snapshot, as the agent does."""
        with self.store() as store:
            store.save_streams(streams=True, ends={NAME[1:]: self.end()})
        return self

    def make_topic_again(self) -> "Desk":
        """Recreate the topic: it gets another id, and its offsets start at 0."""
        self.topic_id, self.next_offset = str(UUID(int=UUID(self.topic_id).int + 1000)), 0
        return self.prepare()

    def land_ends(self, values: Sequence[bytes]) -> "Desk":
        """Let the writer land the records of the transactions' topic."""
        topic = Partition(f"cdc.{Stream().source}-transaction", 0)
        self.bench.claim([topic], topic_id=ENDS_ID)
        batch = arrivals(values, first=self.bench.ledger(topic), partition=topic)
        landed = self.bench.settle(batch, routes=ROUTES, topic_id=ENDS_ID)
        assert landed.failures == ()
        return self

    def merge(self, most: int = MAX_CHANGES, cleaning: Cleaning = UNCLEANED, schema: str = "shop") -> "Desk":
        """Merge all landed changes."""
        with self.connected() as conn:
            merge = self.merger(conn, most, cleaning, schema)
            for _ in range(_MAX_MERGES):
                if not merge.run(conn):
                    return self
        raise AssertionError("it merges for ever")

    def merger(
        self,
        conn: connection,
        most: int = MAX_CHANGES,
        cleaning: Cleaning = UNCLEANED,
        schema: str = "shop",
    ) -> Merge:
        source, model = history_sql.tables(conn)[NAME], state_sql.read_table_settings(conn)[NAME]
        feed = only_feed(source, model, state_sql.feeds(conn).get(Stream().landing, []))
        conn.rollback()
        return Merge(
            source=source,
            table=public_table(schema, source, cleaning),
            topic_id=feed and feed.topic_id,
            max_changes=most,
        )

    @contextmanager
    def connected(self) -> Iterator[connection]:
        with closing(connect(self.bench.dsn, name="onramp-merger", options=OPTIONS)) as conn:
            yield conn

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """The public table's rows, in order."""
        named = ", ".join(f'"{name}"' for name in columns or self.columns)
        return sorted(self.bench.rows(f"SELECT {named} FROM shop.orders"), key=repr)  # noqa: S608

    def model(self) -> Mapping[str, Any]:
        (row,) = self.bench.rows("SELECT next_offset, changes, repeats, reason FROM onramp.table_settings")
        return dict(zip(("next_offset", "changes", "repeats", "reason"), row, strict=True))
