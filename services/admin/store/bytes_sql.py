"""The bytes of stored events, from the control database or a segment.

Every reader of an event's bytes uses this module.  It compares them with the stored sha256, so the result is
the parked bytes, or the reason why they are unavailable.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Final, NamedTuple, Self

import orjson
from psycopg2.extensions import connection

from services.admin.segments import segment
from services.admin.segments.folder import Segments
from services.admin.store.control_sql import transaction
from services.ops.fixes.payloads import Edited
from shared.errors import (
    BYTES_REMOVED,
    SEGMENT_DAMAGED,
    SEGMENT_MISSING,
    InfrastructureError,
    OnrampError,
    UserError,
)

#: Maximum bytes of edited events in memory at once, apart from the last event.
MAX_EDITED: Final = 16 << 20
#: One statement, so that an event is in exactly one place in its snapshot.
_WHERE: Final = """
    SELECT e.id, e.group_id, e.sha256, e.gone, b.value, s.name, e.reason::text, e.parked_at
    FROM onramp_admin.events e
        LEFT JOIN onramp_admin.bytes b ON b.event = e.id
        LEFT JOIN LATERAL (
            SELECT name, last_event FROM onramp_admin.segments
            WHERE b.event IS NULL AND first_event <= e.id ORDER BY first_event DESC LIMIT 1
        ) s ON s.last_event >= e.id
    WHERE e.id = ANY (%s)
"""


@dataclass(slots=True)
class Loaded:
    """Bytes by event, and errors by event.  A tombstone is in neither.

    `times`: each event's time of receipt, if its record has it, and its record's timestamp.
    `digests`: sha256 of edited bytes.  `later`: events to request again, because those before them have
    used up the memory limit.
    """

    values: dict[int, bytes] = field(default_factory=dict)
    lost: dict[int, OnrampError] = field(default_factory=dict)
    digests: dict[int, bytes] = field(default_factory=dict)
    times: dict[int, tuple[datetime | None, datetime]] = field(default_factory=dict)
    later: set[int] = field(default_factory=set)

    def edit(self, edited: Callable[[int, bytes], Edited]) -> Self:
        """Replace these bytes by those of `edited`, up to the memory limit; store raised `UserError`s."""
        size = 0
        for number, value in sorted(self.values.items()):
            del self.values[number]
            if size >= MAX_EDITED or number in self.later:
                self.later.add(number)
                continue
            try:
                self.values[number], self.digests[number] = edited(number, value)
                size += len(self.values[number])
            except UserError as e:
                self.lost[number] = e
        return self


class _Place(NamedTuple):
    event: int
    group: int
    digest: bytes | None
    segment: str


#: Bytes of the control database, and the segments of the others.
_Located = tuple[Loaded, list[_Place]]


def load(conn: connection, segments: Segments | None, events: Iterable[int]) -> Loaded:
    """Return the bytes of `events`.  Raises `InfrastructureError` if the segment folder is unreachable."""
    return _load(partial(_query, conn), partial(_read, segments), list(events))


def shown(dsn: str, segments: Segments | None, events: Iterable[int]) -> Loaded:
    """Return the bytes of `events` for a page; those in an unreachable segment folder are errors.

    No connection is in use while segments are read: a hanging folder would exhaust the pool.
    """

    def query(ids: list[int]) -> _Located:
        with transaction(dsn) as conn:
            return _query(conn, ids)

    def read(loaded: Loaded, places: Sequence[_Place]) -> None:
        try:
            _read(segments, loaded, places)
        except InfrastructureError as e:
            unread = {place.event for place in places} - loaded.values.keys() - loaded.lost.keys()
            loaded.lost |= dict.fromkeys(unread, e)

    return _load(query, read, list(events))


def value(dsn: str, segments: Segments | None, event: int) -> bytes | None:
    """Return an event's bytes; None for a tombstone.  Raises `OnrampError` if they are unavailable."""
    loaded = shown(dsn, segments, [event])
    if event in loaded.lost:
        raise loaded.lost[event]
    return loaded.values.get(event)


def _load(
    query: Callable[[list[int]], _Located],
    read: Callable[[Loaded, Sequence[_Place]], None],
    events: list[int],
) -> Loaded:
    loaded, places = query(events)
    read(loaded, places)
    moved = [e for e, why in loaded.lost.items() if why.fault is SEGMENT_MISSING]
    if moved:  # rewritten between query and read, or really missing: a second query tells
        for event in moved:
            del loaded.lost[event]
        again, places = query(moved)
        read(again, places)
        loaded.values |= again.values
        loaded.lost |= again.lost
    return loaded


def _query(conn: connection, events: list[int]) -> _Located:
    loaded, places = Loaded(), []
    with conn.cursor() as cur:
        cur.execute(_WHERE, (events,))
        for event, group, kept, gone, stored, name, reason, parked_at in cur:
            loaded.times[event] = _times(reason, parked_at)
            digest = None if kept is None else bytes(kept)
            if stored is not None:
                _check_digest(loaded, event, digest, bytes(stored), "the control database")
            elif gone:
                loaded.lost[event] = UserError(BYTES_REMOVED, f"event {event}")
            elif name is not None and digest is not None:
                places.append(_Place(event, group, digest, name))
            elif digest is not None:
                loaded.lost[event] = UserError(SEGMENT_MISSING, f"event {event} has no segment")
    return loaded, places


def _read(segments: Segments | None, loaded: Loaded, places: Sequence[_Place]) -> None:
    by_segment: dict[str, list[_Place]] = defaultdict(list)
    for place in places:
        by_segment[place.segment].append(place)
    for name, of in by_segment.items():
        if segments is None:
            why = UserError(SEGMENT_MISSING, f"ONRAMP_ADMIN_STORE is not set, and segment {name} has it")
            loaded.lost |= {place.event: why for place in of}
            continue
        read = segment.read(segments, name, {place.event: place.group for place in of})
        loaded.lost |= read.lost
        for place in of:
            if place.event in read.values:
                _check_digest(loaded, place.event, place.digest, read.values[place.event], f"segment {name}")


def _times(reason: str, parked_at: datetime) -> tuple[datetime | None, datetime]:
    told = orjson.loads(reason)
    return _time(told.get("received_at")), _time(told.get("timestamp")) or parked_at


def _time(text: object) -> datetime | None:
    """Return a time of the record's reason; None for an invalid year."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _check_digest(loaded: Loaded, event: int, digest: bytes | None, found: bytes, where: str) -> None:
    """Add bytes that have the stored event's digest."""
    if sha256(found).digest() == digest:
        loaded.values[event] = found
    else:
        loaded.lost[event] = UserError(SEGMENT_DAMAGED, f"{where} has different bytes of event {event}")
