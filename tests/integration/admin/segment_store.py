"""Segments for tests: a control database with parked events, and a folder or bucket."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import Producer

from services.admin.segments.folder import Segments
from services.admin.store import bytes_sql
from services.admin.store.control_sql import transaction
from services.admin.store.ingester_sql import IngesterSession
from services.admin.store.segments_sql import PackerSession
from services.ops.findings import Source
from services.ops.kafka_logs import LogRecord
from services.ops.parked.parked_events import stored_event
from shared import wire
from tests.fixtures.fix_s3 import Bucket
from tests.fixtures.writer import eventually, execute, rows

AN_HOUR_AGO = "UPDATE onramp_admin.bytes SET stored_at = now() - interval '61 minutes'"
OVER = """
    UPDATE onramp_admin.states SET state = 'discarded', changed_at = now() - interval '{age}'
    FROM onramp_admin.parked WHERE id = event AND {which}
"""
OURS = """
    SELECT count(*) FROM onramp_admin.bytes b JOIN onramp_admin.events e ON e.id = b.event
    WHERE e.topic = 'shelf'
"""
BYTES = "SELECT count(*) FROM onramp_admin.bytes"
NAMES = "SELECT name FROM onramp_admin.segments ORDER BY first_event"
TOPIC_ID = "6f1e3c9a-2f0e-4a57-9f63-1f1b7f4f0a11"


@dataclass
class Packed:
    """A control database whose bytes go somewhere."""

    dsn: str
    segments: Segments

    def keep(self, count: int, at: int = 0, size: int = 200) -> dict[int, bytes]:
        """Keep that many events of three groups; return the bytes by offset."""
        values = {n: os.urandom(size) for n in range(at, at + count)}
        session = eventually(lambda: IngesterSession.open(self.dsn))
        found = [stored_event(_record(n, value)) for n, value in values.items()]
        session.keep([e for e in found if e], {Source(wire.USER_ERRORS, 0): at + count})
        session.close()
        return values

    def open(self) -> PackerSession:
        """Become the packer, once Postgres has ended the previous one's session."""
        return eventually(lambda: PackerSession.open(self.dsn, self.segments))

    def pack(self) -> int:
        execute(self.dsn, AN_HOUR_AGO)
        session = self.open()
        try:
            return session.pack()
        finally:
            session.close()

    def expire(self) -> list[Any]:
        session = self.open()
        try:
            return session.expire()
        finally:
            session.close()

    def load(self) -> tuple[dict[int, bytes], dict[int, Any]]:
        """All bytes by offset, and the errors of others; without those of other tests."""
        offsets = dict(self.rows("""SELECT id, "offset" FROM onramp_admin.events WHERE topic = 'shelf'"""))
        with transaction(self.dsn) as conn:
            found = bytes_sql.load(conn, self.segments, offsets)
        values = {offsets[e]: value for e, value in found.values.items()}
        return values, {offsets[e]: why.fault for e, why in found.lost.items()}

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return rows(self.dsn, statement)

    def names(self) -> list[str]:
        return [name for (name,) in self.rows(NAMES)]


def _told(offset: int) -> dict[str, Any]:
    place = {"topic": "shelf", "topic_id": TOPIC_ID, "partition": 0, "offset": offset}
    return place | {"code": "data_rejected", "step": "persist", "destination": "onramp.a.b"}


def park(bootstrap: str, name: str) -> None:
    """Park an event of this name on Kafka, as a service does."""
    error = orjson.dumps(_told(10_000) | {"topic": name, "destination": "onramp.c.d", "event_name": name})
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(wire.USER_ERRORS, key=b"k", value=b"{}", headers=[("onramp-error", error)])
    assert producer.flush(30) == 0


class Shelf(Packed):
    """They go into a folder."""

    def __init__(self, dsn: str, folder: Path) -> None:
        super().__init__(dsn, Segments(str(folder)))
        self.folder = folder

    @property
    def files(self) -> list[str]:
        return sorted(str(f.relative_to(self.folder)) for f in self.folder.rglob("*") if f.is_file())


class InBucket(Packed):
    """They go into a bucket."""

    def __init__(self, dsn: str, bucket: Bucket) -> None:
        super().__init__(dsn, Segments(bucket.uri))
        self.bucket = bucket

    @property
    def files(self) -> list[str]:
        return self.bucket.files


def _record(offset: int, value: bytes | None) -> LogRecord:
    return LogRecord(
        source=Source(wire.USER_ERRORS, 0),
        offset=offset,
        timestamp=1_760_000_000_000,
        key=b"k",
        value=value,
        header_count=1,
        headers={"onramp-error": orjson.dumps(_told(offset) | {"event_name": f"name_{offset % 3}"})},
    )
