"""A bench with events of several types, and the release of waiting events."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg2

from services.writer.model.routes import Routes
from services.writer.settle.event_type_pauses import PausePolicy
from services.writer.waiting.release import Release
from shared.kafka_read.offsets import Partition
from tests.fixtures.writer import PARTITION, TOPIC_ID, Bench, Landed, arrivals, database_of

QUICK = {"lock_timeout_ms": 100}
LIMIT = PausePolicy(share=0.5, window=100, min_events=10)


@dataclass
class Hall:
    """A bench whose events have types of their own, and the release of what waits in it."""

    bench: Bench
    at: dict[Partition, int] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=lambda: dict(QUICK))

    #: The life of the topic whose events are settled.
    topic_id: str = TOPIC_ID

    def settle(self, *values: bytes, partition: Partition | None = None, fail: bool = False) -> Landed:
        p = partition or PARTITION
        first = self.at.get(p, 0)
        batch = arrivals(values, first=first, partition=p)
        found = self.bench.settle(batch, settings=self.settings, pause_policy=LIMIT, topic_id=self.topic_id)
        assert bool(found.failures) == fail, found
        if not fail:
            self.at[p] = first + len(values)
        return found

    def make_topic_anew(self) -> None:
        """The topic is deleted and made again: another id, and the same offsets once more."""
        self.topic_id = str(uuid4())
        self.bench.claim(topic_id=self.topic_id)
        self.at.clear()

    def release(self, routes: Routes | None = None, at_once: int = 1000, event_lines: int = 0) -> list[str]:
        database = database_of(self.bench.dsn, **self.settings)
        release = Release(database, at_once=at_once, event_lines=event_lines)
        return [h.name for h in release.run(routes or Routes("onramp"))]

    def hurry(self) -> None:
        """Statements run out of time soon."""
        self.settings["statement_timeout_ms"] = 500

    def resume(self, name: str) -> None:
        self.bench.execute(f"UPDATE onramp.holds SET state = 'resumed' WHERE name = '{name}'")  # noqa: S608

    def landed(self, name: str = "order_placed") -> list[str]:
        """Ids in the order in which they landed."""
        return [i for (i,) in self.bench.rows(f"SELECT _id FROM events.{name} ORDER BY ctid")]  # noqa: S608

    def waiting(self) -> list[int]:
        return [o for (o,) in self.bench.rows('SELECT "offset" FROM onramp.waiting ORDER BY 1')]

    def parked(self) -> list[int]:
        return [o for (o,) in self.bench.rows('SELECT "offset" FROM onramp.outbox ORDER BY 1')]

    def totals(self) -> dict[str, int]:
        return {outcome: n for outcome, n in self.bench.totals().items() if n}

    def held(self) -> dict[str, str]:
        found = self.bench.rows("SELECT name, state FROM onramp.holds WHERE state <> 'watched'")
        return dict(found)

    @contextmanager
    def locked(self, table: str = "events.order_placed") -> Iterator[None]:
        with closing(psycopg2.connect(self.bench.dsn)) as owner, owner.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {table}")
            yield
