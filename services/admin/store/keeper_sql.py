"""What the keeper writes: events, their bytes, their groups' counts and the offsets, one transaction each.

The keeper's advisory lock is of the connection that it writes through: a keeper whose connection is lost
has lost both at once, so two of them never write.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from psycopg2 import Binary
from psycopg2.extensions import connection, cursor
from psycopg2.extras import execute_values

from services.admin.errors.cause import OTHERS, VERSION, Cause
from services.admin.errors.kept import KeptEvent
from services.admin.findings import Source
from services.admin.store.control_sql import connect, prepare, translated
from shared import failpoints

#: At most so many groups are told apart: event names, and with them causes, are anybody's to make up.
MOST_GROUPS: Final = 10_000
#: A slice is a few megabytes; a database that takes longer is out.
_STATEMENT_MS: Final = 60_000
#: The one keeper's; any number that nothing else uses.
_LOCK: Final = 7_203_155_012
_GROUPS: Final = "SELECT fingerprint, id FROM onramp_admin.groups"
_ADD_GROUPS: Final = """
    INSERT INTO onramp_admin.groups (fingerprint, version, step, code, sqlstate, destination, "column", place,
                                     event_name, json_type, first_seen, last_seen)
    VALUES %s RETURNING fingerprint, id
"""
_ADD_EVENTS: Final = """
    INSERT INTO onramp_admin.events (topic_id, topic, partition, "offset", destination, group_id, code,
                                     event_id, event_name, parked_at, reason, size, sha256)
    VALUES %s ON CONFLICT DO NOTHING
    RETURNING id, topic_id::text, topic, partition, "offset", destination, group_id, parked_at
"""
_ADD_BYTES: Final = "INSERT INTO onramp_admin.bytes (event, value) VALUES %s"
#: A cause that comes back is no longer resolved.
_COUNT: Final = """
    UPDATE onramp_admin.groups g
    SET events = events + new.n, first_seen = least(g.first_seen, new.first),
        last_seen = greatest(g.last_seen, new.last),
        state = CASE g.state WHEN 'resolved' THEN 'open' ELSE g.state END
    FROM (VALUES %s) new (id, n, first, last) WHERE g.id = new.id
"""
_MOVE: Final = """
    INSERT INTO onramp_admin.consumed (topic, partition, next_offset) VALUES %s
    ON CONFLICT (topic, partition) DO UPDATE SET next_offset = excluded.next_offset
"""


@dataclass(slots=True)
class KeeperSession:
    """The connection of the one keeper.  Its methods raise `InfrastructureError`: then it is to be closed."""

    conn: connection
    #: Of the groups that are stored, by fingerprint: nobody else adds one.
    _groups: dict[bytes, int] = field(default_factory=dict)

    @classmethod
    def open(cls, dsn: str) -> Self | None:
        """Prepare the schema and become the keeper; None while another one is."""
        conn = connect(dsn, statement_ms=_STATEMENT_MS)
        try:
            groups = _become_keeper(conn)
        except BaseException:
            conn.close()
            raise
        if groups is None:
            conn.close()
            return None
        return cls(conn, groups)

    def close(self) -> None:
        """Give the lock back."""
        self.conn.close()

    def next_offsets(self) -> dict[Source, int]:
        """Return how far each partition has been read."""
        with translated(), self.conn, self.conn.cursor() as cur:
            cur.execute("SELECT topic, partition, next_offset FROM onramp_admin.consumed")
            return {Source(topic, n): offset for topic, n, offset in cur.fetchall()}

    def keep(self, events: Iterable[KeptEvent], next_offsets: Mapping[Source, int]) -> int:
        """Keep those of `events` that are new, and the offsets behind them; return how many were new."""
        by_key: dict[tuple[str, str, int, int, str], KeptEvent] = {}
        for event in events:
            by_key.setdefault(event.key, event)
        unique = list(by_key.values())
        with translated(), self.conn, self.conn.cursor() as cur:
            added = self._add_groups(cur, unique)
            groups = self._groups | added
            kept = _add_events(cur, unique, [_group_of(groups, event.cause) for event in unique])
            _move(cur, next_offsets)
            failpoints.reach("admin.before_commit")
        failpoints.reach("admin.after_commit")
        self._groups = groups
        return kept

    def _add_groups(self, cur: cursor, events: Sequence[KeptEvent]) -> dict[bytes, int]:
        """Add the groups that are new, as far as there may be more, and "others" when there may not."""
        first: dict[bytes, KeptEvent] = {}
        for event in events:
            first.setdefault(event.cause.fingerprint, event)
        new = [(f, event.cause, event) for f, event in first.items() if f not in self._groups]
        room = max(MOST_GROUPS - len(self._groups), 0)
        if len(new) > room and OTHERS.fingerprint not in self._groups:
            new = [*new[:room], (OTHERS.fingerprint, OTHERS, new[room][2])]
        else:
            new = new[:room]
        rows = [(Binary(f), VERSION, *cause, event.parked_at, event.parked_at) for f, cause, event in new]
        return {bytes(f): group for f, group in _values(cur, _ADD_GROUPS, rows)}


def _become_keeper(conn: connection) -> dict[bytes, int] | None:
    """Take the keeper's lock and return the groups that there are; None when another one has it."""
    with translated():
        with conn:
            prepare(conn)
        with conn, conn.cursor() as cur:
            cur.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,))
            if cur.fetchone() != (True,):
                return None
            cur.execute(_GROUPS)
            return {bytes(fingerprint): group for fingerprint, group in cur.fetchall()}


def _group_of(groups: Mapping[bytes, int], cause: Cause) -> int:
    found = groups.get(cause.fingerprint)
    return groups[OTHERS.fingerprint] if found is None else found


def _add_events(cur: cursor, events: Sequence[KeptEvent], groups: Sequence[int]) -> int:
    rows = [
        (
            *event.key,
            group,
            event.code,
            event.event_id,
            event.event_name,
            event.parked_at,
            event.reason,
            len(event.value or b""),
            event.sha256 and Binary(event.sha256),
        )
        for event, group in zip(events, groups, strict=True)
    ]
    new = _values(cur, _ADD_EVENTS, rows)
    value_of = {event.key: event.value for event in events}
    bytes_of = [(row[0], value_of[tuple(row[1:6])]) for row in new]
    _values(cur, _ADD_BYTES, [(event, Binary(value)) for event, value in bytes_of if value is not None])
    _count(cur, new)
    return len(new)


def _count(cur: cursor, new: Sequence[tuple[Any, ...]]) -> None:
    times = defaultdict(list)
    for *_, group, parked_at in new:
        times[group].append(parked_at)
    # In order of ids: two transactions that count never wait for each other in a circle.
    _values(cur, _COUNT, [(g, len(t), min(t), max(t)) for g, t in sorted(times.items())])


def _move(cur: cursor, next_offsets: Mapping[Source, int]) -> None:
    _values(cur, _MOVE, [(*source, offset) for source, offset in next_offsets.items()])


def _values(cur: cursor, statement: str, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Run `statement` for all `rows` at once; return what it returns."""
    if not rows:
        return []
    execute_values(cur, statement, rows, page_size=len(rows))
    return cur.fetchall() if cur.description else []
