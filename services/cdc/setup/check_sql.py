"""Checks whether a source can be captured: facts of its catalogue and, on request, of its rows."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

import orjson
import psycopg2
from psycopg2 import errors, sql
from psycopg2.extensions import connection, parse_dsn

from services.cdc.agent.source_sql import SourceDatabase, SourceError, translated
from services.cdc.agent.source_state import SourceState, Table
from services.cdc.change_detection import identity_sql
from services.cdc.change_detection.table_fingerprint_sql import TREE
from services.cdc.merge.column_types import UnsupportedTypeError, column_type, is_silent
from services.cdc.setup.login_sql import require_login
from shared.postgres.connect import connect
from shared.postgres.quoting import identifier
from shared.registry.sources import Source, pattern_of

_STATEMENT_MS: Final = 600_000
#: Maximum tables that one fact names.
_SHOWN: Final = 5
#: For each table: whether the role may read it, and which relations, it or its partitions, lack an identity.
_IDENTITY: Final = f"""
    SELECT c.oid::int8, c.relreplident, has_table_privilege(c.oid, 'SELECT'), (
        WITH RECURSIVE tree AS ({TREE})
        SELECT array_agg(format('%%I.%%I', n.nspname, k.relname) ORDER BY n.nspname, k.relname)
        FROM (SELECT c.oid UNION ALL SELECT tree.oid FROM tree) AS its (oid) JOIN pg_class k USING (oid)
        JOIN pg_namespace n ON n.oid = k.relnamespace WHERE k.relkind = 'r' AND {identity_sql.lacks("k")})
    FROM pg_class c WHERE c.oid = ANY(%s::oid[])
"""  # noqa: S608 - our own words
_UNLOGGED: Final = """
    SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY(%s) AND c.relkind IN ('r', 'p') AND c.relpersistence = 'u'
"""
#: The first version that reports "Replica identity must not contain unpublished generated columns".
_REFUSES_GENERATED: Final = 180_000
_LEAVE_OUT: Final = 'models: leave the column out ("{}": null), or exclude the table'
#: The range of microseconds since 1970: a later value lands as infinity.
_LAST_TIMESTAMP: Final = "294247-01-10 04:00:54.775807"
_FLOATS_IN_ARRAYS: Final = ("real[]", "double precision[]")
_TIMES: Final = ("date", "timestamp without time zone", "timestamp with time zone")


class Fact(NamedTuple):
    """A fact about a source or one of its tables; `level` is ok, warn or wrong."""

    level: str
    what: str
    fix: str = ""


class _RowReads:
    """Reads of rows, for `seconds` altogether; None: without a limit."""

    def __init__(self, seconds: float | None) -> None:
        self._ends = None if seconds is None else time.monotonic() + seconds
        self._seconds = seconds
        self._unread: list[str] = []

    def has(self, cursor: Any, table: Table, query: sql.Composed) -> bool:
        """Return whether the query selects a row; False, and the table is unread, at the end of the time."""
        left_ms = _STATEMENT_MS if self._ends is None else int((self._ends - time.monotonic()) * 1000)
        if left_ms > 0:
            cursor.execute("SAVEPOINT rows")
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", (str(left_ms),))
            try:
                cursor.execute(query)
                return bool(cursor.fetchone()[0])
            except errors.QueryCanceled:
                if self._ends is None:
                    raise
            finally:
                cursor.execute("ROLLBACK TO SAVEPOINT rows")  # with its timeout
        self._unread.append(table.full_name)
        return False

    def unread(self) -> Iterator[Fact]:
        """Yield a fact if tables were not read whole."""
        if names := list(dict.fromkeys(self._unread)):
            listed = ", ".join(names[:_SHOWN]) + (
                f" and {len(names) - _SHOWN:,} more" * (len(names) > _SHOWN)
            )
            yield Fact(
                "warn",
                f"rows were read for {self._seconds:g} s only: {listed} may have further values that would "
                "come out wrong",
                "onramp sources check … --rows, which has no limit",
            )


def facts(
    name: str, source: Source, dsn: str, *, rows: bool, row_seconds: float | None = None
) -> Iterator[Fact]:
    """Yield the facts of a source; `rows` also reads every table for values that would change.

    `row_seconds`: the time for that; tables that were not read within it are a fact.  Raises `SourceError`.
    """
    database = SourceDatabase(name, source, dsn)
    try:
        source_state = database.inspect()
    finally:
        database.close()
    if source_state.unprepared:
        yield from (
            Fact("wrong", each, f"onramp sources sql {name}") for each in source_state.unprepared.split("; ")
        )
    else:
        yield Fact("ok", "wal_level, the role and the publication are correct")
    for table, why in source_state.excluded_tables.items():
        yield Fact(
            "wrong",
            f"{table} is excluded: {why}",
            f"exclude: [{orjson.dumps(pattern_of(table)).decode()}]",
        )
    options = f"-c search_path=pg_catalog -c statement_timeout={_STATEMENT_MS}"
    with (
        translated(source.dsn_env),
        closing(connect(dsn, name="onramp-check", options=options)) as conn,
        conn,
    ):
        reads = _RowReads(row_seconds) if rows else None
        yield from _of_tables(conn, source, source_state, reads)


def facts_or_refusal(
    name: str, source: Source, dsn: str, *, rows: bool, row_seconds: float | None = None
) -> list[Fact]:
    """Return the facts of a source; a source that cannot be read is a fact too, because a page shows it."""
    try:
        require_login(source.dsn_env, dsn)
        return list(facts(name, source, dsn, rows=rows, row_seconds=row_seconds))
    except SourceError as error:
        return [Fact("wrong", str(error), f"onramp sources sql {name}")]


def role_of(dsn: str) -> str:
    """Return the role that a DSN names; empty when it names none, or is not a DSN."""
    try:
        return str(parse_dsn(dsn).get("user", ""))
    except psycopg2.Error:
        return ""


def of_types(table: Table) -> Iterator[Fact]:
    """Yield a fact for each column whose type would, or may, suspend the table once it is captured."""
    for column in table.columns:
        try:
            column_type(column.type)
        except UnsupportedTypeError:
            yield Fact(
                "wrong",
                f"{table.full_name}.{column.name} is of the type {column.type}, which changes do not carry"
                " completely: it would suspend the table",
                _LEAVE_OUT.format(column.name),
            )
            continue
        if is_silent(column.type):
            yield Fact(
                "warn",
                f"{table.full_name}.{column.name} is of the type {column.type}: an update that sets it to"
                " NULL, or leaves a large one alone, would suspend the table until it is re-snapshotted",
                f"{_LEAVE_OUT.format(column.name)}, or give it another type (text[], jsonb)",
            )


def _of_tables(
    conn: connection, source: Source, source_state: SourceState, reads: _RowReads | None
) -> Iterator[Fact]:
    tables = [table for _, table in sorted(source_state.captured.items())]
    with conn.cursor() as cursor:
        cursor.execute(_IDENTITY, ([table.oid for table in tables],))
        by_oid = {oid: rest for oid, *rest in cursor.fetchall()}
        for table in tables:
            if table.oid not in by_oid:
                continue  # the table was dropped just now
            identity, may_read, lacking = by_oid[table.oid]
            yield from _of_one(table, lacking or [], may_read=may_read)
            if conn.server_version >= _REFUSES_GENERATED:
                yield from _of_generated(table, identity)
            yield from of_types(table)
            if reads is not None and may_read:
                yield from _of_rows(cursor, table, reads)
        if reads is not None:
            yield from reads.unread()
        yield from _of_database(cursor)
        cursor.execute(_UNLOGGED, (list(source.schemas),))
        for (name,) in cursor.fetchall():
            yield Fact("warn", f"{name} is unlogged: its changes are nowhere to be read")


def _of_database(cursor: Any) -> Iterator[Fact]:
    cursor.execute("SELECT current_setting('synchronous_standby_names'), getdatabaseencoding()")
    standbys, encoding = cursor.fetchone()
    if standbys:
        yield Fact(
            "warn",
            "synchronous_standby_names is set: a change that waits for its standby during a re-snapshot of"
            " its table may be missing until the row changes again",
            "docs/sources-limits.md",
        )
    if encoding == "SQL_ASCII":
        yield Fact(
            "warn",
            "the encoding is SQL_ASCII, which allows any bytes: those that are not UTF-8 stop the source",
            "correct such text, then run onramp sources resync; or use a database of another encoding",
        )


def _of_one(table: Table, lacking: Sequence[str], *, may_read: bool) -> Iterator[Fact]:
    named = f"{identifier(table.schema)}.{identifier(table.name)}"
    if not may_read:
        yield Fact("wrong", f"{table.full_name}: no SELECT", f"GRANT SELECT ON {named} TO …;")
    for each in lacking:
        yield Fact(
            "wrong",
            f"{each} has no identity: once published the application's UPDATE and DELETE fail",
            f"ALTER TABLE {each} ADD PRIMARY KEY (…);  -- or REPLICA IDENTITY FULL",
        )
    if table.key and not lacking:
        yield Fact("ok", f"{table.full_name}, by {', '.join(table.key)}")
    elif not lacking:
        yield Fact(
            "warn",
            f"{table.full_name} has no key: of two equal rows a delete takes one, and it is read slowly",
            f"ALTER TABLE {named} ADD PRIMARY KEY (…);",
        )


def _of_generated(table: Table, identity: str) -> Iterator[Fact]:
    in_identity = {c.name for c in table.columns} if identity == "f" else set(table.key or ())
    if generated := [c.name for c in table.columns if c.generated and c.name in in_identity]:
        yield Fact(
            "wrong",
            f"{table.full_name} has generated columns ({', '.join(generated)}) in its identity: once "
            "published the application's UPDATE and DELETE fail",
            "a primary key without them, and REPLICA IDENTITY DEFAULT",
        )


def _of_rows(cursor: Any, table: Table, reads: _RowReads) -> Iterator[Fact]:
    """Yield a fact for each column with values that would change."""
    for column in table.columns:
        for condition, what in _doubtful(column.type):
            query = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {})").format(
                sql.Identifier(table.schema, table.name),
                sql.SQL(condition).format(column=sql.Identifier(column.name)),
            )
            if reads.has(cursor, table, query):
                yield Fact(
                    "wrong",
                    f"{table.full_name}.{column.name} has {what}: they would come out wrong",
                    _LEAVE_OUT.format(column.name),
                )


def _doubtful(type_: str) -> Iterator[tuple[str, str]]:
    base = type_.partition("(")[0] + type_.partition(")")[2]
    if type_.endswith("[]"):
        yield "array_ndims({column}) > 1", "arrays of several dimensions"
        yield "array_lower({column}, 1) <> 1", "arrays that do not begin at 1"
        if type_.startswith("numeric"):
            yield "'{{NaN,Infinity,-Infinity}}' && {column}", "NaN or infinity in an array"
        if base in _FLOATS_IN_ARRAYS:
            yield "'-0' = ANY({column}::text[])", "-0 in an array"
        if "." in type_ and ".citext" not in type_:
            yield "EXISTS (SELECT FROM unnest({column}) AS each WHERE each IS NULL)", "NULL in an array"
        if (of := base.removesuffix("[]")) in _TIMES:
            # Arrays use a different calendar for early dates.
            since = "1582-10-15" if of == "timestamp without time zone" else "0001-01-01"
            yield f"'{since}' > ANY({{column}})", f"dates before {since} in an array"
            yield "'infinity' = ANY({column})", "infinite dates in an array"
    if base == "date":
        yield "{column} < '0001-01-01' AND isfinite({column})", "dates before Christ"
        yield "{column} BETWEEN '1582-10-05' AND '1582-10-14'", "dates from October 5 to 14, 1582"
    if base == "timestamp without time zone":
        yield f"{{column}} > '{_LAST_TIMESTAMP}' AND isfinite({{column}})", f"dates after {_LAST_TIMESTAMP}"
    if base in ("real", "double precision"):
        yield "{column}::text = '-0'", "-0"
