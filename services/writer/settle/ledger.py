"""The ledger's SQL: claim, lock, compare, advance, and the totals that move with it.

Invariant: all statements run in the transaction that writes the rows.  This alone ensures that an event
lands once in effect (docs/adr, settling).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from psycopg2.extensions import connection
from psycopg2.extras import execute_values

from shared.errors import FENCED, LEDGER_GAP, InfrastructureError
from shared.kafka_read.offsets import Generation, Partition, Range
from shared.outcomes import Outcome
from shared.postgres.names import MAX_NAME_BYTES

_SESSION: Final = "onramp-writer"
_CLAIM: Final = """
    INSERT INTO onramp.ledger (topic_id, topic, partition, next_offset, epoch) VALUES %s
    ON CONFLICT (topic_id, partition) DO UPDATE SET epoch = greatest(ledger.epoch, excluded.epoch)
    RETURNING topic_id, topic, partition, next_offset, epoch
"""
#: Reads these topic generations only: a row that this writer never claimed must not fence (`claimed_only`).
_READ: Final = """
    SELECT l.topic_id, l.topic, l.partition, l.next_offset, l.epoch
    FROM onramp.ledger l
    JOIN (VALUES %%s) AS wanted (topic_id, partition)
      ON l.topic_id = wanted.topic_id::uuid AND l.partition = wanted.partition
    WHERE l.epoch >= %s
"""
_LOCK: Final = """
    SELECT l.topic_id, l.topic, l.partition, l.next_offset, l.epoch
    FROM onramp.ledger l
    JOIN (VALUES %s) AS wanted (topic_id, partition)
      ON l.topic_id = wanted.topic_id::uuid AND l.partition = wanted.partition
    ORDER BY l.topic_id, l.partition
    FOR UPDATE OF l
"""
_ADVANCE: Final = """
    UPDATE onramp.ledger l
    SET next_offset = settled.next_offset, epoch = %(epoch)s, upto = settled.next_offset
    FROM (VALUES %%s) AS settled (topic_id, partition, next_offset)
    WHERE l.topic_id = settled.topic_id::uuid AND l.partition = settled.partition
      AND l.digest = %(digest)s AND l.upto = l.next_offset
"""
#: When the routes changed, or an operator moved the row, a new range of `settled_under` starts.
_BEGIN: Final = """
    WITH settled (topic_id, partition, next_offset) AS (VALUES %%s), begun AS (
        SELECT l.*, settled.next_offset AS settled_to FROM onramp.ledger l
        JOIN settled ON l.topic_id = settled.topic_id::uuid AND l.partition = settled.partition
        WHERE l.next_offset <> settled.next_offset
    ), closed AS (
        INSERT INTO onramp.settled_under (topic_id, topic, partition, start, "end", digest)
        SELECT topic_id, topic, partition, since, least(upto, next_offset), digest
        FROM begun WHERE since < least(upto, next_offset)
    )
    UPDATE onramp.ledger l
    SET next_offset = begun.settled_to, epoch = %(epoch)s, digest = %(digest)s,
        since = begun.next_offset, upto = begun.settled_to
    FROM begun WHERE l.topic_id = begun.topic_id AND l.partition = begun.partition
"""
_SKIP: Final = """
    UPDATE onramp.ledger l SET next_offset = passed.next_offset, epoch = %(epoch)s
    FROM (VALUES %%s) AS passed (topic_id, partition, next_offset)
    WHERE l.topic_id = passed.topic_id::uuid AND l.partition = passed.partition
"""
_ADD_TOTALS: Final = """
    INSERT INTO onramp.totals (topic_id, topic, partition, destination, outcome, events) VALUES %s
    ON CONFLICT (topic_id, partition, destination, outcome)
    DO UPDATE SET events = totals.events + excluded.events
"""

_ADD_ROUTED: Final = """
    INSERT INTO onramp.routed (topic_id, topic, partition, destination, events) VALUES %s
    ON CONFLICT (topic_id, partition, destination) DO UPDATE SET events = routed.events + excluded.events
"""
_ADD_WARNINGS: Final = """
    INSERT INTO onramp.warnings (topic_id, topic, partition, destination, remark, count) VALUES %s
    ON CONFLICT (topic_id, partition, destination, remark)
    DO UPDATE SET count = warnings.count + excluded.count
"""


class WarningKey(NamedTuple):
    """The key of a warning counter."""

    topic_id: str
    partition: Partition
    destination: str
    warning: str


class RoutedKey(NamedTuple):
    """The key of a count of routed events."""

    topic_id: str
    partition: Partition
    destination: str


class Tally(NamedTuple):
    """The key of a total."""

    topic_id: str
    partition: Partition
    destination: str
    outcome: Outcome


def claim(conn: connection, starts: Mapping[Generation, int], epoch: int) -> dict[Generation, int]:
    """Set `epoch` on the rows of `starts`, a map to start offsets, and return the next offset of each row.

    A missing row is created at its start offset.
    Raises `InfrastructureError` (FENCED) when a later writer has claimed a row.
    """
    rows = [(topic_id, *p, start, epoch) for (topic_id, p), start in sorted(starts.items())]
    with conn.cursor() as cursor:
        rows_found = execute_values(cursor, _CLAIM, rows, page_size=len(rows) or 1, fetch=True)
    return _next_offsets(rows_found, epoch)


def read(conn: connection, generations: Iterable[Generation], epoch: int) -> dict[Generation, int]:
    """Return the next offsets of the `generations` that this writer has claimed.

    Raises `InfrastructureError` (FENCED) when a later writer has claimed a row.
    """
    rows = [(generation.topic_id, generation.partition.number) for generation in generations]
    if not rows:
        return {}
    with conn.cursor() as cursor:
        statement = cursor.mogrify(_READ, (epoch,)).decode()
        return _next_offsets(execute_values(cursor, statement, rows, page_size=len(rows), fetch=True), epoch)


def lock(conn: connection, ranges: Sequence[Range], epoch: int) -> dict[Partition, int]:
    """Lock the rows of `ranges` and return the next offset of each, the first that is not settled.

    Raises `InfrastructureError`: FENCED, or LEDGER_GAP when a row is missing or behind its
    range's start, which does not happen in a healthy history.
    """
    rows = [(r.topic_id, r.partition.number) for r in ranges]
    with conn.cursor() as cursor:
        cursor.execute("SELECT set_config('application_name', %s, true)", (session_name(ranges),))
        rows_found = execute_values(cursor, _LOCK, rows, page_size=len(rows) or 1, fetch=True)
    next_offsets = {
        generation.partition: next_offset
        for generation, next_offset in _next_offsets(rows_found, epoch).items()
    }
    for r in ranges:
        next_offset = next_offsets.get(r.partition)
        if next_offset is None or next_offset < r.start:
            raise InfrastructureError(
                LEDGER_GAP,
                f"{r.partition}: the ledger "
                f"{'has no row' if next_offset is None else f'stands at {next_offset}'}, "
                f"the range is [{r.start}, {r.end})",
            )
    return next_offsets


def session_name(ranges: Sequence[Range]) -> str:
    """Return the name of a transaction in `pg_stat_activity`: topic and partition of the first range."""
    if not ranges:
        return _SESSION
    first = ranges[0].partition
    tail = f"/{first.number}" + (f" +{len(ranges) - 1}" if len(ranges) > 1 else "")
    # Postgres cuts longer names, and the partition is at the end; the names of topics are ASCII.
    room = MAX_NAME_BYTES - len(_SESSION) - 1 - len(tail)
    topic = first.topic if len(first.topic) <= room else f"{first.topic[: room - 1]}~"
    return f"{_SESSION} {topic}{tail}"


def advance(conn: connection, ranges: Iterable[Range], epoch: int, digest: str) -> None:
    """Record that `ranges`, whose rows are locked, are settled under the routes of `digest`.

    When the routes change, or when an operator moved the row, the range settled before is recorded too.
    """
    rows = [(r.topic_id, r.partition.number, r.end) for r in ranges]
    if not rows:
        return
    values = {"epoch": epoch, "digest": digest}
    left = len(rows) - _move(conn, _ADVANCE, rows, values)
    if left and _move(conn, _BEGIN, rows, values) != left:
        raise LookupError(f"the ledger has not moved behind all of {rows}")


def skip(conn: connection, ranges: Iterable[Range], epoch: int) -> None:
    """Move behind `ranges`, whose rows are locked, without settling them: the audit will show it."""
    rows = [(r.topic_id, r.partition.number, r.end) for r in ranges]
    _move(conn, _SKIP, rows, {"epoch": epoch})


def _move(
    conn: connection, statement: str, rows: Sequence[tuple[str, int, int]], values: Mapping[str, object]
) -> int:
    """Run `statement` for `rows` and return the number of ledger rows that it moved."""
    with conn.cursor() as cursor:
        execute_values(cursor, cursor.mogrify(statement, values).decode(), rows, page_size=len(rows) or 1)
        return int(cursor.rowcount)


def add_totals(conn: connection, tallies: Counter[Tally]) -> None:
    """Add `tallies` to the totals."""
    rows = [
        (t.topic_id, t.partition.topic, t.partition.number, t.destination, t.outcome.value, n)
        for t, n in sorted(tallies.items())
        if n
    ]
    if rows:
        with conn.cursor() as cursor:
            execute_values(cursor, _ADD_TOTALS, rows, page_size=len(rows))


def add_routed(conn: connection, routed: Counter[RoutedKey]) -> None:
    """Add to the counts of routed events, which are independent of the events' outcomes."""
    rows = [
        (r.topic_id, r.partition.topic, r.partition.number, r.destination, n)
        for r, n in sorted(routed.items())
    ]
    if rows:
        with conn.cursor() as cursor:
            execute_values(cursor, _ADD_ROUTED, rows, page_size=len(rows))


def add_warnings(conn: connection, warnings: Counter[WarningKey]) -> None:
    """Add to the warning counters."""
    rows = [
        (r.topic_id, r.partition.topic, r.partition.number, r.destination, r.warning, n)
        for r, n in sorted(warnings.items())
    ]
    if rows:
        with conn.cursor() as cursor:
            execute_values(cursor, _ADD_WARNINGS, rows, page_size=len(rows))


def _next_offsets(rows: Iterable[tuple[str, str, int, int, int]], epoch: int) -> dict[Generation, int]:
    next_offsets = {}
    for topic_id, topic, partition, next_offset, claimed in rows:
        if claimed > epoch:
            raise InfrastructureError(
                FENCED, f"{topic}/{partition}: writer {claimed} has claimed the ledger, this is {epoch}"
            )
        next_offsets[Generation(topic_id, Partition(topic, partition))] = next_offset
    return next_offsets
