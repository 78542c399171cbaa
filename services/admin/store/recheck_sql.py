"""Rechecks replays: reopens events that their database does not know after a restore from a dump.

A replayed event is lost if no attempt at it has landed there, and none is staged: a staged attempt from a
dump lands later, or is dropped after a while.  Lost events are reopened page by page, so an interrupted
recheck is simply started again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import orjson
from psycopg2.extensions import connection

from services.admin.attempts import Attempt, Destination, by_database
from services.admin.store.staging_sql import COLUMNS, KEYS, attempt_of, columns, in_destination
from shared import wire
from shared.errors import NOT_CONFIGURED, InfrastructureError

#: Without events that a transform ran on again: no database knows them.
_OF_STATE: Final = f"""
    (SELECT {COLUMNS}, e.gone FROM onramp_admin.events e
     WHERE e.state = '{{}}' AND e.id > %(after)s
         AND NOT starts_with(e.destination, '{wire.TRANSFORM_DESTINATION}')
     ORDER BY e.id LIMIT %(most)s)
"""  # noqa: S608 - our own words
#: Each branch uses its own index; then the first rows of both.
_REPLAYED: Final = f"""
    SELECT * FROM ({_OF_STATE.format("replayed")} UNION ALL {_OF_STATE.format("replayed_duplicate")}) e
    ORDER BY id LIMIT %(most)s
"""  # noqa: S608 - our own words
#: One statement, so that staged and known attempts are of the same snapshot.
_UNKNOWN: Final = f"""
    WITH k AS MATERIALIZED ({KEYS})
    SELECT k.id,
        EXISTS (SELECT FROM onramp.replayed d WHERE (d.topic_id, d.partition, d."offset", d.destination)
            = (k.topic_id, k.partition, k."offset", k.destination) AND d.outcome IN ('landed', 'duplicate')),
        EXISTS (SELECT FROM onramp.replays r WHERE (r.topic_id, r.partition, r."offset", r.destination)
            = (k.topic_id, k.partition, k."offset", k.destination))
    FROM k
"""  # noqa: S608 - our own words
_OPEN: Final = """
    WITH opened AS (
        UPDATE onramp_admin.states s SET state = 'open', failed = %(why)s, changed_at = now()
        WHERE s.event = ANY (%(ids)s) AND s.state IN ('replayed', 'replayed_duplicate')
        RETURNING s.event, s.group_id
    ), again AS (
        UPDATE onramp_admin.groups g SET state = 'open'
        WHERE g.state = 'resolved' AND g.id IN (SELECT group_id FROM opened)
    )
    SELECT event FROM opened
"""
_WHY: Final = orjson.dumps(
    {
        "code": "replay_lost",
        "detail": "it was replayed, and its database, restored from an earlier dump, does not know it",
        "fix": "Replay it again.",
    }
).decode()


class Lost(NamedTuple):
    """A replayed event that its database does not know; `gone`: its bytes were removed."""

    attempt: Attempt
    gone: bool


@dataclass(slots=True)
class Rechecked:
    """The result of a page of replayed events."""

    checked: int = 0
    lost: list[Lost] = field(default_factory=list)
    #: Unknown there but staged: the next recheck decides.
    staged: int = 0
    #: Reasons by database that was not queried.
    unreached: dict[str, str] = field(default_factory=dict)
    #: The `after` of the next page, or None.
    next: int | None = None


def recheck_page(conn: connection, databases: Mapping[str, str], after: int, limit: int) -> Rechecked:
    """Query the databases of the `limit` replayed events after the id `after` for these events."""
    with conn.cursor() as cur:
        cur.execute(_REPLAYED, {"after": after, "most": limit})
        rows = cur.fetchall()
    found = Rechecked(checked=len(rows))
    if len(rows) == limit:
        found.next = rows[-1][0]
    gone = {row[0] for row in rows if row[-1]}
    attempts = [attempt_of(row[:-1]) for row in rows]
    known: set[int] = set()
    staged: set[int] = set()
    for name, some in _by_database(attempts, databases).items():
        if name not in databases:
            found.unreached[name] = f"{NOT_CONFIGURED.title} {len(some)} replayed events are for it"
            known |= {a.id for a in some}  # without an answer they count as known
            continue
        try:
            unknown = _unknown(Destination(name, databases[name]), some)
        except InfrastructureError as e:
            found.unreached[name] = e.detail
            known |= {a.id for a in some}
            continue
        known |= {a.id for a in some} - unknown.keys()
        staged |= {event for event, is_staged in unknown.items() if is_staged}
    found.staged = len(staged - known)
    left = (a for a in attempts if a.id not in known | staged)
    found.lost = [Lost(attempt, attempt.id in gone) for attempt in left]
    return found


def _by_database(attempts: Sequence[Attempt], databases: Mapping[str, str]) -> dict[str, list[Attempt]]:
    """Group attempts by the databases to query: any may know where a refused event has landed.

    The default database knew it, but may be the one that was restored from a dump.
    """
    refused = [a for a in attempts if wire.is_refused(a.destination)]
    others = [a for a in attempts if not wire.is_refused(a.destination)]
    asked = dict(by_database(others, databases))
    for name in databases if refused else ():
        asked[name] = asked.get(name, []) + refused
    return asked


def reopen(conn: connection, lost: Iterable[Lost]) -> list[int]:
    """Reopen lost events; return those that were in a replayed state until then."""
    with conn.cursor() as cur:
        cur.execute(_OPEN, {"ids": [each.attempt.id for each in lost], "why": _WHY})
        return sorted(event for (event,) in cur.fetchall())


def _unknown(where: Destination, attempts: Sequence[Attempt]) -> dict[int, bool]:
    """Return the events without a landed attempt there, and whether one is staged."""
    with in_destination(where) as cur:
        cur.execute(_UNKNOWN, columns(attempts))
        return {event: staged for event, landed, staged in cur.fetchall() if not landed}
