"""Lands the few rows of many landing tables together, if all of them are new.

A table costs a savepoint and a COPY, four round trips, even with few rows; a hundred tables with five
rows each are the usual batch of a quiet day.  Here one COPY writes the rows of all tables to a stage, and one
statement moves them into their tables.  All rows land, or none; then each table's rows are written separately
(`persist`), which finds the rows at fault.  No value is part of a statement, so no server log contains it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import psycopg2
import pyarrow as pa
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.model.recent_keys import RecentKeys
from services.writer.model.targets import Target
from services.writer.model.timings import StepTimings
from services.writer.persist import copy_new_rows, landing_tables
from services.writer.persist.copy import copy_into, savepoint
from services.writer.persist.persist import JSONB
from services.writer.postgres.database import Database
from services.writer.postgres.sqlstates import UNIQUE_VIOLATION
from shared import landing_columns
from shared.path_steps import Step

#: Maximum rows of a small table.  A row costs microseconds in the stage, a separate table a millisecond.
_MAX_ROWS: Final = 100
#: Maximum bytes of a small table.  Longer values would be stored out of line, twice.
_MAX_BYTES: Final = 64 << 10
_MIN_TABLES: Final = 3
_NUMBER: Final = "n"
_COLUMNS: Final = ", ".join(c.name for c in landing_columns.COLUMNS)
_TYPES: Final = ", ".join(f"{c.name} {c.type}" for c in landing_columns.COLUMNS)
_STAGE: Final = sql.Identifier("pg_temp", "onramp_small")
_MAKE_STAGE: Final = (
    f"CREATE TEMPORARY TABLE IF NOT EXISTS onramp_small ({_NUMBER} int4, {_TYPES}) ON COMMIT DELETE ROWS"
)
_INSERT: Final = sql.SQL(f"""
    INSERT INTO {{table}} ({_COLUMNS})
    SELECT {_COLUMNS} FROM pg_temp.onramp_small WHERE {_NUMBER} = {{number}};
    GET DIAGNOSTICS onramp_taken = ROW_COUNT;
    onramp_landed := onramp_landed + onramp_taken;""")  # noqa: S608 - names of our own definition
#: A table accepts no more rows than it is sent, so the sum shows whether any table accepted fewer.
_ALL: Final = sql.SQL("""
DECLARE
    onramp_taken int8;
    onramp_landed int8 := 0;
BEGIN{inserts}
    IF onramp_landed <> {rows} THEN
        RAISE cardinality_violation USING MESSAGE = 'a table took fewer rows than it was given';
    END IF;
END""")
#: By address: the server rejected the statement, not because of a row.
_refusals: Final = RecentKeys()


def land(
    conn: connection,
    database: Database,
    tables: Mapping[Target, Sequence[pa.RecordBatch]],
    timings: StepTimings,
) -> frozenset[Target]:
    """Land all rows of the small ones of `tables`; return their targets, or none if a row did not land.

    Missing tables are created, small or not.  A table without a key, with rules, or with recent repeats or
    bad rows is written separately.  Raise psycopg2's error if the connection is lost.
    """
    landing_tables.ensure_tables(
        conn, database, [t.table for t in tables if not (t.typed or t.holds_changes)]
    )
    if _refusals.contains(database.dsn):
        _refusals.update(database.dsn, occurred=False)
        return frozenset()
    small = {t: pieces for t, pieces in tables.items() if _is_small(pieces) and _is_plain(database, t)}
    if len(small) < _MIN_TABLES:
        return frozenset()
    try:
        with savepoint(conn), timings.timed_together(Step.PERSIST, database.name, _rows_by_origin(small)):
            _land(conn, small)
    except psycopg2.Error as e:
        if conn.closed:
            raise
        _refusals.update(database.dsn, occurred=e.pgcode != UNIQUE_VIOLATION)
        return frozenset()
    return frozenset(small)


def _rows_by_origin(tables: Mapping[Target, Sequence[pa.RecordBatch]]) -> dict[tuple[str, str], int]:
    """Return the number of rows by topic and table; the topic is empty if a table's rows are of several."""
    rows: dict[tuple[str, str], int] = {}
    for target, pieces in tables.items():
        topics = {str(piece.column("_topic")[0]) for piece in pieces if len(piece)}
        (topic,) = topics if len(topics) == 1 else ("",)
        rows[topic, str(target)] = sum(map(len, pieces))
    return rows


def _is_small(pieces: Sequence[pa.RecordBatch]) -> bool:
    rows = sum(len(piece) for piece in pieces)
    return 0 < rows <= _MAX_ROWS and sum(piece.column("payload").nbytes for piece in pieces) <= _MAX_BYTES


def _is_plain(database: Database, target: Target) -> bool:
    """Return whether the target is a landing table whose rows are probably new and good."""
    plain = not (target.typed or target.holds_changes) and target.table.isascii()
    plain = plain and landing_tables.takes_inserts(database, target.table)
    return plain and not copy_new_rows.is_suspect((database.dsn, target))


def _land(conn: connection, tables: Mapping[Target, Sequence[pa.RecordBatch]]) -> None:
    rows = pa.Table.from_batches(piece for pieces in tables.values() for piece in pieces).combine_chunks()
    sizes = [sum(len(piece) for piece in pieces) for pieces in tables.values()]
    numbers = pa.array(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
    inserts = [
        _INSERT.format(table=sql.Identifier(t.schema, t.table), number=sql.Literal(number))
        for number, t in enumerate(tables)
    ]
    body = _ALL.format(inserts=sql.Composed(inserts), rows=sql.Literal(rows.num_rows))
    with conn.cursor() as cursor:
        cursor.execute(_MAKE_STAGE)
        copy_into(conn, _STAGE, rows.add_column(0, _NUMBER, numbers), jsonb=JSONB)
        cursor.execute("DO %s", (body.as_string(cursor),))
