"""One registry as a plan's tasks need it: the gateway's checks, the routes, and the added columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import orjson

from services.writer.driver.routes_from_registry import routes_of
from services.writer.model.routes import Routes
from services.writer.postgres.database import Database
from shared.contracts.tables import FieldColumn
from shared.registry.entries import Snapshot


class TableName(NamedTuple):
    """A table of a configured database."""

    database: str
    schema: str
    table: str

    def __str__(self) -> str:
        return ".".join(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRules:
    """The gateway's checks of an event type: its JSON Schema as JSON, and the maximum bytes of an event."""

    schema: bytes | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The old rules, or the new ones."""

    routes: Routes
    types: Mapping[str, TypeRules] = field(default_factory=dict)
    refuses_unknown: bool = False
    #: Columns that `onramp apply` would add to tables before these rules are in force, one per field.
    adds: Mapping[TableName, tuple[FieldColumn, ...]] = field(default_factory=dict)


UNREGISTERED: Final = TypeRules()


def rules_of(
    snapshot: Snapshot,
    databases: Sequence[Database],
    adds: Mapping[TableName, tuple[FieldColumn, ...]] | None = None,
) -> Rules:
    """Return the rules of `snapshot`; the first of `databases` is the default one."""
    types = {
        name: TypeRules(
            schema=None if each.json_schema is None else orjson.dumps(each.checked_schema),
            max_bytes=each.max_bytes,
        )
        for name, each in snapshot.event_types.items()
    }
    return Rules(
        routes=routes_of(snapshot, databases),
        types=types,
        refuses_unknown=snapshot.unknown_names == "refuse",
        adds=adds or {},
    )
