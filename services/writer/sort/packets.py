"""Checks a packet's destinations: finds the permitted tables, and the reason why others are rejected.

The check uses no database: it compares names with the configuration and with the topic's grants.  No part
of a message is ever resolved, connected to or repeated in an error.  PERSIST finds out from the database
whether a table exists and which values it accepts.
"""

from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from services.writer.model.routes import is_closed
from services.writer.model.targets import Target
from services.writer.sort.route_lookup import RouteLookup
from shared import envelope
from shared.errors import (
    BAD_DESTINATION,
    FORBIDDEN_DESTINATION,
    UNKNOWN_DATABASE,
    UNSUPPORTED_DESTINATION,
    UserError,
)
from shared.postgres.names import MAX_NAME_BYTES, is_name

SUPPORTED: Final = "postgres"
_LIST: Final = "/pipeline_context/destinations"


class Destination(msgspec.Struct, forbid_unknown_fields=True):
    """One destination.  No field can carry a host, a DSN or an option."""

    type: str
    schema: str
    table: str
    vanity: str | None = None
    database: str | None = None


class _Context(msgspec.Struct):
    """`pipeline_context`; its other members belong to other consumers."""

    destinations: Annotated[list[msgspec.Raw], Meta(min_length=1)]


@dataclass(slots=True)
class Destinations:
    """A packet's tables, each once, and its rejected destinations as (JSON Pointer, error)."""

    targets: list[Target] = field(default_factory=list)
    rejected: list[tuple[str, UserError]] = field(default_factory=list)
    #: The JSON Pointers of the first mention of each of `targets`.
    pointers: list[str] = field(default_factory=list)


def destinations(context: bytes, topic: str, routing: RouteLookup) -> Destinations:
    """Resolve the destinations of a packet on `topic` with this `pipeline_context`.

    A list that cannot be parsed is rejected as a whole, under the pointer "".  A table that
    is named twice is one destination.
    """
    out = Destinations()
    try:
        named = _named(context, routing)
    except UserError as e:
        pointer = e.pointer if e.pointer.startswith(_LIST) else f"/pipeline_context{e.pointer}"
        out.rejected.append(("", UserError(BAD_DESTINATION, e.detail, pointer)))
        return out
    for i, raw in enumerate(named):
        try:
            target = _target(raw, topic, routing)
        except UserError as e:
            pointer = f"{_LIST}/{i}"
            out.rejected.append((pointer, UserError(e.fault, e.detail, pointer + e.pointer)))
        else:
            if target not in out.targets:
                out.targets.append(target)
                out.pointers.append(f"{_LIST}/{i}")
    return out


def _named(context: bytes, routing: RouteLookup) -> list[msgspec.Raw]:
    named = envelope.decode(context, _Context).destinations
    limit = routing.max_destinations
    if len(named) > limit:
        raise UserError(BAD_DESTINATION, f"{len(named)} destinations, at most {limit} are allowed", _LIST)
    return named


def _target(raw: msgspec.Raw, topic: str, routing: RouteLookup) -> Target:
    try:
        destination = envelope.decode(raw, Destination)
    except UserError as e:
        raise UserError(BAD_DESTINATION, e.detail, e.pointer) from None
    if destination.type != SUPPORTED:
        raise UserError(UNSUPPORTED_DESTINATION, f"the only supported type is {SUPPORTED}", "/type")
    for name in ("schema", "table"):
        _check_name(getattr(destination, name), f"/{name}")
    database = _database(destination, routing)
    if is_closed(destination.schema):
        raise UserError(FORBIDDEN_DESTINATION, "no message may write to this schema", "/schema")
    configured = routing.database(database)
    if configured is None or destination.schema not in configured.schemas:
        raise UserError(FORBIDDEN_DESTINATION, f"database {database} opens no such schema", "/schema")
    target = routing.typed(database, destination.schema, destination.table)
    if not routing.allows(topic, target):
        raise UserError(
            FORBIDDEN_DESTINATION, f"topic {topic} has no grant for this table of database {database}"
        )
    return target


def _database(destination: Destination, routing: RouteLookup) -> str:
    """Return the vanity of the configured database: `vanity` selects, else `database`; both must agree."""
    by_vanity = destination.vanity is not None
    name, pointer = (destination.vanity, "/vanity") if by_vanity else (destination.database, "/database")
    configured = None if name is None else routing.database(name)
    if configured is None:
        raise UserError(UNKNOWN_DATABASE, "this is not the name of a configured database", pointer)
    if destination.database not in (None, configured.name, configured.dbname or configured.name):
        raise UserError(
            UNKNOWN_DATABASE, f"this is not the database that {configured.name} stands for", "/database"
        )
    return configured.name


def _check_name(name: str, pointer: str) -> None:
    """Reject a name that Postgres would truncate or misread; the catalog decides whether others exist."""
    if not is_name(name):
        raise UserError(
            BAD_DESTINATION, f"a name has 1 to {MAX_NAME_BYTES} bytes and no NUL character", pointer
        )
