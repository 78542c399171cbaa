"""Drafts of event types: the columns that are typed, as the event type that they make.

The web page has a step for each part; this module has no page, so that the type is made in one place.
"""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from services.admin.api.rights import Asking, landing_in
from services.admin.registry_api.changes import require_there
from services.admin.registry_api.schemas import TypeName, valid
from services.ops.operate.first_row_sql import first_row
from services.ops.registry.checks import preflight, tables_of
from services.ops.registry.registry_reader import RegistryReader
from shared import wire
from shared.mask import masked
from shared.registry import EventType, Snapshot

#: The schema of a field by the type of its column.
TYPES: Final[Mapping[str, dict[str, Any]]] = {
    "text": {"type": "string"},
    "bigint": {"type": "integer"},
    "numeric": {"type": "number"},
    "boolean": {"type": "boolean"},
    "timestamptz": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "uuid": {"type": "string", "format": "uuid"},
    "jsonb": {},
}
#: A value of each type, for a first event.
SAMPLES: Final[Mapping[str, Any]] = {
    "text": "text",
    "bigint": 1,
    "numeric": 12.5,
    "boolean": True,
    "timestamptz": "2026-01-02T03:04:05Z",
    "date": "2026-01-02",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "jsonb": {},
}
#: The gateway answers 422 to an event that the columns would refuse, or the table parks it.
REJECT, PARK = "reject", "park"


def event_type_of(draft: Mapping[str, Any], *, is_checked: bool) -> dict[str, Any]:
    """Return the event type of a draft as in `onramp.yaml`.

    Its table is created from the schema.  Without `is_checked` the type has no schema, and its table exists.
    """
    columns = draft["columns"]
    destination = {"database": draft["database"], "schema": draft["schema"], "table": draft["table"]}
    event_type: dict[str, Any] = {"owner": draft["owner"]}
    if draft.get("key"):
        event_type["key"] = pointer_of(draft["key"])
    if personal := [pointer_of(each["name"]) for each in columns if each["personal"]]:
        event_type["personal"] = personal
    if is_checked:
        event_type["schema"] = schema_of(draft)
        destination["create"] = True
    return event_type | {"destinations": [destination]}


def schema_of(draft: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a draft: inferred parts remain where the column has its inferred type."""
    inferred = draft.get("inferred", {})
    fields = {}
    for each in draft["columns"]:
        known = inferred.get(each["name"])
        is_same = known is not None and known["type"] == each["type"]
        fields[each["name"]] = known["schema"] if is_same else TYPES[each["type"]]
    required = [each["name"] for each in draft["columns"] if each["required"]]
    return {"type": "object", **({"required": required} if required else {}), "properties": fields}


def pointer_of(name: str) -> str:
    """Return the JSON Pointer to a field of the payload."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


class PreflightRequest(BaseModel):
    """An event type as under its name in `onramp.yaml`."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=f"^{wire.EVENT_NAME.pattern}$")
    event_type: dict[str, Any]


def add_preflight(app: FastAPI, desk: RegistryReader) -> None:
    """Add the routes."""

    @app.post("/v1/destinations/check")
    def check_new(asked: PreflightRequest) -> dict[str, Any]:
        """Each fact that must hold to create the tables of an event type, with the SQL that fixes it."""
        event_type = valid(EventType, asked.event_type)
        facts = preflight(desk.places, asked.name, event_type)
        return {
            "holds": all(fact.holds for _, fact in facts),
            "facts": [place._asdict() | fact._asdict() for place, fact in facts],
        }

    @app.get("/v1/types/{name}/first-row")
    def show_first_row(name: TypeName, asking: Asking) -> dict[str, Any]:
        """A row of the type's first table as the shapes of its values, to see that events land.

        A caller for some events gets no row of a table that takes other types too.
        """
        snapshot = desk.read().snapshot
        require_there(asking.sees(name) and name in snapshot.event_types, "event type")
        only = Snapshot(event_types={name: snapshot.event_types[name]})
        table = next(iter(tables_of(desk.places, only)), None)
        if table is None or table[0].database not in desk.places.databases:
            return {"table": None, "row": None}
        place = table[0]
        default = next(iter(desk.places.databases))
        if not asking.sees(*landing_in(snapshot, place.database, place.schema, place.table, default)):
            return {"table": None, "row": None}
        dsn = desk.places.databases[place.database]
        row = first_row(place.database, dsn, place.schema, place.table)
        personal = snapshot.personal_of(name)
        document = None if row is None else b'{"payload":' + row.encode() + b"}"
        shown = None if document is None else masked(document, personal)["payload"]
        return {"table": f"{place.database}.{place.schema}.{place.table}", "row": shown}
