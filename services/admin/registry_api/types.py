"""The routes of event types, one by one: each change of one is a change of the whole registry."""

import threading
from bisect import bisect_right
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Query
from fastapi.responses import JSONResponse, Response

from services.admin.api.queries import KnownIfGiven, StateIfGiven
from services.admin.api.rights import Asking
from services.admin.registry_api.changes import Act, Changes, answered, require_there, tagged
from services.admin.registry_api.pages import page
from services.admin.registry_api.schemas import (
    MAX_TYPE,
    UNCHANGED,
    DeleteSaid,
    Said,
    TypeName,
    TypeQuery,
    body,
    described,
    document_of,
    valid,
)
from services.admin.store import sets_sql
from services.admin.store.control_sql import transaction
from services.ops.registry.registry_reader import Change, RegistryReader
from services.ops.registry.type_versions import Version, versions_of
from shared import wire
from shared.errors import TYPE_HAS_PARKED, UserError
from shared.registry import EventType, Snapshot
from shared.registry.change_log import written

_BODY = "The event type, as under its name in `onramp.yaml`."

#: Changes of the registry that are searched for those of one type.
_MAX_CHANGES: Final = 1_000


def add_types(app: FastAPI, dsn: str, desk: RegistryReader) -> None:
    """Add the routes."""
    changes = Changes(dsn, desk)

    @app.get("/v1/types", responses=UNCHANGED)
    def list_types(query: Annotated[TypeQuery, Query()], asking: Asking, known: KnownIfGiven) -> Response:
        """The event types that its reader sees, by name."""
        seen = desk.read()
        names = sorted(name for name in seen.snapshot.event_types if asking.sees(name))

        def behind(after: Any) -> list[str]:
            return names if after is None else names[bisect_right(names, after) :]

        shown, further = page(dsn, "types", query, asking, behind)
        types = [_line(name, seen.snapshot.event_types[name]) for name in shown]
        return tagged(seen, {"types": types, "next": further}, known, asking.only)

    @app.get("/v1/types/{name}", responses=UNCHANGED)
    def show_type(name: TypeName, asking: Asking, known: KnownIfGiven) -> Response:
        """One event type as it was written; a change names its ETag."""
        seen = desk.read()
        require_there(asking.sees(name) and name in seen.snapshot.event_types, "event type")
        return tagged(seen, written(seen.snapshot.event_types[name]), known)

    versions = TypeVersions(desk)

    @app.get("/v1/types/{name}/versions")
    def show_versions(name: TypeName) -> dict[str, Any]:
        """The versions of an event type among the last 1,000 changes, the newest first, with differences.

        `differences` of the oldest one is null if the version before it is not among these changes.
        """
        return {"versions": [each.as_dict() for each in versions.of(name)]}

    @app.put("/v1/types/{name}", openapi_extra=described(EventType, _BODY), max_body_size=2 * MAX_TYPE)
    def put_type(
        name: TypeName,
        given: Annotated[bytes, Depends(body(MAX_TYPE))],
        said: Annotated[Said, Query()],
        state: StateIfGiven,
        asking: Asking,
    ) -> JSONResponse:
        """Create or replace an event type; its tables with `create: true` are created first.

        A schema that rejects previously valid events is refused; undecided findings pass with `accept`.
        """
        state.require_given()
        event_type = valid(EventType, document_of(given))

        def wanted(before: Snapshot) -> Snapshot:
            return Snapshot(event_types={**before.event_types, name: event_type})

        result, tag = changes.make(asking, Act("put type", f"event type {name}"), said, state, wanted)
        return answered(result, tag)

    @app.delete("/v1/types/{name}")
    def delete_type(
        name: TypeName, said: Annotated[DeleteSaid, Query()], state: StateIfGiven, asking: Asking
    ) -> JSONResponse:
        """Delete an event type; its topic and tables remain.

        Refused while events of it are parked and open, unless `parked=keep` is given.
        """
        state.require_given()
        if said.parked is None:
            with transaction(dsn) as conn:
                _require_none_parked(name, sets_sql.open_events(conn, name))

        def wanted(before: Snapshot) -> Snapshot:
            require_there(name in before.event_types, "event type")
            return Snapshot(event_types={n: each for n, each in before.event_types.items() if n != name})

        result, tag = changes.make(asking, Act("delete type", f"event type {name}"), said, state, wanted)
        return answered(result, tag)


class TypeVersions:
    """The versions of types, which are read from the registry's log once for each of its states."""

    def __init__(self, desk: RegistryReader) -> None:
        self._desk = desk
        self._lock = threading.Lock()
        self._tag = ""
        self._changes: list[Change] = []
        self._is_whole = True
        self._versions: dict[str, list[Version]] = {}

    def of(self, name: str) -> list[Version]:
        """Return the versions of a type.  Raises `InfrastructureError`."""
        seen = self._desk.read()
        with self._lock:
            if self._tag != seen.tag:
                self._changes = self._desk.changes(seen.counted[-_MAX_CHANGES:])
                self._is_whole = len(seen.counted) <= _MAX_CHANGES
                self._versions, self._tag = {}, seen.tag
            found = self._versions.get(name)
            if found is None:
                found = self._versions[name] = versions_of(name, self._changes, is_whole=self._is_whole)
            require_there(bool(found) or name in seen.snapshot.event_types, "event type")
            return found


def _require_none_parked(name: str, events: int) -> None:
    if events:
        raise UserError(TYPE_HAS_PARKED, f"{events:,} events of {name} are parked and open")


def _line(name: str, event_type: EventType) -> dict[str, Any]:
    return {
        "name": name,
        "owner": event_type.owner,
        "description": event_type.description,
        "topic": event_type.topic or wire.topic_of(name),
        "has_schema": event_type.json_schema is not None,
        "tables": sum(bool(each.table) for each in event_type.database_destinations),
    }
