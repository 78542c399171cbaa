"""INSERT: rows of text through a stage into a table, each with exactly one outcome.

The stage (`stage`) is filled by COPY; one statement casts and inserts it with
``ON CONFLICT (key) DO NOTHING``: on the event's own key only, so that a clash on another
unique index is an error and never a silent loss.  When the statement inserts fewer rows than
it was given, each missing row must be found under its key, else a trigger or a rule has
swallowed it; when it fails, `isolate` finds the rows at fault.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer import encodings, isolate, stage
from services.writer.copy_rows import savepoint
from services.writer.postgres import Database
from services.writer.refusals import refusal
from services.writer.sqlstates import Verdict, verdict
from services.writer.targets import Target
from shared.errors import UserError

#: The places of the rows that are new; null for one that a trigger gave another key.
_INSERT_NEW: Final = """
    WITH new AS ({insert} RETURNING {key})
    SELECT min(s.n) FROM new LEFT JOIN {stage} s ON {same} GROUP BY {new_key}
"""
_IS_MISSING: Final = """
    SELECT EXISTS (SELECT FROM {stage} s WHERE NOT EXISTS (SELECT FROM {table} new WHERE {same}))
"""


#: What a row's values alone can do to the stage: a form, a size.
_OF_VALUES: Final = frozenset({"22", "54"})


@dataclass(frozen=True, slots=True)
class Field:
    """A column that is given: its name, the type to cast to (schema, name), how it is declared."""

    name: str
    type: tuple[str, str]
    declared: str


@dataclass(frozen=True, slots=True)
class Insertion:
    """What is inserted where.  `key`: the columns that tell a repeat; empty when none does.

    `ruled`: the table has rewrite rules, which ON CONFLICT does not go with.  `index`: the
    key's own, as an error names it.
    """

    target: Target
    fields: tuple[Field, ...]
    key: tuple[str, ...] = ()
    index: str = ""
    ruled: bool = False

    @property
    def table(self) -> sql.Composable:
        """The table's name, quoted."""
        return sql.Identifier(self.target.schema, self.target.table)

    @property
    def stage(self) -> sql.Composable:
        """The stage's name."""
        return stage.name(len(self.fields))

    def statement(self, where: str = "", *, on_conflict: bool = True) -> sql.Composed:
        """The INSERT from the stage."""
        casts = [
            sql.SQL("s.{}::{}").format(sql.Identifier(f"c{i}"), sql.Identifier(*f.type))
            for i, f in enumerate(self.fields)
        ]
        return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} s {} ORDER BY s.n {}").format(
            self.table,
            sql.SQL(", ").join(sql.Identifier(f.name) for f in self.fields),
            sql.SQL(", ").join(casts),
            self.stage,
            sql.SQL(where),
            self._on_conflict() if on_conflict and self.key and not self.ruled else sql.SQL(""),
        )

    def _on_conflict(self) -> sql.Composed:
        return sql.SQL("ON CONFLICT ({}) DO NOTHING").format(
            sql.SQL(", ").join(map(sql.Identifier, self.key))
        )

    def same_key(self) -> sql.Composed:
        """That a row `new` of the table and a row `s` of the stage have one key."""
        at = {f.name: i for i, f in enumerate(self.fields)}
        return sql.SQL(" AND ").join(
            sql.SQL("new.{} = s.{}::{}").format(
                sql.Identifier(k), sql.Identifier(f"c{at[k]}"), sql.Identifier(*self.fields[at[k]].type)
            )
            for k in self.key
        )


@dataclass(slots=True)
class Verdicts:
    """By place: which rows landed, and the errors of those that are parked; the rest are duplicates."""

    landed: "np.ndarray[Any, np.dtype[np.bool_]]"
    errors: dict[int, UserError] = field(default_factory=dict)


def insert(
    conn: connection,
    database: Database,
    what: Insertion,
    columns: Sequence[pa.Array],
    before_isolating: Callable[[], None],
) -> Verdicts:
    """Insert `columns` (text, one for each field) and say what became of each row.

    `before_isolating` is called when rows were refused, and may raise: perhaps the table is
    no longer what it was.  Raises psycopg2's error when the fault is not the rows'.
    """
    rows = _with_places(what, columns)
    out = Verdicts(np.zeros(rows.num_rows, dtype=bool))
    rows = _without_nul(database, what, rows, out)
    rows = _without_unheld(conn, database, what, rows, out)
    if not rows.num_rows:
        return out
    try:
        with savepoint(conn):
            stage.fill(conn, rows)
            _insert_all(conn, what, rows.num_rows)
    except _ShortError:
        _tell_apart(conn, database, what, rows, out)
    except psycopg2.Error as e:
        if verdict(e.pgcode) is not Verdict.PARK:
            raise
        before_isolating()
        _isolate(conn, database, what, rows, out)
    else:
        out.landed[rows.column(stage.PLACE).to_numpy()] = True
    return out


class _ShortError(Exception):
    """The statement inserted fewer rows than it was given."""


def fill_stage(conn: connection, what: Insertion, columns: Sequence[pa.Array]) -> None:
    """Fill the stage of `what` with `columns` (text, one for each field): n is their place."""
    stage.fill(conn, _with_places(what, columns))


def _with_places(what: Insertion, columns: Sequence[pa.Array]) -> pa.Table:
    names = [stage.PLACE, *(f"c{i}" for i in range(len(what.fields)))]
    return pa.table([pa.array(np.arange(len(columns[0]), dtype=np.int32)), *columns], names)


def _without_nul(database: Database, what: Insertion, rows: pa.Table, out: Verdicts) -> pa.Table:
    """`rows` without those that hold the one character that text cannot: COPY would refuse them all."""
    for i, f in enumerate(what.fields):
        column = rows.column(f"c{i}")
        found = pc.fill_null(pc.match_substring(column, "\0"), False)
        if pc.any(found).as_py():
            error = refusal(database, what.target, "22021", "text holds no NUL character", column=f.name)
            for place in rows.column(stage.PLACE).filter(found).to_pylist():
                out.errors[place] = error
            rows = rows.filter(pc.invert(found))
    return rows


def _without_unheld(
    conn: connection, database: Database, what: Insertion, rows: pa.Table, out: Verdicts
) -> pa.Table:
    """`rows` without those that hold a character which the database's encoding does not have."""
    found = encodings.unheld(conn, rows.columns[1:], rows.column(stage.PLACE))
    for place, at in found.items():
        why = "the database's encoding does not have one of its characters"
        out.errors[place] = refusal(database, what.target, "22P05", why, column=what.fields[at].name)
    if not found:
        return rows
    return rows.filter(pc.invert(pc.is_in(rows.column(stage.PLACE), pa.array(found, pa.int32()))))


def _insert_all(conn: connection, what: Insertion, count: int) -> None:
    with conn.cursor() as cursor:
        cursor.execute(what.statement())
        if cursor.rowcount != count:
            raise _ShortError


def _tell_apart(conn: connection, database: Database, what: Insertion, rows: pa.Table, out: Verdicts) -> None:
    """Insert again, and find for each row whether it is new, a duplicate, or was swallowed."""
    if what.key and not what.ruled:
        try:
            with savepoint(conn):
                stage.fill(conn, rows)
                new = _insert_new(conn, what)
        except _ShortError:
            pass  # swallowed, or the key that landed is not the key that was given
        except psycopg2.Error as e:
            if verdict(e.pgcode) is not Verdict.PARK:
                raise
        else:
            out.landed[new] = True
            return
    _isolate(conn, database, what, rows, out)


def _insert_new(conn: connection, what: Insertion) -> list[int]:
    """The places of the rows that were inserted, if the others are there already under their keys."""
    key = [sql.Identifier(k) for k in what.key]
    same = what.same_key()
    insert = sql.SQL(_INSERT_NEW).format(
        insert=what.statement(),
        key=sql.SQL(", ").join(key),
        new_key=sql.SQL(", ").join(sql.SQL("new.{}").format(k) for k in key),
        stage=what.stage,
        same=same,
    )
    with conn.cursor() as cursor:
        cursor.execute(insert)
        places = [place for (place,) in cursor.fetchall()]
        cursor.execute(sql.SQL(_IS_MISSING).format(stage=what.stage, table=what.table, same=same))
        if None in places or cursor.fetchone() == (True,):
            raise _ShortError
    return places


def _isolate(conn: connection, database: Database, what: Insertion, rows: pa.Table, out: Verdicts) -> None:
    """Insert piece by piece, so that only the rows at fault stay out; what cannot be staged is halved."""
    try:
        with savepoint(conn):
            stage.fill(conn, rows)
            found = isolate.one_by_one(conn, database, what)
    except psycopg2.Error as e:
        if str(e.pgcode)[:2] not in _OF_VALUES:
            raise
        half = rows.num_rows // 2
        if not half:
            out.errors[rows.column(stage.PLACE)[0].as_py()] = refusal(database, what.target, e.pgcode)
            return
        _isolate(conn, database, what, rows.slice(0, half), out)
        _isolate(conn, database, what, rows.slice(half), out)
    else:
        out.landed[found.landed] = True
        out.errors |= found.errors
