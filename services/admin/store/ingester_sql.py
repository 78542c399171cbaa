"""The ingester's writes: events, their bytes, group counts and offsets, in one transaction per slice.

The ingester's advisory lock belongs to its writing connection: a lost connection also loses the lock, so two
ingesters never write at the same time.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple, Self

import orjson
from psycopg2 import Binary
from psycopg2.errors import UniqueViolation
from psycopg2.extensions import connection, cursor
from psycopg2.extras import execute_values

from services.admin.store.control_sql import RefusedError, connect, prepare, refused, translated
from services.ops.findings import Source
from services.ops.parked.copy_lines import as_file, bytes_line, event_line
from services.ops.parked.facets import Facets
from services.ops.parked.fingerprint import MAX_GROUPS, VERSION, Cause
from services.ops.parked.group_limits import MAX_OF_A_NAME, counted_under, is_others
from services.ops.parked.parked_events import StoredEvent
from shared import failpoints

#: Maximum groups with facets in memory, of some kilobytes each.
_MAX_FACETS: Final = 4_000
#: Timeout of a slice of a few megabytes; a slower database counts as down.
_STATEMENT_MS: Final = 60_000
#: The ingester's advisory lock; any number without another use.
_LOCK: Final = 7_203_155_012
_GROUPS: Final = "SELECT fingerprint, id, event_name FROM onramp_admin.groups"
_ADD_GROUPS: Final = """
    INSERT INTO onramp_admin.groups (fingerprint, version, step, code, sqlstate, destination, "column", place,
                                     event_name, json_type, first_seen, last_seen)
    VALUES %s RETURNING fingerprint, id
"""
_PLACE: Final = 'topic_id, topic, partition, "offset", destination'
_EVENT: Final = f"{_PLACE}, group_id, code, event_id, event_name, parked_at, reason, size, sha256"
#: Reserves ids for a number of events, and returns the first.
_IDS: Final = """
    SELECT setval(s, nextval(s) + %(n)s - 1) - %(n)s + 1
    FROM CAST(pg_get_serial_sequence('onramp_admin.parked', 'id') AS regclass) s
"""
_COPY_EVENTS: Final = f"COPY onramp_admin.parked (id, {_EVENT}) FROM STDIN"
_COPY_BYTES: Final = "COPY onramp_admin.bytes (event, value) FROM STDIN"
#: For a slice with repeats: only its new events are added.
_STAGE: Final = """
    CREATE TEMPORARY TABLE IF NOT EXISTS slice (
        n integer, topic_id uuid, topic text, partition integer, "offset" bigint, destination text,
        group_id bigint, code text, event_id text, event_name text, parked_at timestamptz, reason json,
        size integer, sha256 bytea
    ) ON COMMIT DELETE ROWS;
    CREATE TEMPORARY TABLE IF NOT EXISTS slice_bytes (n integer, value bytea) ON COMMIT DELETE ROWS
"""
_COPY_STAGED: Final = "COPY pg_temp.slice FROM STDIN"
_COPY_STAGED_BYTES: Final = "COPY pg_temp.slice_bytes FROM STDIN"
#: Stored events are skipped.  Ids are assigned in the order of the slice.
_ADD_STAGED: Final = f"""
    WITH new AS (
        INSERT INTO onramp_admin.parked ({_EVENT}) SELECT {_EVENT} FROM pg_temp.slice ORDER BY n
        ON CONFLICT ({_PLACE}) DO NOTHING
        RETURNING id, {_PLACE}
    ), with_bytes AS (
        INSERT INTO onramp_admin.bytes (event, value)
        SELECT new.id, b.value
        FROM new JOIN pg_temp.slice s USING ({_PLACE}) JOIN pg_temp.slice_bytes b USING (n) ORDER BY new.id
    )
    SELECT s.n FROM new JOIN pg_temp.slice s USING ({_PLACE}) ORDER BY 1
"""  # noqa: S608 - our own words
_FACETS: Final = "SELECT group_id, counts::text FROM onramp_admin.facets WHERE group_id = ANY (%s)"
_SET_FACETS: Final = """
    INSERT INTO onramp_admin.facets (group_id, counts) VALUES %s
    ON CONFLICT (group_id) DO UPDATE SET counts = excluded.counts
"""
#: A recurring cause is no longer resolved.
_COUNT: Final = """
    UPDATE onramp_admin.groups g
    SET events = events + new.n, first_seen = least(g.first_seen, new.first),
        last_seen = greatest(g.last_seen, new.last),
        state = CASE g.state WHEN 'resolved' THEN 'open' ELSE g.state END
    FROM (VALUES %s) new (id, n, first, last) WHERE g.id = new.id
"""
_TOPIC_IDS: Final = """
    SELECT topic, partition, topic_id::text FROM onramp_admin.consumed WHERE topic_id IS NOT NULL
"""
_BEGIN: Final = """
    INSERT INTO onramp_admin.consumed (topic, partition, next_offset, topic_id) VALUES %s
    ON CONFLICT (topic, partition)
    DO UPDATE SET next_offset = excluded.next_offset, topic_id = excluded.topic_id
"""
_MOVE: Final = """
    INSERT INTO onramp_admin.consumed (topic, partition, next_offset) VALUES %s
    ON CONFLICT (topic, partition) DO UPDATE SET next_offset = excluded.next_offset
"""


class _InGroup(NamedTuple):
    """An event and the id of its group."""

    group: int
    event: StoredEvent


@dataclass(slots=True)
class IngesterSession:
    """The ingester's connection.  Close it after a method has raised `InfrastructureError`."""

    conn: connection
    #: Ids of stored groups by fingerprint; only the ingester adds groups.
    _groups: dict[bytes, int] = field(default_factory=dict)
    #: Number of groups by event name.
    _of_names: Counter[str | None] = field(default_factory=Counter)
    #: Facets of recent groups, as stored; only the ingester updates them.
    _facets: dict[int, Facets] = field(default_factory=dict)
    #: Whether the last slice had stored events: a log is then read from its start once more.
    _repeats: bool = False

    @classmethod
    def open(cls, dsn: str) -> Self | None:
        """Prepare the schema and take the ingester's lock; return None while another process has it."""
        conn = connect(dsn, statement_ms=_STATEMENT_MS)
        try:
            found = _take_lock(conn)
        except BaseException:
            conn.close()
            raise
        if found is None:
            conn.close()
            return None
        return cls(conn, {bytes(f): n for f, n, _ in found}, Counter(name for _, _, name in found))

    def close(self) -> None:
        """Close the connection, which releases the lock."""
        self.conn.close()

    def topic_ids(self) -> dict[Source, str]:
        """Return the topic id under which each partition was read, where it is known."""
        with translated(), self.conn, self.conn.cursor() as cur:
            cur.execute(_TOPIC_IDS)
            return {Source(topic, n): topic_id for topic, n, topic_id in cur.fetchall()}

    def begin(self, at: Mapping[Source, int], topic_ids: Mapping[str, str]) -> None:
        """Store the start offsets of partitions, and the ids of their topics."""
        rows = [(*source, offset, topic_ids[source.topic]) for source, offset in at.items()]
        with translated(), self.conn, self.conn.cursor() as cur:
            _values(cur, _BEGIN, rows)

    def next_offsets(self) -> dict[Source, int]:
        """Return the next offset of each partition."""
        with translated(), self.conn, self.conn.cursor() as cur:
            cur.execute("SELECT topic, partition, next_offset FROM onramp_admin.consumed")
            return {Source(topic, n): offset for topic, n, offset in cur.fetchall()}

    def keep(self, events: Iterable[StoredEvent], next_offsets: Mapping[Source, int]) -> int:
        """Store the new ones of `events`, and the offsets after them; return how many were new.

        Raises `RefusedError`, and stores none, if the database refuses any of them.
        """
        try:
            return self._keep(events, next_offsets)
        except RefusedError:
            self._facets = {}  # they include events that were not stored
            raise

    def _keep(self, events: Iterable[StoredEvent], next_offsets: Mapping[Source, int]) -> int:
        by_key: dict[tuple[str, str, int, int, str], StoredEvent] = {}
        for event in events:
            by_key.setdefault(event.key, event)
        unique = list(by_key.values())
        with translated(), refused(), self.conn, self.conn.cursor() as cur:
            causes = self._counted_under(unique)
            added, of_names = self._add_groups(cur, unique, causes)
            groups = self._groups | added
            in_groups = [_InGroup(groups[c.fingerprint], e) for c, e in zip(causes, unique, strict=True)]
            new = self._add_events(cur, in_groups)
            _count(cur, new)
            others = {groups[cause.fingerprint] for cause in causes if is_others(cause)}
            self._count_facets(cur, new, others)
            _move(cur, next_offsets)
            failpoints.reach("admin.before_commit")
        failpoints.reach("admin.after_commit")
        self._groups, self._of_names = groups, self._of_names + of_names
        return len(new)

    def _add_events(self, cur: cursor, events: Sequence[_InGroup]) -> Sequence[_InGroup]:
        """Add the new events and return them.  After a repeat, further repeats are expected."""
        if not events or (not self._repeats and _copy_events(cur, events)):
            return events
        new = _add_staged(cur, events)
        self._repeats = len(new) < len(events)
        return new

    def _count_facets(self, cur: cursor, new: Iterable[_InGroup], others: Container[int]) -> None:
        """Update the facets of groups."""
        of_groups: dict[int, list[StoredEvent]] = {}
        for group, event in new:
            of_groups.setdefault(group, []).append(event)
        if unknown := [group for group in of_groups if group not in self._facets]:
            if len(self._facets) > _MAX_FACETS:
                self._facets, unknown = {}, list(of_groups)
            cur.execute(_FACETS, (unknown,))
            self._facets |= {group: Facets.of(orjson.loads(counts)) for group, counts in cur.fetchall()}
        for group, events in of_groups.items():
            self._facets.setdefault(group, Facets()).add(events, shapes=group not in others)
        _values(cur, _SET_FACETS, [(group, self._facets[group].stored()) for group in of_groups])

    def _counted_under(self, events: Sequence[StoredEvent]) -> list[Cause]:
        return counted_under(
            [event.cause for event in events],
            self._groups,
            self._of_names,
            max_groups=MAX_GROUPS,
            max_groups_of_a_name=MAX_OF_A_NAME,
        )

    def _add_groups(
        self, cur: cursor, events: Sequence[StoredEvent], causes: Sequence[Cause]
    ) -> tuple[dict[bytes, int], Counter[str | None]]:
        """Add the new groups; return them, and their number by event name."""
        new: dict[bytes, tuple[Cause, StoredEvent]] = {}
        for event, cause in zip(events, causes, strict=True):
            if cause.fingerprint not in self._groups:
                new.setdefault(cause.fingerprint, (cause, event))
        rows = [(Binary(f), VERSION, *c, event.parked_at, event.parked_at) for f, (c, event) in new.items()]
        added = {bytes(f): group for f, group in _values(cur, _ADD_GROUPS, rows)}
        return added, Counter(cause.event_name for cause, _ in new.values())


def _take_lock(conn: connection) -> list[tuple[Any, ...]] | None:
    """Take the ingester's lock and return the stored groups; return None if another process has it."""
    with translated():
        with conn:
            prepare(conn)
        with conn, conn.cursor() as cur:
            cur.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,))
            if cur.fetchone() != (True,):
                return None
            cur.execute(_GROUPS)
            return cur.fetchall()


def _copy_events(cur: cursor, new: Sequence[_InGroup]) -> bool:
    """Copy new events into their tables; return False, and change nothing, if one is stored already."""
    cur.execute("SAVEPOINT copied")
    cur.execute(_IDS, {"n": len(new)})
    ((first,),) = cur.fetchall()
    try:
        _copy(cur, (_COPY_EVENTS, _COPY_BYTES), new, first)
    except UniqueViolation:
        cur.execute("ROLLBACK TO SAVEPOINT copied")
        return False
    return True


def _add_staged(cur: cursor, events: Sequence[_InGroup]) -> list[_InGroup]:
    """Add the ones of `events` that are not stored yet; return them."""
    cur.execute(_STAGE)
    _copy(cur, (_COPY_STAGED, _COPY_STAGED_BYTES), events, 0)
    cur.execute(_ADD_STAGED)
    return [events[n] for (n,) in cur.fetchall()]


def _copy(cur: cursor, into: tuple[str, str], events: Sequence[_InGroup], first: int) -> None:
    """Copy events and their bytes, numbered from `first` on."""
    lines = (event_line(n, of.event, of.group) for n, of in enumerate(events, first))
    cur.copy_expert(into[0], as_file(lines))
    values = ((n, of.event.value) for n, of in enumerate(events, first))
    cur.copy_expert(into[1], as_file(bytes_line(n, v) for n, v in values if v is not None))


def _count(cur: cursor, new: Iterable[_InGroup]) -> None:
    """Count new events in their groups."""
    of_groups: dict[int, list[datetime]] = {}
    for group, event in new:
        of_groups.setdefault(group, []).append(event.parked_at)
    # In the order of ids, so that two counting transactions never deadlock.
    rows = [(group, len(at), min(at), max(at)) for group, at in sorted(of_groups.items())]
    _values(cur, _COUNT, rows)


def _move(cur: cursor, next_offsets: Mapping[Source, int]) -> None:
    _values(cur, _MOVE, [(*source, offset) for source, offset in next_offsets.items()])


def _values(cur: cursor, statement: str, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Run `statement` for all `rows` at once; return its rows."""
    if not rows:
        return []
    execute_values(cur, statement, rows, page_size=len(rows))
    return cur.fetchall() if cur.description else []
