"""The rights that each route needs, and the tables that a caller may name.

A route without an entry here requires an admin who sees all events.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, Request

from services.admin.api.operators import Caller
from services.admin.attempts import database_of
from services.admin.store.sets_sql import ParkedFor
from services.ops.registry.topic_owners import events_of
from shared import wire
from shared.errors import BAD_QUERY, NOT_ALLOWED, UserError
from shared.landing_columns import OPEN_SCHEMAS, SCHEMA
from shared.registry import Destination, Role, Snapshot
from shared.registry.entries import Grant
from shared.transform_replay import transform_of

#: Database, schema and table.
_Table = tuple[str, str, str]


class Need(NamedTuple):
    """The minimum role, and whether the caller must see all events."""

    role: Role
    all_events: bool = False


_UNNAMED: Final = Need("admin", all_events=True)
#: A route without `all_events` narrows what it reads and changes by `Caller.only`.
NEEDS: Final[Mapping[str, Need]] = {
    "GET /metrics": Need("viewer", all_events=True),
    "GET /v1/groups": Need("viewer"),
    "GET /v1/groups/{number}": Need("viewer"),
    "PATCH /v1/groups": Need("operator"),
    "PATCH /v1/groups/{number}": Need("operator"),
    "GET /v1/events": Need("viewer"),
    "GET /v1/counts": Need("viewer"),
    "GET /v1/segments": Need("viewer"),
    "GET /v1/events/{number}": Need("viewer"),
    "POST /v1/events/{number}/reveal": Need("admin"),
    "POST /v1/jobs": Need("operator"),
    "GET /v1/jobs": Need("viewer"),
    "GET /v1/jobs/{number}": Need("viewer"),
    "POST /v1/jobs/{number}/cancel": Need("operator"),
    "POST /v1/recheck": Need("operator", all_events=True),
    "POST /v1/download": Need("admin"),
    "POST /v1/edits": Need("operator"),
    "GET /v1/statement": Need("viewer", all_events=True),
    "GET /v1/audit-log": Need("admin", all_events=True),
    "GET /v1/registry": Need("viewer", all_events=True),
    "PUT /v1/registry": Need("admin", all_events=True),
    "GET /v1/registry/history": Need("viewer", all_events=True),
    "GET /v1/types": Need("viewer"),
    "GET /v1/types/{name}": Need("viewer"),
    "GET /v1/types/{name}/versions": Need("viewer", all_events=True),
    # A type names topics and tables, which may hold other types' events.
    "PUT /v1/types/{name}": Need("admin", all_events=True),
    "DELETE /v1/types/{name}": Need("admin", all_events=True),
    "GET /v1/keys": Need("viewer", all_events=True),
    "POST /v1/keys": Need("admin", all_events=True),
    "POST /v1/keys/{name}/rotate": Need("admin", all_events=True),
    "POST /v1/keys/{name}/revoke": Need("admin", all_events=True),
    # The code of a transform runs on the cluster.
    "GET /v1/transforms": Need("viewer", all_events=True),
    "GET /v1/transforms/{name}": Need("viewer", all_events=True),
    "GET /v1/transforms/{name}/versions": Need("viewer", all_events=True),
    "POST /v1/transforms/{name}/deploy": Need("admin", all_events=True),
    "POST /v1/transforms/{name}/rollback": Need("admin", all_events=True),
    "POST /v1/transforms/{name}/pause": Need("operator", all_events=True),
    "POST /v1/transforms/{name}/resume": Need("admin", all_events=True),
    "GET /v1/destinations": Need("viewer"),
    "GET /v1/destinations/check": Need("viewer"),
    "GET /v1/access": Need("viewer", all_events=True),
    "GET /v1/journey/{id}": Need("viewer"),
    "GET /v1/topics": Need("viewer"),
    "GET /v1/topics/{name}/sample": Need("viewer"),
    "POST /v1/topics": Need("admin", all_events=True),
    "PATCH /v1/topics/{name}": Need("admin", all_events=True),
    "GET /v1/groups/{number}/good": Need("viewer"),
    "POST /v1/destinations/check": Need("admin", all_events=True),
    "GET /v1/types/{name}/first-row": Need("viewer"),
    "POST /v1/types/infer": Need("viewer"),
    # It shows values of newest events, and names tables.
    "POST /v1/previews": Need("admin", all_events=True),
    "POST /v1/audits": Need("operator", all_events=True),
    "GET /v1/audits": Need("viewer", all_events=True),
    "GET /v1/audits/{number}": Need("viewer", all_events=True),
    "POST /v1/audits/{number}/cancel": Need("operator", all_events=True),
    "GET /v1/waiting": Need("viewer"),
    "GET /v1/holds": Need("viewer"),
    "POST /v1/holds/resume": Need("operator"),
    "POST /v1/holds/dead-letter": Need("operator"),
    "GET /v1/databases": Need("viewer"),
    "POST /v1/databases/{name}/resolve": Need("operator", all_events=True),
    "GET /v1/partitions": Need("viewer", all_events=True),
    "POST /v1/partitions/resolve": Need("operator", all_events=True),
    "GET /v1/sources": Need("viewer", all_events=True),
    "GET /v1/sources/{name}/check": Need("operator", all_events=True),
    # It may hold the verifier of the source's password.
    "GET /v1/sources/{name}/sql": Need("admin", all_events=True),
}
#: Routes of the service itself, open without a key.
OPEN: Final = frozenset({"GET /healthz", "GET /readyz"})


def need_of(operation: str) -> Need:
    """Return the rights that an operation (`GET /v1/events`) needs."""
    return NEEDS.get(operation, _UNNAMED)


def caller_of(request: Request) -> Caller:
    """Return the caller."""
    caller: Caller = request.state.caller
    return caller


async def require_once(request: Request) -> None:
    """Raise `UserError` BAD_QUERY for a repeated parameter: two parsers could use different values."""
    names = [name for name, _ in request.query_params.multi_items()]
    if len(set(names)) < len(names):
        raise UserError(BAD_QUERY, "a parameter comes twice")


async def require_right(request: Request) -> None:
    """Raise `UserError` NOT_ALLOWED unless the caller has the rights for this route."""
    asked = f"{request.method} {request.scope['route'].path_format}"
    if asked in OPEN:
        return
    caller, need = caller_of(request), need_of(asked)
    if not caller.may(need.role):
        raise UserError(NOT_ALLOWED, f"the route needs the role {need.role}, and this key has {caller.role}")
    if need.all_events and caller.only is not None:
        raise UserError(NOT_ALLOWED, "the route is about all events, and this key is for some")


#: The caller, as a route's parameter.
Asking = Annotated[Caller, Depends(caller_of)]


def require_own_tables(
    asking: Caller,
    to: str | None,
    parked_for: Sequence[ParkedFor],
    databases: Mapping[str, str],
    registry: Snapshot,
) -> None:
    """Raise `UserError` NOT_ALLOWED unless the tables of a replay hold only the caller's types.

    The tables are `to` (schema.table) in each database that the events were parked for.  Without `to` they
    are the events' own tables, in which edited payloads would land.  The writer checks what a topic may
    address, and does not know the operator.
    """
    if asking.only is None:
        return
    if to is None:
        _require_own_destinations(asking, parked_for, databases, registry)
        return
    schema, _, table = to.partition(".")
    for database in {database_of(each.destination, databases) for each in parked_for} or {""}:
        if not asking.sees(*landing_in(registry, database, schema, table, _default(databases))):
            raise UserError(
                NOT_ALLOWED,
                f"to: this key is for some events, and {to} takes others too, or none: name a table in which "
                "only your event types land, or ask an operator for all events",
            )


def _require_own_destinations(
    asking: Caller, parked_for: Sequence[ParkedFor], databases: Mapping[str, str], registry: Snapshot
) -> None:
    default = _default(databases)
    transforms = {name for each in parked_for if (name := transform_of(each.destination)) is not None}
    for name in sorted(transforms & registry.transforms.keys()):
        if not asking.sees(*registry.transforms[name].to):
            raise UserError(
                NOT_ALLOWED,
                f"this key is for some events, and transform {name} makes others of edited payloads: narrow "
                "the filters, or ask an operator for all events",
            )
    for table in sorted({table for each in parked_for for table in _tables_of(each, databases, registry)}):
        if not asking.sees(*landing_in(registry, *table, default)):
            raise UserError(
                NOT_ALLOWED,
                f"this key is for some events, and edited payloads could land in {'.'.join(table)}, "
                "which takes others too, or which packets name: narrow the filters, or ask an operator for "
                "all events",
            )


def _tables_of(parked: ParkedFor, databases: Mapping[str, str], registry: Snapshot) -> list[_Table]:
    """Return the tables that a replay can write to; patterns for tables that packets may address.

    Events of a database that is not configured are not replayed.
    """
    if not wire.is_refused(parked.destination):
        database = database_of(parked.destination, databases)
        schema, _, table = parked.destination.removeprefix(f"{database}.").partition(".")
        return [(database, schema, table)] if database else []
    name = parked.event_name or ""
    event_type = registry.event_types.get(name)
    routed = [
        (database, each.db_schema or SCHEMA, each.table) if each.table else (database, SCHEMA, name)
        for each in (event_type.database_destinations if event_type else ()) or (Destination(),)
        for database in [_database(each, _default(databases))]
    ]
    granted = [
        (grant.database, grant.db_schema, grant.table)
        for grant in registry.grants
        if fnmatchcase(parked.topic, _topic_of(registry, grant))
    ]
    if parked.destination and not granted:  # a packet's
        granted = [(_default(databases), schema, "*") for schema in OPEN_SCHEMAS]
    return routed + granted


def _topic_of(registry: Snapshot, grant: Grant) -> str:
    """Return the topic of a grant, or its pattern."""
    return grant.topic or registry.topic_of(grant.event_type or "")


def landing_in(registry: Snapshot, database: str, schema: str, table: str, default: str) -> list[str]:
    """Return the event types whose events land in a table, a landing table's own among them.

    A grant that names the table counts with the event types of its topic; without any, with an empty name,
    which no caller for some events sees.  A grant by patterns opens a table to packets and names none.
    """
    own = {table} if schema == SCHEMA else set()
    granted = {
        name
        for grant in registry.grants
        if (grant.db_schema, grant.table) == (schema, table) and fnmatchcase(database, grant.database)
        for name in events_of(registry, _topic_of(registry, grant)) or [""]
    }
    named = {
        name
        for name, event_type in registry.event_types.items()
        if any(_is(each, database, schema, table, default) for each in event_type.database_destinations)
    }
    return sorted(own | named | granted) if own | named else []


def _is(destination: Destination, database: str, schema: str, table: str, default: str) -> bool:
    named = _database(destination, default)
    return (named, destination.db_schema, destination.table) == (database, schema, table)


def _database(destination: Destination, default: str) -> str:
    return destination.vanity or destination.database or default


def _default(databases: Mapping[str, str]) -> str:
    return next(iter(databases), "")
