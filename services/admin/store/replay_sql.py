"""A replay job, step by step: mark events, have them staged where they belong, and see what became of them.

An event is marked (`replaying`, its next attempt) in a transaction of its own and staged in a later step,
by what finds marked events that their database does not know.  So a kill at any place leaves nothing but
marked events, and the next step is the same as after any other.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from psycopg2.extensions import connection

from services.admin.errors.sentence import sentence_of
from services.admin.store import results_sql, staging_sql
from services.admin.store.staging_sql import Attempt, Destination, Found, Load
from shared.errors import NOT_CONFIGURED, InfrastructureError

#: At most so many are staged ahead of the writer.
MOST_STAGED: Final = 10_000
#: Of one look: the bytes of those that it stages are in memory.
_AT_ONCE: Final = 1_000
_MARKED: Final = """
    SELECT e.id, e.topic_id::text, e.topic, e.partition, e."offset", e.destination, e.attempt, e.parked_at,
           e.reason::text
    FROM onramp_admin.events e
    WHERE e.job = %s AND e.state = 'replaying' AND e.id > %s ORDER BY e.id LIMIT %s
"""
_OUTSTANDING: Final = "SELECT count(*) FROM onramp_admin.events WHERE job = %s AND state = 'replaying'"
#: By the writer's outcome: the event's state.
_PARKED: Final = "parked"
_STATES: Final = {"landed": "replayed", "duplicate": "replayed_duplicate", _PARKED: "open", None: "open"}
_SETTLE: Final = """
    UPDATE onramp_admin.events e SET state = new.state, failed = new.failed::json, changed_at = now()
    FROM unnest(%s::bigint[], %s::text[], %s::text[]) new (id, state, failed)
    WHERE e.id = new.id AND e.job = %s AND e.state = 'replaying'
"""


@dataclass(frozen=True, slots=True)
class Settled:
    """What a step has seen: what came of how many attempts (outcome, reason), and why it waits."""

    results: Counter[tuple[str, str]] = field(default_factory=Counter)
    waits: str | None = None

    @property
    def failed(self) -> int:
        """How many failed again."""
        return sum(n for (outcome, _), n in self.results.items() if outcome == results_sql.FAILED)

    @property
    def replayed(self) -> int:
        """How many landed, or were there already."""
        return self.results.total() - self.failed


def settle(
    conn: connection, job: int, uuid: str, databases: Mapping[str, str], load: Load, *, cancelling: bool
) -> Settled:
    """Stage what is marked and not staged, or take it back; give events the states that they have got."""
    results: Counter[tuple[str, str]] = Counter()
    waits: dict[str, str] = {}
    after = 0
    while rows := _marked(conn, job, after):
        after = rows[-1].id
        for database, attempts in _by_database(rows, databases).items():
            if database in waits:
                continue
            try:
                found = _ask(_destination(databases, database), uuid, attempts, load, cancelling=cancelling)
            except InfrastructureError as e:
                waits[database] = e.detail
                continue
            done = [f for f in found if f.outcome is not None or cancelling]
            _give_states(conn, job, done)
            results.update(_result(f.outcome, f.reason) for f in done if f.outcome is not None)
    results_sql.add(conn, job, results)
    return Settled(results, "; ".join(sorted(waits.values())) or None)


def _result(outcome: str, reason: str | None) -> tuple[str, str]:
    """Return what came of an attempt, and why if it failed again."""
    if outcome != _PARKED:
        return outcome, ""
    return results_sql.FAILED, sentence_of(orjson.loads(reason or "{}"))


def outstanding(conn: connection, job: int) -> int:
    """Count the events that the job has marked, and that have no outcome yet."""
    with conn.cursor() as cur:
        cur.execute(_OUTSTANDING, (job,))
        ((count,),) = cur.fetchall()
        return int(count)


def _ask(
    where: Destination, uuid: str, attempts: Sequence[Attempt], load: Load, *, cancelling: bool
) -> list[Found]:
    if cancelling:
        return staging_sql.withdraw(where, uuid, attempts)
    return staging_sql.follow(where, uuid, attempts, load)


def _destination(databases: Mapping[str, str], name: str) -> Destination:
    """Return where a database is.  Raises `InfrastructureError`: it is not configured any more."""
    if name not in databases:
        raise InfrastructureError(NOT_CONFIGURED, "events are marked for a database that is not configured")
    return Destination(name, databases[name])


def _marked(conn: connection, job: int, after: int) -> list[Attempt]:
    with conn.cursor() as cur:
        cur.execute(_MARKED, (job, after, _AT_ONCE))
        return [_attempt(row) for row in cur.fetchall()]


def _attempt(row: Sequence[Any]) -> Attempt:
    number, topic_id, topic, partition, offset, destination, attempt, parked_at, reason = row
    told = orjson.loads(reason)
    return Attempt(
        id=number,
        topic_id=topic_id,
        topic=topic,
        partition=partition,
        offset=offset,
        destination=destination,
        attempt=attempt,
        received_at=_time(told.get("received_at")),
        timestamp=_time(told.get("timestamp")) or parked_at,
    )


def _time(told: object) -> datetime | None:
    """Return a time of the record's reason; a year that no calendar has is none."""
    try:
        found = datetime.fromisoformat(str(told))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _by_database(attempts: Sequence[Attempt], names: Iterable[str]) -> Mapping[str, list[Attempt]]:
    """Group attempts by their database; of those that none is named for under the empty name."""
    found: dict[str, list[Attempt]] = defaultdict(list)
    longest_first = sorted(names, key=len, reverse=True)
    for attempt in attempts:
        of = (name for name in longest_first if attempt.destination.startswith(f"{name}."))
        found[next(of, "")].append(attempt)
    return found


def _give_states(conn: connection, job: int, found: Sequence[Found]) -> None:
    states = [_STATES[f.outcome] for f in found]
    with conn.cursor() as cur:
        cur.execute(_SETTLE, ([f.id for f in found], states, [f.reason for f in found], job))
