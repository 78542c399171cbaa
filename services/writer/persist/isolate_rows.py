"""Finds the rows of the stage that a table rejects, in one round trip.

A PL/pgSQL block inserts the stage in batches, each under a savepoint of its own, and the rows of a failed
batch one by one.  One bad row among ten thousand costs a few statements and two hundred savepoints; ten
thousand bad rows cost a savepoint each and no search.  Errors that are not the rows' fault (a lock, a full
disk) are raised.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.persist import stage
from services.writer.persist.copy import savepoint
from services.writer.persist.insert_spec import InsertSpec
from services.writer.persist.row_results import row_error
from services.writer.postgres.database import Database
from services.writer.postgres.sqlstates import NOT_PARKED, PARK_CLASSES, PARK_STATES, Verdict, verdict
from shared import failpoints
from shared.errors import DATA_REJECTED, ROW_SUPPRESSED, UserError

_PIECE: Final = 100
#: Onramp's own SQLSTATE, raised to undo the actions of a trigger that suppressed a row.
_SWALLOWED: Final = "ONRSW"
_PREPARE: Final = """
    CREATE TEMPORARY TABLE IF NOT EXISTS onramp_verdicts
        (n int4, outcome text, state text, col text, cons text) ON COMMIT DELETE ROWS;
    TRUNCATE pg_temp.onramp_verdicts
"""
#: All names begin with onramp_, because the table's columns share the scope.
_BLOCK: Final = """
#variable_conflict use_column
DECLARE
    onramp_from int4;
    onramp_at int4;
    onramp_got int8;
    onramp_state text;
    onramp_column text;
    onramp_constraint text;
    onramp_outcome text;
BEGIN
    FOR onramp_from IN SELECT DISTINCT s.n / {piece} * {piece} FROM {stage} s ORDER BY 1 LOOP
        BEGIN
            {insert_piece};
            GET DIAGNOSTICS onramp_got = ROW_COUNT;
            IF onramp_got <> (SELECT count(*) FROM {stage} s {in_piece}) THEN
                RAISE EXCEPTION USING ERRCODE = 'P0001', MESSAGE = 'fewer rows than were given';
            END IF;
            INSERT INTO pg_temp.onramp_verdicts SELECT s.n, 'landed' FROM {stage} s {in_piece};
        EXCEPTION WHEN OTHERS THEN
            IF NOT ({of_the_rows}) THEN RAISE; END IF;
            FOR onramp_at IN SELECT s.n FROM {stage} s {in_piece} ORDER BY 1 LOOP
                onramp_state := NULL;
                onramp_column := NULL;
                onramp_constraint := NULL;
                BEGIN
                    {insert_row};
                    GET DIAGNOSTICS onramp_got = ROW_COUNT;
                    onramp_outcome := 'landed';
                    IF onramp_got = 0 AND {has_key} THEN
                        BEGIN
                            {insert_row_plainly};
                            GET DIAGNOSTICS onramp_got = ROW_COUNT;
                        EXCEPTION WHEN unique_violation THEN
                            onramp_got := 1;
                            onramp_outcome := 'duplicate';
                        END;
                    END IF;
                    IF onramp_got = 0 THEN
                        RAISE EXCEPTION USING ERRCODE = {swallowed};
                    END IF;
                EXCEPTION WHEN OTHERS THEN
                    IF NOT ({of_the_rows} OR SQLSTATE = {swallowed}) THEN RAISE; END IF;
                    GET STACKED DIAGNOSTICS onramp_state = RETURNED_SQLSTATE,
                        onramp_column = COLUMN_NAME, onramp_constraint = CONSTRAINT_NAME;
                    onramp_outcome := CASE
                        WHEN onramp_state = '23505' AND onramp_constraint = {ruled_key} THEN 'duplicate'
                        WHEN onramp_state = {swallowed} THEN 'row_suppressed'
                        ELSE 'rejected'
                    END;
                END;
                INSERT INTO pg_temp.onramp_verdicts
                VALUES (onramp_at, onramp_outcome, onramp_state, onramp_column, onramp_constraint);
            END LOOP;
        END;
    END LOOP;
END
"""
_OF_THE_ROWS: Final = sql.SQL(
    "(left(SQLSTATE, 2) = ANY ({}) OR SQLSTATE = ANY ({})) AND SQLSTATE <> ALL ({})"
).format(*(sql.Literal(sorted(states)) for states in (PARK_CLASSES, PARK_STATES, NOT_PARKED)))
#: States of a function that runs with the row; the table itself was described before.
_OF_FUNCTIONS: Final = frozenset({"42P01", "42883"})
_ABSENT_NAME: Final = (
    "a function of the table (trigger, default, constraint) uses a name that is absent, or that needs its "
    "schema because the writer's search_path is pg_catalog: ALTER FUNCTION … SET search_path"
)
#: `pg_input_is_valid` (PostgreSQL 16) finds the column whose text its type cannot parse.
_FIND_COLUMNS: Final = """
    SELECT DISTINCT ON (s.n) s.n, given.col
    FROM {stage} s, LATERAL (VALUES {given}) given (col, value, declared)
    WHERE s.n = ANY ({row_indices}) AND NOT pg_input_is_valid(given.value, given.declared)
"""
#: The first `server_version` with `pg_input_is_valid`.
_NAMES_COLUMNS: Final = 160_000


@dataclass(slots=True)
class Isolated:
    """The indices of the rows that landed, and the errors of those to park, by row index."""

    landed: list[int] = field(default_factory=list)
    errors: dict[int, UserError] = field(default_factory=dict)


def isolate_bad_rows(conn: connection, database: Database, spec: InsertSpec) -> Isolated:
    """Insert the stage of `spec`, excluding only the bad rows.

    Rows in neither part of the result are duplicates.  Raise psycopg2's error if the rows are not at
    fault.
    """
    failpoints.reach("writer.mid_isolation")
    with conn.cursor() as cursor:
        cursor.execute(_PREPARE)
        stage.index(conn, len(spec.fields))
        cursor.execute(sql.SQL("DO {}").format(sql.Literal(_block(spec).as_string(cursor))))
        cursor.execute("SELECT n, outcome, state, col, cons FROM pg_temp.onramp_verdicts")
        results = cursor.fetchall()
    columns = _columns(conn, spec, [n for n, _, state, column, _ in results if state and not column])
    declared = {each.name: each.declared for each in spec.fields}
    out = Isolated()
    for n, outcome, state, column, constraint in results:
        if outcome == "landed":
            out.landed.append(n)
        elif outcome == "row_suppressed":
            reason = "no error, and no row: does a trigger or a rule suppress it?"
            out.errors[n] = row_error(database, spec.target, reason=reason, fault=ROW_SUPPRESSED)
        elif outcome == "rejected":
            named = column or columns.get(n)
            out.errors[n] = row_error(
                database,
                spec.target,
                state,
                _ABSENT_NAME if state in _OF_FUNCTIONS else "",
                column=named,
                column_type=declared.get(named or ""),
                constraint=constraint,
                fault=DATA_REJECTED if state in _OF_FUNCTIONS else None,
            )
    return out


def _block(spec: InsertSpec) -> sql.Composed:
    piece = f"WHERE s.n >= onramp_from AND s.n < onramp_from + {_PIECE}"
    row = "WHERE s.n = onramp_at"
    return sql.SQL(_BLOCK).format(
        piece=sql.Literal(_PIECE),
        stage=spec.stage,
        in_piece=sql.SQL(piece),
        insert_piece=spec.statement(piece),
        insert_row=spec.statement(row),
        insert_row_plainly=spec.statement(row, on_conflict=False),
        of_the_rows=_OF_THE_ROWS,
        has_key=sql.Literal(bool(spec.key) and not spec.has_rules),
        swallowed=sql.Literal(_SWALLOWED),
        ruled_key=sql.Literal(spec.index if spec.has_rules else None),
    )


def _columns(conn: connection, spec: InsertSpec, row_indices: list[int]) -> dict[int, str]:
    """Return, by row index, a column whose text its type cannot parse, if the server can find it."""
    if not row_indices or conn.server_version < _NAMES_COLUMNS:
        return {}
    given = sql.SQL(", ").join(
        sql.SQL("({}, s.{}, {})").format(
            sql.Literal(f.name), sql.Identifier(f"c{i}"), sql.Literal(f.declared)
        )
        for i, f in enumerate(spec.fields)
    )
    statement = sql.SQL(_FIND_COLUMNS).format(
        stage=spec.stage, given=given, row_indices=sql.Literal(row_indices)
    )
    columns: list[tuple[Any, ...]] = []
    try:
        with savepoint(conn), conn.cursor() as cursor:
            cursor.execute(statement)
            columns = cursor.fetchall()
    except psycopg2.Error as e:
        if verdict(e.pgcode) is not Verdict.PARK:
            raise
        return {}  # the input function raises even here: the error has the SQLSTATE only
    return dict(columns)
