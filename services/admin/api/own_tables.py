"""Which tables an operator for some events may name: those in which no other events land.

The writer checks what a topic may address, and does not know who asked: whoever names a table writes there.
"""

from collections.abc import Mapping, Sequence

from services.admin.api.operators import Caller
from services.admin.attempts import database_of
from shared.errors import NOT_ALLOWED, UserError
from shared.landing_table import SCHEMA
from shared.registry import Destination, Snapshot


def require_own_table(
    asking: Caller, to: str, destinations: Sequence[str], databases: Mapping[str, str], registry: Snapshot
) -> None:
    """Raise `UserError` NOT_ALLOWED unless `to` (schema.table) takes events of the caller's types alone.

    It must be so in each database that the events are in, by the `destinations` that they were parked for.
    """
    if asking.only is None:
        return
    schema, _, table = to.partition(".")
    for database in {database_of(each, databases) for each in destinations} or {""}:
        if not asking.sees(*landing_in(registry, database, schema, table, next(iter(databases), ""))):
            raise UserError(
                NOT_ALLOWED,
                f"to: this key is for some events, and {to} takes others too, or none: name a table in which "
                "only your event types land, or ask an operator for all events",
            )


def landing_in(registry: Snapshot, database: str, schema: str, table: str, default: str) -> list[str]:
    """Return the event types whose events land in a table, a landing table's own among them."""
    own = {table} if schema == SCHEMA else set()
    named = {
        name
        for name, event_type in registry.event_types.items()
        if any(_is(each, database, schema, table, default) for each in event_type.destinations)
    }
    return sorted(own | named)


def _is(destination: Destination, database: str, schema: str, table: str, default: str) -> bool:
    named = destination.vanity or destination.database or default
    return (named, destination.db_schema, destination.table) == (database, schema, table)
