"""Creates the tables of event types with `create: true`, before the change that needs them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from services.ops.operate import create_sql
from services.ops.operate.destinations_sql import (
    Fact,
    Wanted,
    absent,
    facts,
    key_fact,
    unfit_columns,
)
from services.ops.operate.holds_sql import connected
from services.ops.registry.database_addresses import Places
from shared.contracts.tables import FieldColumn, columns_of, quoted
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from shared.registry import Destination, EventType, Snapshot

#: A destination with the name of its event type.
_Changed = tuple[str, EventType, Destination]


class Creation(NamedTuple):
    """The statements that were executed, or would be, and the reason of a refusal (empty without one).

    `unseen`: keys that could not be checked.
    """

    statements: list[str]
    problem: str = ""
    unseen: str = ""


class _Table(NamedTuple):
    event_type: str
    database: str
    wanted: Wanted


def make_tables(where: Places, before: Snapshot, after: Snapshot, *, is_dry: bool) -> Creation:
    """Create the tables that a change requires, and check that the writer's role can land events there.

    Nothing is created while a table of the change lacks a required key.  An unchanged destination queries no
    database: a database that is down blocks only its own changes.

    Raises `InfrastructureError` when a database that the change needs cannot be reached.
    """
    return _make(where, list(_changed(before, after)), is_dry=is_dry)


def make_dropped_tables(where: Places, before: Snapshot, after: Snapshot, *, is_dry: bool) -> Creation:
    """Create the tables of unchanged destinations with `create: true` that do not exist any more.

    Opens one session for each database; `unseen` names the databases that do not answer.
    """
    changed = {(name, destination) for name, _, destination in _changed(before, after)}
    unchanged: dict[str, list[_Changed]] = defaultdict(list)
    for name, event_type in sorted(after.event_types.items()):
        for destination in event_type.destinations:
            database = _database(where, destination)
            if destination.create and (name, destination) not in changed and database in where.databases:
                unchanged[database].append((name, event_type, destination))
    statements: list[str] = []
    problems: list[str] = []
    unseen: list[str] = []
    for database, of_one in unchanged.items():
        try:
            with connected(database, where.databases[database]) as conn:
                lacking = absent(conn, [(d.db_schema or "", d.table or "") for _, _, d in of_one])
            dropped = [each for each in of_one if (each[2].db_schema, each[2].table) in lacking]
            made = _make(where, dropped, is_dry=is_dry)
        except InfrastructureError as error:
            unseen.append(f"whether the tables of {database} exist was not checked: {error.detail}")
            continue
        statements += made.statements
        problems += filter(None, [made.problem])
    return Creation(statements, "\n".join(problems), "; ".join(unseen))


def _make(where: Places, changed: Sequence[_Changed], *, is_dry: bool) -> Creation:
    keys = _without_keys(where, changed)
    if keys.problem:
        return keys
    statements: list[str] = []
    try:
        tables = [_table(where, *each) for each in changed if each[2].create]
    except ValueError as error:
        return Creation([], str(error))
    for table in tables:
        dsn = where.databases[table.database]
        owner = create_sql.Owner(table.database, where.owners.get(table.database, dsn))
        writer = create_sql.role_of(create_sql.Owner(table.database, dsn))
        if is_dry:
            statements += create_sql.planned(owner, table.wanted, writer)
            continue
        done = create_sql.carry_out(owner, table.wanted, writer)
        if done.problem:
            return Creation(statements, "\n".join([done.problem, *done.statements]))
        statements += done.statements
        if lacking := _lacking(table, dsn):
            return Creation(statements, f"{table.event_type} cannot land in {table.wanted.name}\n{lacking}")
    return Creation(statements, unseen=keys.unseen)


def _database(where: Places, destination: Destination) -> str:
    return destination.vanity or destination.database or next(iter(where.databases), "")


def _changed(before: Snapshot, after: Snapshot) -> Iterator[_Changed]:
    """Yield the tables whose requirements differ from those in force."""
    for name, event_type in sorted(after.event_types.items()):
        old = before.event_types.get(name)
        is_as_before = old is not None and (old.json_schema, old.contract) == (
            event_type.json_schema,
            event_type.contract,
        )
        known = old.database_destinations if old is not None and is_as_before else ()
        for destination in event_type.database_destinations:
            if destination.table and destination not in known:
                yield name, event_type, destination


def _without_keys(where: Places, changed: Sequence[_Changed]) -> Creation:
    """Check the keys of existing tables that these event types name, where their databases answer."""
    missing: list[str] = []
    unseen: list[str] = []
    for name, event_type, destination in changed:
        if destination.create:
            continue
        database = _database(where, destination)
        wanted = Wanted(
            schema=destination.db_schema or "",
            table=destination.table or "",
            open_schemas=(),
            columns=_fields(event_type),
            unkeyed=destination.unkeyed,
        )
        try:
            quoted(wanted.schema), quoted(wanted.table)
            key, unfit = _facts_of(where, database, wanted)
        except ValueError as error:
            missing.append(f"event_types.{name}: {error}")
            continue
        except InfrastructureError as error:
            unseen.append(f"the key of {wanted.name} was not checked: {error.detail}")
            continue
        if key and not key.holds:
            missing.append(f"event_types.{name}: no key identifies a repetition in {wanted.name}\n{key.sql}")
        missing += [f"event_types.{name}: {wanted.name}: {fact.text}\n{fact.sql}" for fact in unfit]
    return Creation([], "\n".join(missing), "; ".join(unseen))


def _fields(event_type: EventType) -> list[FieldColumn]:
    """Return the fields that the schema names; empty if one of them cannot be a column."""
    try:
        return columns_of(event_type.json_schema or {})
    except ValueError:
        return []


def _facts_of(where: Places, database: str, wanted: Wanted) -> tuple[Fact | None, list[Fact]]:
    """Return the fact about the table's key, and one for each column that is unfit for the events."""
    if database not in where.databases:
        reason = f"the database {database or '(none is known)'} is not known here: give --dsn or --databases"
        raise InfrastructureError(DATABASE_UNAVAILABLE, reason)
    with connected(database, where.databases[database]) as conn:
        return key_fact(conn, wanted), unfit_columns(conn, wanted)


def _lacking(table: _Table, dsn: str) -> str:
    """Return the writer's missing rights there, with the SQL that grants them; empty if none."""
    with connected(table.database, dsn) as conn:
        found = [fact for fact in facts(conn, table.wanted) if not fact.holds]
    return "\n".join(line for fact in found for line in (f"-- {fact.text}", fact.sql))


def _table(where: Places, name: str, event_type: EventType, destination: Destination) -> _Table:
    database = _database(where, destination)
    place = f"event_types.{name}"
    if database not in where.databases:
        known = ", ".join(where.databases) or "none (give --dsn)"
        raise ValueError(
            f"{place}: to create its table the database {database} must be known; known: {known}"
        )
    schema, table = destination.db_schema or "", destination.table or ""
    try:
        quoted(schema), quoted(table)
        columns = columns_of(event_type.json_schema or {})
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    discards = event_type.contract.unknown_fields == "discard"
    if not (columns or discards or (event_type.json_schema or {}).get("additionalProperties") is False):
        raise ValueError(
            f"{place}: its schema names no field, so the table would accept no event with one: name fields "
            "in `properties` at the top of the schema, or of its `$ref` or `allOf`"
        )
    if schema not in where.open_schemas(database):
        raise ValueError(f"{place}: database {database} does not open the schema {schema}")
    return _Table(
        name,
        database,
        Wanted(
            schema=schema,
            table=table,
            open_schemas=where.open_schemas(database),
            columns=columns,
            discards=discards,
        ),
    )
