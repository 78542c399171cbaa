"""Checks whether events can land in a table: each fact that must hold, and the SQL that fixes it.

The check uses the writer's own role, before the first event is parked for a missing right.  It reads only
the catalogue and changes nothing.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from psycopg2.extensions import connection, cursor

from shared import landing_columns
from shared.contracts.tables import OWN_NAMES, FieldColumn, add_column, create_table, quoted
from shared.landing_columns import Part, changes_silently, named

_ROLE: Final = "SELECT current_user::text"
_SCHEMA: Final = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s"
_TABLE: Final = """
    SELECT c.oid, c.relkind::text, has_table_privilege(c.oid, 'INSERT')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
#: Needs no right in the schemas.
_ABSENT: Final = """
    SELECT name.schema, name.table FROM unnest(%s::text[], %s::text[]) name (schema, "table")
    WHERE NOT EXISTS (
        SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = name.schema AND c.relname = name.table
    )
"""
_COLUMNS: Final = """
    SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), t.typcategory::text, t.typname::text,
           a.attnotnull, a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL,
           has_column_privilege(a.attrelid, a.attnum, 'SELECT'), a.attidentity = 'a', a.attgenerated <> ''
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
#: A key that identifies a repeat: the primary key, or a unique index over `_id` alone.  Postgres rejects ON
#: CONFLICT for a key WITHOUT OVERLAPS.
_KEYS: Final = """
    SELECT i.indimmediate,
           array(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, place)
                 JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
                 WHERE k.place <= i.indnkeyatts ORDER BY k.place), i.indisprimary
    FROM pg_index i
    WHERE i.indrelid = %s AND i.indisunique AND NOT i.indisexclusion AND i.indisvalid
      AND i.indpred IS NULL AND i.indexprs IS NULL
    ORDER BY i.indisprimary DESC, i.indexrelid
"""
#: Postgres' categories of types that accept a field of this type; `json` accepts everything.
_TAKES: Final = {"bigint": "N", "numeric": "N", "boolean": "B"}
_NEVER_TEXT: Final = "BA"
#: Onramp's own columns in which a repeat differs from its event.
_ARRIVAL: Final = frozenset(named(Part.ORIGIN, Part.RECEIPT))


#: The types of Onramp's own columns without their domains.
_OWN_TYPES: Final = """
    WITH RECURSIVE base AS (
        SELECT a.attname::text, a.atttypid AS type, a.atttypmod AS modifier,
               format_type(a.atttypid, a.atttypmod) AS declared
        FROM pg_attribute a WHERE a.attrelid = %s AND a.attname = ANY (%s) AND NOT a.attisdropped
        UNION ALL
        SELECT b.attname, t.typbasetype, CASE WHEN b.modifier = -1 THEN t.typtypmod ELSE b.modifier END,
               b.declared
        FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
    )
    SELECT b.attname, t.typname::text, b.modifier, b.declared
    FROM base b JOIN pg_type t ON t.oid = b.type
    WHERE t.typtype <> 'd' AND t.typnamespace = 'pg_catalog'::regnamespace
"""


class Fact(NamedTuple):
    """A condition for events to land: whether it holds, and the SQL that establishes it."""

    holds: bool
    text: str
    sql: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A destination table and the fields of its events."""

    schema: str
    table: str
    #: The database's schemas that the writer may write to.
    open_schemas: Sequence[str]
    columns: Sequence[FieldColumn] = ()
    #: Fields without a column are dropped, as the contract says.
    discards: bool = False
    #: Whether `unkeyed: true` accepts a table without a key that identifies repeats.
    unkeyed: bool = False

    @property
    def name(self) -> str:
        """Return the table's name, quoted."""
        return f"{quoted(self.schema)}.{quoted(self.table)}"


class _Column(NamedTuple):
    name: str
    type: str
    category: str
    base: str
    not_null: bool
    has_default: bool
    may_select: bool
    #: GENERATED ALWAYS: events cannot bring values.
    is_identity: bool
    is_computed: bool

    @property
    def is_generated(self) -> bool:
        return self.is_identity or self.is_computed


class _Key(NamedTuple):
    immediate: bool
    columns: list[str]
    primary: bool


def absent(conn: connection, tables: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return those of `tables` (schema, name) that do not exist."""
    with conn.cursor() as cursor:
        cursor.execute(_ABSENT, ([schema for schema, _ in tables], [name for _, name in tables]))
        return set(cursor.fetchall())


def facts(conn: connection, wanted: Wanted) -> list[Fact]:
    """Return the facts in their order, up to the first one that prevents further checks."""
    with conn.cursor() as asking:
        return list(_facts(asking, wanted))


def _facts(asking: cursor, wanted: Wanted) -> Iterator[Fact]:
    role = quoted(_one(asking, _ROLE)[0])
    is_open = wanted.schema in wanted.open_schemas
    text = f"the writer opens the schema {wanted.schema}"
    yield Fact(is_open, text, "" if is_open else f"-- add {wanted.schema} to `schemas` of the database")
    usage = _one(asking, _SCHEMA, wanted.schema)
    if not usage:
        yield Fact(False, f"the schema {wanted.schema} exists", f"CREATE SCHEMA {quoted(wanted.schema)};")
        return
    grant = f"GRANT USAGE ON SCHEMA {quoted(wanted.schema)} TO {role};"
    yield _fact(holds=usage[0], text="USAGE on the schema", sql=grant)
    table = _one(asking, _TABLE, wanted.schema, wanted.table)
    if not table:
        ddl = create_table(wanted.schema, wanted.table, list(wanted.columns))
        yield Fact(False, f"the table {wanted.schema}.{wanted.table} exists", ddl)
        return
    oid, kind, may_insert = table
    yield _fact(holds=kind in "rp", text="it is a table", sql="-- name a table: a view cannot promise a key")
    yield _fact(holds=may_insert, text="INSERT", sql=f"GRANT INSERT ON {wanted.name} TO {role};")
    columns = _columns(asking, oid)
    yield from _of_own_columns(asking, oid, wanted)
    yield from _of_columns(columns, wanted)
    asking.execute(_KEYS, (oid,))
    yield from _of_key([_Key(*row) for row in asking.fetchall()], columns, wanted, role)


def unfit_columns(conn: connection, wanted: Wanted) -> list[Fact]:
    """Return a failed fact for each column that would change Onramp's values, or that no event can fill.

    The second are the required fields whose columns the table generates.
    """
    with conn.cursor() as asking:
        table = _one(asking, _TABLE, wanted.schema, wanted.table)
        if not table:
            return []
        columns = _columns(asking, table[0])
        required = (columns.get(field.name) for field in wanted.columns if field.is_required)
        generated = [_generated(each, wanted) for each in required if each and each.is_generated]
        return [*_of_own_columns(asking, table[0], wanted), *generated]


def _columns(asking: cursor, oid: int) -> dict[str, _Column]:
    asking.execute(_COLUMNS, (oid,))
    return {row[0]: _Column(*row) for row in asking.fetchall()}


def _of_own_columns(asking: cursor, oid: int, wanted: Wanted) -> Iterator[Fact]:
    own = {column.name: column for column in landing_columns.COLUMNS if column.name in OWN_NAMES}
    asking.execute(_OWN_TYPES, (oid, list(own)))
    for name, base, modifier, declared in sorted(asking.fetchall()):
        column = own[name]
        if changes_silently(column, base, modifier):
            text = f"the type {declared} of {name} would change Onramp's values: {column.type} keeps them"
            retype = f"ALTER TABLE {wanted.name} ALTER COLUMN {name} TYPE {column.type};"
            yield Fact(False, text, retype)


def _of_columns(columns: dict[str, _Column], wanted: Wanted) -> Iterator[Fact]:
    for field in wanted.columns:
        column = columns.get(field.name)
        if column is None:
            text = f"a column for the field {field.name}"
            yield Fact(wanted.discards, text, add_column(wanted.schema, wanted.table, field))
        elif column.is_generated:
            yield _generated(column, wanted)
        else:
            name, to = quoted(field.name), field.type
            retype = f"ALTER TABLE {wanted.name} ALTER COLUMN {name} TYPE {to} USING {name}::{to};"
            yield _fact(
                holds=_takes(column, field), text=f"{field.name} {column.type} takes {to}", sql=retype
            )
    given = {field.name for field in wanted.columns if field.is_required} | OWN_NAMES
    for column in columns.values():
        if column.not_null and not column.has_default and wanted.columns and column.name not in given:
            optional = f"ALTER TABLE {wanted.name} ALTER COLUMN {quoted(column.name)} DROP NOT NULL;"
            yield Fact(False, f"every event has the field {column.name}, which is NOT NULL", optional)


def _generated(column: _Column, wanted: Wanted) -> Fact:
    change = "SET GENERATED BY DEFAULT" if column.is_identity else "DROP EXPRESSION"
    sql = f"ALTER TABLE {wanted.name} ALTER COLUMN {quoted(column.name)} {change};"
    return Fact(False, f"{column.name} takes a value: the table generates it", sql)


def _takes(column: _Column, field: FieldColumn) -> bool:
    if column.base in ("json", "jsonb"):
        return True
    if field.type in _TAKES:
        return column.category == _TAKES[field.type]
    if field.type == "jsonb":
        return True  # of several types, or an array: decided per value
    return column.category not in _NEVER_TEXT


def _of_key(keys: list[_Key], columns: dict[str, _Column], wanted: Wanted, role: str) -> Iterator[Fact]:
    usable = _usable(keys, columns, wanted)
    if not usable:
        yield _without_key(columns, wanted)
        return
    for key in usable:
        text = f"the key ({', '.join(key.columns)}) is checked immediately"
        yield _fact(holds=key.immediate, text=text, sql="-- make the constraint anew, NOT DEFERRABLE")
    brought = {field.name for field in wanted.columns} | OWN_NAMES
    for name in usable[0].columns:
        if wanted.columns:
            text = f"every event has {name}, a part of the key"
            yield _fact(holds=name in brought, text=text, sql="")
    compared = [c for c in columns.values() if not wanted.columns or c.name in brought]
    grant = f"GRANT SELECT ({', '.join(quoted(c.name) for c in compared)}) ON {wanted.name} TO {role};"
    readable = all(column.may_select for column in compared)
    yield _fact(holds=readable, text="SELECT on the columns by which a repeat is compared", sql=grant)


def key_fact(conn: connection, wanted: Wanted) -> Fact | None:
    """Return the fact that a key identifies repeats or `unkeyed` is set; None without a table."""
    with conn.cursor() as asking:
        table = _one(asking, _TABLE, wanted.schema, wanted.table)
        if not table or table[1] not in "rp":
            return None
        columns = _columns(asking, table[0])
        asking.execute(_KEYS, (table[0],))
        usable = _usable([_Key(*row) for row in asking.fetchall()], columns, wanted)
        return None if usable else _without_key(columns, wanted)


def _usable(keys: list[_Key], columns: dict[str, _Column], wanted: Wanted) -> list[_Key]:
    """Return the keys that identify a repeat: its values equal the event's in all columns of the key.

    Values differ in columns with a default that the event does not set, and in columns for the time and
    position of arrival.
    """
    given = {field.name for field in wanted.columns if field.is_required} | OWN_NAMES
    changing = {c.name for c in columns.values() if c.has_default and c.name not in given} | _ARRIVAL
    candidates = [key for key in keys if key.primary or key.columns == ["_id"]]
    return [key for key in candidates if changing.isdisjoint(key.columns)]


def _without_key(columns: Collection[str], wanted: Wanted) -> Fact:
    if wanted.unkeyed:
        return Fact(True, "no key identifies a repetition, and `unkeyed: true` says so")
    add = "" if "_id" in columns else f"ALTER TABLE {wanted.name} ADD COLUMN _id text;\n"
    or_say = "\n-- or make each key column that has a default a required field of the event type's schema,"
    or_say += "\n-- or write `unkeyed: true` at the destination: then a repeat is one more row"
    sql = f"{add}CREATE UNIQUE INDEX ON {wanted.name} (_id);{or_say}"
    return Fact(False, "a key identifies a repetition", sql)


def _fact(*, holds: bool, text: str, sql: str) -> Fact:
    return Fact(holds, text, "" if holds else sql)


def _one(asking: cursor, query: str, *given: Any) -> tuple[Any, ...]:
    asking.execute(query, given)
    return asking.fetchone() or ()
