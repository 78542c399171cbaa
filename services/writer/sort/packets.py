"""A packet's destinations: which tables it may land in, and why not in the others.

What is decided here needs no database: names are compared with the configuration and with
the topic's grants, and nothing that a message says is ever resolved, connected to or
repeated in an error.  That a table exists, and what it takes, is the database's word.
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

SUPPORTED: Final = "postgres"
_LIST: Final = "/pipeline_context/destinations"
#: Postgres cuts longer names, and another table could have the shorter one.
_LONGEST_NAME_BYTES: Final = 63


class Destination(msgspec.Struct, forbid_unknown_fields=True):
    """One destination.  No field of it can carry a host, a DSN or an option."""

    type: str
    schema: str
    table: str
    vanity: str | None = None
    database: str | None = None


class _Context(msgspec.Struct):
    """`pipeline_context`; what else it holds is other consumers' matter."""

    destinations: Annotated[list[msgspec.Raw], Meta(min_length=1)]


@dataclass(slots=True)
class Destinations:
    """Where a packet goes, each table once, and which of its destinations are refused, by their pointer."""

    targets: list[Target] = field(default_factory=list)
    refused: list[tuple[str, UserError]] = field(default_factory=list)


def destinations(context: bytes, topic: str, routing: RouteLookup) -> Destinations:
    """Where a packet on `topic` with this `pipeline_context` goes.

    A list that cannot be read is refused as a whole, under the pointer "".  A table that
    is named twice is one destination.
    """
    found = Destinations()
    try:
        named = _named(context, routing)
    except UserError as e:
        pointer = e.pointer if e.pointer.startswith(_LIST) else f"/pipeline_context{e.pointer}"
        found.refused.append(("", UserError(BAD_DESTINATION, e.detail, pointer)))
        return found
    for i, raw in enumerate(named):
        try:
            target = _target(raw, topic, routing)
        except UserError as e:
            pointer = f"{_LIST}/{i}"
            found.refused.append((pointer, UserError(e.fault, e.detail, pointer + e.pointer)))
        else:
            if target not in found.targets:
                found.targets.append(target)
    return found


def _named(context: bytes, routing: RouteLookup) -> list[msgspec.Raw]:
    named = envelope.decode(context, _Context).destinations
    most = routing.max_destinations
    if len(named) > most:
        raise UserError(BAD_DESTINATION, f"{len(named)} destinations, at most {most} are allowed", _LIST)
    return named


def _target(raw: msgspec.Raw, topic: str, routing: RouteLookup) -> Target:
    try:
        wanted = envelope.decode(raw, Destination)
    except UserError as e:
        raise UserError(BAD_DESTINATION, e.detail, e.pointer) from None
    if wanted.type != SUPPORTED:
        raise UserError(UNSUPPORTED_DESTINATION, f"the only supported type is {SUPPORTED}", "/type")
    for name in ("schema", "table"):
        _check_name(getattr(wanted, name), f"/{name}")
    database = _database(wanted, routing)
    if is_closed(wanted.schema):
        raise UserError(FORBIDDEN_DESTINATION, "no message may write to this schema", "/schema")
    place = routing.place(database)
    if place is None or wanted.schema not in place.schemas:
        raise UserError(FORBIDDEN_DESTINATION, f"database {database} opens no such schema", "/schema")
    target = routing.typed(database, wanted.schema, wanted.table)
    if not routing.allows(topic, target):
        raise UserError(
            FORBIDDEN_DESTINATION, f"topic {topic} has no grant for this table of database {database}"
        )
    return target


def _database(wanted: Destination, routing: RouteLookup) -> str:
    """The configured database that `wanted` selects: by vanity, else by `database`; both must agree."""
    name, where = (wanted.vanity, "/vanity") if wanted.vanity is not None else (wanted.database, "/database")
    place = None if name is None else routing.place(name)
    if place is None:
        raise UserError(UNKNOWN_DATABASE, "this is not the name of a configured database", where)
    if wanted.database not in (None, place.name, place.dbname or place.name):
        raise UserError(
            UNKNOWN_DATABASE, f"this is not the database that {place.name} stands for", "/database"
        )
    return place.name


def _check_name(name: str, pointer: str) -> None:
    """Refuse what Postgres would cut or read otherwise; all other names are compared with its catalogue."""
    if not name or "\0" in name or len(name.encode()) > _LONGEST_NAME_BYTES:
        raise UserError(
            BAD_DESTINATION, f"a name has 1 to {_LONGEST_NAME_BYTES} bytes and no NUL character", pointer
        )
