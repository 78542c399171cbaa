"""The routes of the registry as a whole: show, replace, and its history."""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Query
from fastapi.responses import JSONResponse, Response

from services.admin.api.queries import KnownIfGiven, StateIfGiven
from services.admin.api.rights import Asking
from services.admin.registry_api.changes import Act, Changes, answered, tagged
from services.admin.registry_api.pages import page
from services.admin.registry_api.schemas import (
    MAX_REGISTRY,
    UNCHANGED,
    HistoryQuery,
    Said,
    body,
    described,
    document_of,
    valid,
)
from services.ops.registry.registry_reader import Change, RegistryReader
from shared.registry import Snapshot
from shared.registry.change_log import NAMED
from shared.registry.merge import with_deployed

#: Sections whose entries have secrets: their hashes are never shown, and remain unless they are sent.
_WITH_HASHES: Final = ("keys", "operators")
_BODY: Final = "Sections as `GET` shows them; each replaces the one in force, and an omitted one remains."


def add_whole(app: FastAPI, dsn: str, desk: RegistryReader) -> None:
    """Add the routes."""
    changes = Changes(dsn, desk)

    @app.get("/v1/registry", responses=UNCHANGED)
    def show_registry(known: KnownIfGiven) -> Response:
        """The registry in force, without hashes of secrets; a change names its ETag."""
        seen = desk.read()
        return tagged(seen, _without_hashes(seen.document), known)

    @app.put("/v1/registry", openapi_extra=described(Snapshot, _BODY), max_body_size=2 * MAX_REGISTRY)
    def put_registry(
        given: Annotated[bytes, Depends(body(MAX_REGISTRY))],
        said: Annotated[Said, Query()],
        state: StateIfGiven,
        asking: Asking,
    ) -> JSONResponse:
        """Replace the sections that are sent, all or none; with `dry_run` only show the differences.

        `If-Match` is the ETag of the state that was read.  A key or operator that is sent without its hashes
        retains them, and a transform without its source retains the deployed one.
        """
        state.require_given()
        document = document_of(given)

        def wanted(before: Snapshot) -> Snapshot:
            return with_deployed(valid(Snapshot, _with_hashes(document, before)), before)

        result, tag = changes.make(asking, Act("change registry", "registry"), said, state, wanted)
        return answered(result, tag)

    @app.get("/v1/registry/history")
    def show_history(query: Annotated[HistoryQuery, Query()], asking: Asking) -> dict[str, Any]:
        """Changes of the registry: actor, time, reason and entries; the newest first."""
        seen = desk.read()

        def behind(after: Any) -> list[int]:
            end = len(seen.counted) if after is None else bisect_left(seen.counted, after)
            return seen.counted[max(end - query.limit - 1, 0) : end][::-1]

        offsets, further = page(dsn, "history", query, asking, behind)
        return {"history": [_view(each) for each in reversed(desk.changes(offsets))], "next": further}


def _view(of: Change) -> dict[str, Any]:
    change = of.change
    put = {
        section: sorted(getattr(change.put, section)) if section in NAMED else True
        for section in sorted(change.put.model_fields_set)
    }
    return {
        "offset": of.offset,
        "actor": change.actor,
        "reason": change.reason,
        "time": change.time.isoformat(),
        "of_file": change.of_file,
        "put": put,
        "delete": {section: sorted(names) for section, names in change.delete.items()},
    }


def _without_hashes(document: Mapping[str, Any]) -> dict[str, Any]:
    shown = dict(document)
    for section in document.keys() & set(_WITH_HASHES):
        shown[section] = {
            name: {field: value for field, value in entry.items() if field != "hashes"}
            for name, entry in document[section].items()
        }
    return shown


def _with_hashes(document: Mapping[str, Any], before: Snapshot) -> dict[str, Any]:
    """Return the sent document, with the hashes in force where none were sent."""
    full = dict(document)
    for section in document.keys() & set(_WITH_HASHES):
        there, entries = getattr(before, section), document[section]
        if not isinstance(entries, dict):
            continue
        full[section] = {
            name: {"hashes": [each.model_dump(exclude_unset=True) for each in there[name].hashes], **entry}
            if isinstance(entry, dict) and name in there
            else entry
            for name, entry in entries.items()
        }
    return full
