"""The API's reads of the control database: pages of groups and events, and single ones by id."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson
from psycopg2 import sql
from psycopg2.extensions import connection

from services.ops.journey.parked_facts_sql import TOPIC_IDS
from services.ops.parked.facets import Facets
from services.ops.parked.fingerprint import OTHERS, Cause
from shared import wire

#: A group all of whose events were replayed or discarded is resolved, until one of them is open again.
_STATED: Final = """(
        SELECT g.id, step, code, sqlstate, destination, "column", place, event_name, json_type, assignee,
               g.events, first_seen, last_seen,
               CASE WHEN g.state IN ('open', 'acknowledged') AND g.events + coalesce(m.events, 0) = 0
                   THEN 'resolved' ELSE g.state END AS state
        FROM onramp_admin.groups g LEFT JOIN (
            SELECT group_id, sum(events) AS events FROM onramp_admin.moves
            WHERE state IN ('open', 'replaying') GROUP BY 1
        ) m ON m.group_id = g.id
    ) groups
"""
_GROUP: Final = f"""
    SELECT id, step, code, sqlstate, destination, "column", place, event_name, json_type, state, assignee,
           events, first_seen, last_seen, (
               SELECT CASE WHEN length(p.reason::text) <= 16384 THEN p.reason::text END
               FROM onramp_admin.parked p WHERE p.group_id = groups.id ORDER BY p.id DESC LIMIT 1), (
               SELECT json_build_object('would_land', l.would_land, 'of', l.events, 'at', l.answered_at,
                                        'why', l.why, 'waits', l.waits)::text
               FROM onramp_admin.group_rehearsals l WHERE l.group_id = groups.id)
    FROM {_STATED}
"""  # noqa: S608 - our own words
_EVENT: Final = """
    SELECT id, group_id, state, topic, partition, "offset", destination, code, event_id, event_name,
           parked_at, size, encode(sha256, 'hex'), reason::text
    FROM onramp_admin.events
"""
_PART: Final = """
    SELECT id, destination, event_name, step, code, hour, events FROM onramp_admin.parts
"""
_FACETS: Final = "SELECT group_id, counts::text FROM onramp_admin.facets WHERE group_id = ANY (%s)"
_STATES: Final = f"SELECT state, count(*) FROM {_STATED}{{where}} GROUP BY 1"  # noqa: S608
_MOVES: Final = """
    SELECT group_id, state, sum(events)::bigint FROM onramp_admin.moves WHERE group_id = ANY (%s)
    GROUP BY 1, 2 HAVING sum(events) <> 0
"""
_LAST: Final = "SELECT id FROM onramp_admin.parked WHERE group_id = %s ORDER BY id DESC LIMIT %s"
_ACTS_DONE: Final = "SELECT id, at, actor, act, subject, reason, events FROM onramp_admin.acts"
_ACT: Final = "INSERT INTO onramp_admin.acts (actor, act, subject, reason) VALUES (%s, %s, %s, %s)"
#: Each group with its stored counts and later moves; events in "others" (of all names, or of one) are counted
#: individually: such a group has no code or destination, and callers with some rights see only their events.
_COUNTS: Final = """
    WITH others AS (
        SELECT id FROM onramp_admin.groups
        WHERE code = %s AND (step, destination, "column", place, json_type) IS NULL
    ), moved AS (
        SELECT id AS group_id, 'open' AS state, events FROM onramp_admin.groups
        UNION ALL SELECT group_id, state, events FROM onramp_admin.moves
    ), of_groups AS (
        SELECT group_id, state, sum(events) AS events FROM moved GROUP BY 1, 2 HAVING sum(events) <> 0
    )
    SELECT state, code, event_name, destination, sum(events)::bigint FROM (
        SELECT m.state, coalesce(g.code, '') AS code, g.event_name,
               coalesce(g.destination, '') AS destination, m.events
        FROM of_groups m JOIN onramp_admin.groups g ON g.id = m.group_id
        WHERE g.id NOT IN (TABLE others)
        UNION ALL
        SELECT state, code, event_name, destination, count(*) FROM onramp_admin.events
        WHERE group_id = ANY (ARRAY(TABLE others)) GROUP BY 1, 2, 3, 4
    ) counted{where}
    GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4 LIMIT %s
"""
_PARKED_PLACES: Final = f"""
    SELECT DISTINCT p.topic, p.partition, p."offset"
    FROM unnest(%s::text[], %s::int[], %s::bigint[]) k (topic, partition, "offset")
    CROSS JOIN ({TOPIC_IDS}) t (topic_id)
    JOIN onramp_admin.parked p ON p.topic_id = t.topic_id
    WHERE (p.topic, p.partition, p."offset") = (k.topic, k.partition, k."offset")
"""  # noqa: S608 - our own words
#: Patterns of event names as in the registry; an event without a name matches none.
MATCHES: Final = """event_name LIKE ANY (
    SELECT replace(replace(replace(p, '_', '\\_'), '*', '%%'), '?', '_') FROM unnest(%s::text[]) p)"""
#: SQL conditions by filter.
FILTERS: Final = {
    "only": MATCHES,
    "id": "id = %s",
    "actor": "actor = %s",
    "act": "act = %s",
    "subject": "subject = %s",
    "group": "group_id = %s",
    "state": "state = %s",
    "code": "code = %s",
    "event_name": "event_name = %s",
    "event_id": "event_id = %s",
    "destination": "destination = %s",
    "topic": f"topic_id IN ({TOPIC_IDS}) AND topic = %s",
    "partition": "partition = %s",
    "offset": '"offset" = %s',
    "edits": "id IN (SELECT event FROM onramp_admin.edits WHERE upload = %s)",
    "assignee": "assignee = %s",
    "since": "parked_at >= %s",
    "until": "parked_at < %s",
    #: Destinations of transforms; events for tables match too.
    "transforms": f"""
        (NOT starts_with(destination, '{wire.TRANSFORM_DESTINATION}') OR destination = ANY (%s::text[]))
    """,
    "step": "step = %s",
}
#: By filter: the column of events that an index has before `id`.
_INDEXED: Final = {
    "group": "group_id",
    "code": "code",
    "event_name": "event_name",
    "event_id": "event_id",
    "destination": "destination",
}
_LAST_ID: Final = 2**63 - 1
Filters = Mapping[str, Any]


class _List(NamedTuple):
    """A paged query and its keyset."""

    select: str
    behind: str
    order: str


_GROUPS: Final = _List(_GROUP, "(last_seen, id) < (%s, %s)", "last_seen DESC, id DESC")
_EVENTS: Final = _List(_EVENT, "id < %s", "id DESC")
_PARTS: Final = _List(_PART, "id < %s", "id DESC")


class Part(NamedTuple):
    """The number of a segment's events with one destination, event name, step, code and hour of parking."""

    id: int
    destination: str
    event_name: str | None
    step: str | None
    code: str
    hour: datetime
    events: int


_ACTS: Final = _List(_ACTS_DONE, "id < %s", "id DESC")
#: Patterns of the visible event names; None: all.
Only = Sequence[str] | None


class Group(NamedTuple):
    """Parked events of one cause; `rehearsal`: the last rehearsal of some of them as JSON, if any."""

    id: int
    cause: Cause
    state: str
    assignee: str | None
    events: int
    first_seen: datetime
    last_seen: datetime
    #: The declared type of the cause's column, from the newest event.
    column_type: str | None
    rehearsal: str | None


class Count(NamedTuple):
    """The number of equal events; in a `destination` that is a pointer, indices are `*`."""

    state: str
    code: str
    event_name: str | None
    destination: str
    events: int


class Event(NamedTuple):
    """One parked event and destination; `reason`: the record's original header."""

    id: int
    group: int
    state: str
    topic: str
    partition: int
    offset: int
    destination: str
    code: str
    event_id: str | None
    event_name: str | None
    parked_at: datetime
    size: int
    sha256: str | None
    reason: str


class Act(NamedTuple):
    """An entry of the audit log; `events`: the number of requests refused within a minute."""

    id: int
    at: datetime
    actor: str
    act: str
    subject: str
    reason: str | None
    events: int


def groups(conn: connection, filters: Filters, after: Sequence[Any] | None, limit: int) -> list[Group]:
    """Return groups after `after` (a last_seen and an id), the one seen last first."""
    return [_group(row) for row in _page(conn, _GROUPS, filters, after, limit)]


def events(conn: connection, filters: Filters, after: Sequence[Any] | None, limit: int) -> list[Event]:
    """Return events after `after` (an id), those that were stored last first."""
    given = {name: wanted for name, wanted in filters.items() if wanted is not None}
    if len(given) == 1 and (column := _INDEXED.get(next(iter(given)))):
        return _events_of(conn, column, next(iter(given.values())), after, limit)
    return [Event(*row) for row in _page(conn, _EVENTS, given, after, limit)]


def counts(conn: connection, limit: int, only: Only = None) -> list[Count]:
    """Return the `limit` largest counts of equal events."""
    where, values = _where({"only": only})
    values = [OTHERS.code, *values, limit]
    return [Count(*row) for row in _rows(conn, sql.SQL(_COUNTS.format(where=where)), values)]


def parts(conn: connection, filters: Filters, after: Sequence[Any] | None, limit: int) -> list[Part]:
    """Return entries of the segment index after `after` (an id), the newest first."""
    return [Part(*row) for row in _page(conn, _PARTS, filters, after, limit)]


def acts(conn: connection, filters: Filters, after: Sequence[Any] | None, limit: int) -> list[Act]:
    """Return entries of the audit log after `after` (an id), the newest first."""
    return [Act(*row) for row in _page(conn, _ACTS, filters, after, limit)]


def last_act(conn: connection, subject: str) -> Act | None:
    """Return the last entry of the audit log about a subject."""
    return next(iter(acts(conn, {"subject": subject}, None, 1)), None)


def group(conn: connection, number: int, only: Only = None) -> Group | None:
    """Return one group."""
    found = _page(conn, _GROUPS, {"id": number, "only": only}, None, 1)
    return _group(found[0]) if found else None


def event(conn: connection, number: int, only: Only = None) -> Event | None:
    """Return one event."""
    found = _page(conn, _EVENTS, {"id": number, "only": only}, None, 1)
    return Event(*found[0]) if found else None


def last_of_group(conn: connection, group_id: int, count: int) -> list[int]:
    """Return the last events of a group, the newest first."""
    return [event for (event,) in _rows(conn, sql.SQL(_LAST), (group_id, count))]


def facets(conn: connection, groups: Sequence[int]) -> dict[int, Facets]:
    """Return the facets of groups, in one query; empty for a group without any."""
    found = _rows(conn, sql.SQL(_FACETS), (list(groups),))
    return {number: Facets() for number in groups} | {
        number: Facets.of(orjson.loads(counts)) for number, counts in found
    }


def group_states(conn: connection, filters: Filters) -> dict[str, int]:
    """Return the number of groups in each state, whatever state the filters name."""
    where, values = _where({name: value for name, value in filters.items() if name != "state"})
    return dict(_rows(conn, sql.SQL(_STATES.format(where=where)), values))


def event_states(conn: connection, groups: Sequence[Group]) -> dict[int, dict[str, int]]:
    """Return the number of events in each state, by group."""
    states = {each.id: {"open": each.events} for each in groups}
    for number, state, events in _rows(conn, sql.SQL(_MOVES), ([each.id for each in groups],)):
        states[number][state] = states[number].get(state, 0) + events
    return {number: {s: n for s, n in of.items() if n} for number, of in states.items()}


def parked_places(conn: connection, places: Sequence[tuple[str, int, int]]) -> set[tuple[str, int, int]]:
    """Return those of the places on Kafka (topic, partition, offset) whose event is parked."""
    columns = [list(column) for column in zip(*places, strict=True)] or [[], [], []]
    return set(_rows(conn, sql.SQL(_PARKED_PLACES), columns))


def record_act(conn: connection, actor: str, act: str, subject: str, reason: str | None) -> None:
    """Add an entry to the audit log."""
    with conn.cursor() as cur:
        cur.execute(_ACT, (actor, act, subject, reason))


def _events_of(
    conn: connection, column: str, wanted: Any, after: Sequence[Any] | None, limit: int
) -> list[Event]:
    """Return a page in a form that only the index of `column` can serve.

    For an equality Postgres expects evenly spread rows, and scans the primary key backwards past all newer
    rows when they are old.
    """
    where = f"{column} >= %s AND ({column}, id) < (%s, %s) ORDER BY {column} DESC, id DESC LIMIT %s"
    values = (wanted, wanted, *(after or (_LAST_ID,)), limit)
    return [Event(*row) for row in _rows(conn, sql.SQL(f"{_EVENT} WHERE {where}"), values)]


def _page(
    conn: connection, listed: _List, filters: Filters, after: Sequence[Any] | None, limit: int
) -> list[tuple[Any, ...]]:
    where, values = _where(filters, *([listed.behind] if after else []))
    values += [*(after or ()), limit]
    return _rows(conn, sql.SQL(f"{listed.select}{where} ORDER BY {listed.order} LIMIT %s"), values)


def _where(filters: Filters, *more: str) -> tuple[str, list[Any]]:
    """Return the clause of these filters and of `more`, and the filters' values."""
    given = [(FILTERS[name], wanted) for name, wanted in filters.items() if wanted is not None]
    conditions = [*(condition for condition, _ in given), *more]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return where, [wanted for _, wanted in given]


def _rows(conn: connection, statement: sql.SQL, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with conn.cursor() as cur:
        cur.execute(statement, values)
        return cur.fetchall()


def _group(row: tuple[Any, ...]) -> Group:
    number, *rest = row
    *decided, reason, rehearsal = rest[8:]
    return Group._make([number, Cause(*rest[:8]), *decided, _column_type(reason), rehearsal])


def _column_type(reason: str | None) -> str | None:
    """Return the type in a record's reason; parsed here, because Postgres refuses an escaped NUL."""
    found = orjson.loads(reason or "{}").get("column_type")
    return found if isinstance(found, str) else None
