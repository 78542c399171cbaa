"""Replays in a destination database: staged attempts, and their outcomes.

The writer takes and removes staged rows, and writes `onramp.replayed` with the row that lands.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import orjson
import psycopg2
from psycopg2.errors import UniqueViolation
from psycopg2.extensions import connection, cursor
from psycopg2.extras import execute_values

from services.admin.attempts import Attempt, AttemptState, Destination
from services.admin.store.bytes_sql import Loaded
from services.ops.parked.copy_lines import Value, as_file, line_of
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError, OnrampError
from shared.postgres import arrays
from shared.postgres.answering import answering
from shared.postgres.connect import connect
from shared.postgres.failures import failure

_OPTIONS: Final = (
    "-c search_path=pg_catalog,pg_temp -c timezone=UTC -c statement_timeout=30000 -c lock_timeout=5000"
)
#: The columns of `attempt_of`.
COLUMNS: Final = """
    e.id, e.topic_id::text, e.topic, e.partition, e."offset", e.destination, e.attempt, e.parked_at, e.size
"""
#: Maximum bytes that one step loads and stages; other jobs run before the next step.
_MAX_EVENTS: Final = 5_000
_MAX_BYTES: Final = 8 * 2**20
#: Maximum rows of one statement.
_ROWS: Final = 500
KEYS: Final = """
    SELECT * FROM unnest(%s::bigint[], %s::uuid[], %s::int4[], %s::int8[], %s::text[], %s::int4[])
        AS k (id, topic_id, partition, "offset", destination, attempt)
"""
_OF_EVENT: Final = """
    WHERE (r.topic_id, r.partition, r."offset", r.destination)
        = (k.topic_id, k.partition, k."offset", k.destination)
"""
#: One statement, so that both tables are of the same snapshot.  LIMIT makes each lookup use its key: a join
#: would read all of `onramp.replayed`, which has a row for every attempt.  An attempt of another job is from
#: before a restore of the control database, or was released while its database was unreachable.
_STATES: Final = f"""
    WITH k AS MATERIALIZED ({KEYS})
    SELECT k.id,
        CASE WHEN d.outcome IN ('landed', 'duplicate') OR l.outcome IS NULL THEN d.outcome
            ELSE 'earlier_' || l.outcome END,
        d.reason, s.job = j.job AND s.attempt = k.attempt,
        CASE WHEN l.outcome IS NOT NULL THEN l.attempt
            ELSE nullif(greatest(o.attempt, CASE WHEN s.job <> j.job THEN s.attempt END, k.attempt - 1),
                        k.attempt - 1) END
    FROM k CROSS JOIN (SELECT %s::uuid) j (job) LEFT JOIN LATERAL (
        SELECT outcome, reason::text FROM onramp.replayed r
        {_OF_EVENT} AND r.attempt = k.attempt AND r.job = j.job LIMIT 1
    ) d ON true LEFT JOIN LATERAL (
        SELECT attempt, job FROM onramp.replays r {_OF_EVENT} LIMIT 1
    ) s ON true LEFT JOIN LATERAL (
        SELECT attempt, outcome FROM onramp.replayed r
        {_OF_EVENT} AND r.job <> j.job AND r.outcome IN ('landed', 'duplicate') ORDER BY r.attempt LIMIT 1
    ) l ON true LEFT JOIN LATERAL (
        SELECT attempt FROM onramp.replayed r
        {_OF_EVENT} AND r.job <> j.job ORDER BY r.attempt DESC LIMIT 1
    ) o ON true
"""  # noqa: S608 - our own words
_STAGED: Final = """
    topic_id, topic, partition, "offset", destination, attempt, job, "to", value, sha256, received_at,
    timestamp
"""
_COPY: Final = f"COPY onramp.replays ({_STAGED}) FROM STDIN"
_STAGE: Final = f"INSERT INTO onramp.replays ({_STAGED}) VALUES %s ON CONFLICT DO NOTHING"  # noqa: S608 - our own words
#: Waits for rows that the writer has locked: they are gone afterwards, and `onramp.replayed` has them.
_UNSTAGE: Final = f"""
    WITH k AS MATERIALIZED ({KEYS})
    DELETE FROM onramp.replays s USING k
    WHERE (s.topic_id, s.partition, s."offset", s.destination, s.attempt)
        = (k.topic_id, k.partition, k."offset", k.destination, k.attempt)
    RETURNING k.id
"""  # noqa: S608 - our own words


class Staging(NamedTuple):
    """The job (UUID) of staged attempts, and their other table (schema.table), if any."""

    job: str
    to: str | None = None


#: Loads values of events by id.
Load = Callable[[list[int]], Loaded]


def follow(where: Destination, by: Staging, attempts: Sequence[Attempt], load: Load) -> list[AttemptState]:
    """Return the states of `attempts`, after staging a part of those that are neither staged nor known.

    The rest is staged in the next step; after a `known` attempt, with a higher attempt number.  An attempt
    without readable bytes fails with that reason.  Raises `InfrastructureError`.
    """
    with in_destination(where) as cur:
        found = _query(cur, by, attempts)
        missing = {f.id for f in found if f.outcome is None and not f.staged and f.known is None}
        part = first_part([a for a in attempts if a.id in missing], _MAX_EVENTS)
        if not part:
            return found
        loaded = load([a.id for a in part])
        part = [a for a in part if a.id not in loaded.later]
        _stage(cur, by, [a for a in part if a.id not in loaded.lost], loaded)
    why, staged = loaded.lost, {a.id for a in part}
    return [
        lost(f, why[f.id]) if f.id in why else f._replace(staged=True) if f.id in staged else f for f in found
    ]


def first_part(attempts: Iterable[Attempt], limit: int) -> list[Attempt]:
    """Return the first attempts, at most `limit`, and within the memory limit."""
    part: list[Attempt] = []
    size = 0
    for attempt in attempts:
        if part and (len(part) >= limit or size + attempt.size > _MAX_BYTES):
            break
        part.append(attempt)
        size += attempt.size
    return part


def withdraw(where: Destination, by: Staging, attempts: Sequence[Attempt]) -> list[AttemptState]:
    """Withdraw `attempts`; return those with an outcome, and those that were withdrawn.

    A missing attempt is staged first (without its value, invisible to others), so that a withdrawn attempt is
    exactly one that this transaction deleted.  Raises `InfrastructureError`.
    """
    with in_destination(where) as cur:
        execute_values(cur, _STAGE, _rows(by, attempts, Loaded()), page_size=_ROWS)
        cur.execute(_UNSTAGE, columns(attempts))
        deleted = {number for (number,) in cur.fetchall()}
        found = _query(cur, by, attempts)  # a later statement: it sees attempts that landed during the wait
    return [f for f in found if f.outcome is not None or f.id in deleted]


@contextmanager
def in_destination(where: Destination) -> Iterator[cursor]:
    """Run the block as a transaction in a destination database, with timeouts.

    Raises `InfrastructureError`.
    """
    try:
        with answering(f"database {where.name}", where.dsn, partial(_connect, where.dsn)) as conn:
            yield conn.cursor()
            conn.commit()
    except psycopg2.Error as e:
        raise InfrastructureError(DATABASE_UNAVAILABLE, failure(f"database {where.name}", e)) from None


def _connect(dsn: str) -> connection:
    return connect(dsn, name="onramp-admin", options=_OPTIONS)


def lost(found: AttemptState, why: OnrampError) -> AttemptState:
    """Return the failure of an event that cannot be staged."""
    reason = {"code": why.fault.code, "detail": why.detail, "pointer": why.pointer, "fix": why.fault.fix}
    return found._replace(outcome="parked", reason=orjson.dumps(reason).decode())


def _query(cur: cursor, by: Staging, attempts: Sequence[Attempt]) -> list[AttemptState]:
    cur.execute(_STATES, (*columns(attempts), by.job))
    rows = cur.fetchall()
    return [AttemptState(n, outcome, why, bool(staged), known) for n, outcome, why, staged, known in rows]


def _stage(cur: cursor, by: Staging, attempts: Sequence[Attempt], loaded: Loaded) -> None:
    """Stage `attempts`, none of which was staged at the last query."""
    rows = _rows(by, attempts, loaded)
    cur.execute("SAVEPOINT copied")
    try:
        cur.copy_expert(_COPY, as_file(map(line_of, rows)))
    except UniqueViolation:
        # Another attempt is staged, from a restored dump or by another replica.
        cur.execute("ROLLBACK TO SAVEPOINT copied")
        execute_values(cur, _STAGE, rows, page_size=_ROWS)


def _rows(by: Staging, attempts: Sequence[Attempt], loaded: Loaded) -> list[tuple[Value, ...]]:
    """Return rows of `_STAGED` in the writer's order, which prevents deadlocks."""
    return [
        (
            a.topic_id,
            a.topic,
            a.partition,
            a.offset,
            a.destination,
            a.attempt,
            *by,
            loaded.values.get(a.id),
            loaded.digests.get(a.id),
            *loaded.times.get(a.id, (None, a.parked_at)),
        )
        for a in sorted(attempts, key=lambda a: (a.topic_id, a.partition, a.offset, a.destination))
    ]


def columns(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    """Return the parameters of `KEYS`."""
    return (
        arrays.numbers(a.id for a in attempts),
        arrays.texts(a.topic_id for a in attempts),
        arrays.numbers(a.partition for a in attempts),
        arrays.numbers(a.offset for a in attempts),
        arrays.texts(a.destination for a in attempts),
        arrays.numbers(a.attempt for a in attempts),
    )


def attempt_of(row: Sequence[Any]) -> Attempt:
    """Return the attempt of a row of `COLUMNS`."""
    return Attempt(*row)
