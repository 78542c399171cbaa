"""Isolation: which rows of the stage a table refuses, in one round trip.

A block of PL/pgSQL inserts the stage piece by piece, each piece under a savepoint of its
own, and the rows of a piece that fails one by one: a bad row among ten thousand costs a
few statements and two hundred savepoints, ten thousand bad ones cost each a savepoint of
their own and no search.  What is not the rows' fault (a lock, a full disk) is raised.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.persist import stage
from services.writer.persist.copy import savepoint
from services.writer.persist.insert_spec import InsertSpec
from services.writer.persist.row_errors import refusal
from services.writer.postgres.database import Database
from services.writer.postgres.sqlstates import PARK_CLASSES, PARK_STATES
from shared import failpoints
from shared.errors import SWALLOWED, UserError

_PIECE: Final = 100
#: Ours alone: raised to undo what a trigger did before it swallowed the row.
_SWALLOWED: Final = "ONRSW"
_PREPARE: Final = """
    CREATE TEMPORARY TABLE IF NOT EXISTS onramp_verdicts
        (n int4, outcome text, state text, col text, cons text) ON COMMIT DELETE ROWS;
    TRUNCATE pg_temp.onramp_verdicts
"""
#: Names of its own for everything, because the table's columns share the scope.
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
                        WHEN onramp_state = {swallowed} THEN 'swallowed'
                        ELSE 'refused'
                    END;
                END;
                INSERT INTO pg_temp.onramp_verdicts
                VALUES (onramp_at, onramp_outcome, onramp_state, onramp_column, onramp_constraint);
            END LOOP;
        END;
    END LOOP;
END
"""
_OF_THE_ROWS: Final = sql.SQL("left(SQLSTATE, 2) = ANY ({}) OR SQLSTATE = ANY ({})").format(
    sql.Literal(sorted(PARK_CLASSES)), sql.Literal(sorted(PARK_STATES))
)
#: `pg_input_error_info` (PostgreSQL 16) names the column whose text its type does not read.
_LOOK_AT: Final = """
    SELECT DISTINCT ON (s.n) s.n, given.col
    FROM {stage} s, LATERAL (VALUES {given}) given (col, value, declared)
    WHERE s.n = ANY ({places}) AND NOT pg_input_is_valid(given.value, given.declared)
"""
_KNOWS_COLUMNS: Final = 160_000


@dataclass(slots=True)
class Isolated:
    """The places of the rows that landed, and the errors of those that are parked."""

    landed: list[int] = field(default_factory=list)
    errors: dict[int, UserError] = field(default_factory=dict)


def one_by_one(conn: connection, database: Database, spec: InsertSpec) -> Isolated:
    """Insert the stage of `spec` so that only the rows at fault stay out.

    Raises psycopg2's error when something is not the rows' fault.
    """
    failpoints.reach("writer.mid_isolation")
    with conn.cursor() as cursor:
        cursor.execute(_PREPARE)
        stage.index(conn, len(spec.fields))
        cursor.execute(sql.SQL("DO {}").format(sql.Literal(_block(spec).as_string(cursor))))
        cursor.execute("SELECT n, outcome, state, col, cons FROM pg_temp.onramp_verdicts")
        verdicts = cursor.fetchall()
    columns = _columns(conn, spec, [n for n, _, state, column, _ in verdicts if state and not column])
    out = Isolated()
    for n, outcome, state, column, constraint in verdicts:
        if outcome == "landed":
            out.landed.append(n)
        elif outcome == "swallowed":
            why = "no error, and no row: does a trigger or a rule suppress it?"
            out.errors[n] = refusal(database, spec.target, why=why, fault=SWALLOWED)
        elif outcome == "refused":
            at = column or columns.get(n)
            out.errors[n] = refusal(database, spec.target, state, column=at, constraint=constraint)
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
        has_key=sql.Literal(bool(spec.key) and not spec.ruled),
        swallowed=sql.Literal(_SWALLOWED),
        ruled_key=sql.Literal(spec.index if spec.ruled else None),
    )


def _columns(conn: connection, spec: InsertSpec, places: list[int]) -> dict[int, str]:
    """The columns whose text their types do not read, as far as the server can tell."""
    if not places or conn.server_version < _KNOWS_COLUMNS:
        return {}
    given = sql.SQL(", ").join(
        sql.SQL("({}, s.{}, {})").format(
            sql.Literal(f.name), sql.Identifier(f"c{i}"), sql.Literal(f.declared)
        )
        for i, f in enumerate(spec.fields)
    )
    statement = sql.SQL(_LOOK_AT).format(stage=spec.stage, given=given, places=sql.Literal(places))
    found: list[tuple[Any, ...]] = []
    try:
        with savepoint(conn), conn.cursor() as cursor:
            cursor.execute(statement)
            found = cursor.fetchall()
    except psycopg2.DataError:  # an input function that only raises: the SQLSTATE must do
        return {}
    return dict(found)
