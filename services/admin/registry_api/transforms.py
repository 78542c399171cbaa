"""The routes of transforms: deploys and rollbacks change the registry, a pause or its end changes a state."""

import asyncio
import threading
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from services.admin.api.operators import Caller
from services.admin.api.problems import RefusalError
from services.admin.api.queries import State, StateIfGiven
from services.admin.api.rights import Asking
from services.admin.registry_api.changes import Act, Changes, answered, require_there, tagged
from services.admin.registry_api.schemas import Said, body, described, document_of, valid
from services.admin.store.control_sql import transaction
from services.admin.store.read_sql import record_act
from services.ops.registry.registry_reader import Change, RegistryReader
from services.ops.transforms.deploys import Version, version_before, versions_in, with_source
from services.ops.transforms.kafka_states import set_state
from services.ops.transforms.overview import overview
from services.ops.transforms.reader import NO_FACTS, TransformReader
from services.ops.transforms.source_difference import with_differences
from shared import wire
from shared.errors import TRANSFORM_CHANGED, UserError
from shared.registry import Snapshot
from shared.registry.transforms import MAX_SOURCE_BYTES
from shared.transform_state import INITIAL, PAUSED, RUNNING, TransformState

TransformName = Annotated[
    str, Path(pattern=f"^{wire.EVENT_NAME.pattern}$", description="A transform's name.")
]


class NewVersion(BaseModel):
    """A version of a function."""

    model_config = ConfigDict(extra="forbid")

    source: Annotated[str, Field(max_length=MAX_SOURCE_BYTES)]


class RollbackSaid(Said):
    """A rollback: also the version."""

    to: Annotated[
        str | None,
        Field(pattern="^[0-9a-f]{4,64}$", description="Beginning of a digest; by default the one before."),
    ] = None


class TransformVersions:
    """The versions of transforms, which are read from the registry's log once for each of its states.

    Pages are polled, and the log has all changes since the first one.
    """

    def __init__(self, desk: RegistryReader) -> None:
        self._desk = desk
        self._lock = threading.Lock()
        self._tag = ""
        self._changes: list[Change] = []

    def of(self, name: str) -> list[Version]:
        """Return the versions of a transform, the oldest first.  Raises `InfrastructureError`."""
        seen = self._desk.read()
        with self._lock:
            if self._tag != seen.tag:
                found = self._desk.changes(seen.counted)
                self._changes = [each for each in found if each.change.put.transforms]
                self._tag = seen.tag
            return versions_in(self._changes, name)


def add_transforms(app: FastAPI, dsn: str, desk: RegistryReader, reader: TransformReader) -> None:
    """Add the routes."""
    changes, versions = Changes(dsn, desk), TransformVersions(desk)

    @app.get("/v1/transforms")
    def list_transforms() -> Response:
        """The transforms with their version, state, lag and outcomes."""
        seen = desk.read()  # never 304: states and totals change, and the registry stays the same
        facts = reader.read() if seen.snapshot.transforms else NO_FACTS
        return tagged(seen, {"transforms": overview(seen.snapshot, facts)})

    @app.get("/v1/transforms/{name}")
    def show_transform(name: TransformName) -> Response:
        """One transform with its partitions, deployed source and versions; a change names its ETag."""
        seen = desk.read()
        require_there(name in seen.snapshot.transforms, "transform")
        only = Snapshot(transforms={name: seen.snapshot.transforms[name]})
        (view,) = overview(only, reader.read())
        view["source"] = seen.snapshot.transforms[name].source
        view["versions"] = [each.as_dict() for each in versions.of(name)]
        return tagged(seen, view)

    @app.get("/v1/transforms/{name}/versions")
    def show_transform_versions(name: TransformName) -> Response:
        """The versions of a function, the newest first, each with its difference to the one before.

        The ETag is for a rollback.
        """
        seen = desk.read()
        require_there(name in seen.snapshot.transforms, "transform")
        return tagged(seen, {"versions": with_differences(versions.of(name))})

    @app.post(
        "/v1/transforms/{name}/deploy",
        openapi_extra=described(NewVersion),
        max_body_size=8 * MAX_SOURCE_BYTES,
    )
    def deploy_transform(
        name: TransformName,
        given: Annotated[bytes, Depends(body(4 * MAX_SOURCE_BYTES))],
        said: Annotated[Said, Query()],
        state: StateIfGiven,
        asking: Asking,
    ) -> JSONResponse:
        """Bring a function into force; its tests and rehearsal are `onramp transforms deploy`'s."""
        state.require_given()
        source = valid(NewVersion, document_of(given)).source

        def wanted(before: Snapshot) -> Snapshot:
            require_there(name in before.transforms, "transform")
            return with_source(before, name, source)

        act = Act("deploy transform", f"transform {name}")
        return answered(*changes.make(asking, act, said, state, wanted))

    @app.post("/v1/transforms/{name}/rollback")
    def roll_back_transform(
        name: TransformName, said: Annotated[RollbackSaid, Query()], state: StateIfGiven, asking: Asking
    ) -> JSONResponse:
        """Bring an earlier version into force again."""
        state.require_given()
        known = versions.of(name)

        def wanted(before: Snapshot) -> Snapshot:
            require_there(name in before.transforms, "transform")
            version = version_before(known, before.transforms[name].digest, said.to)
            return with_source(before, name, version.source)

        act = Act("roll back transform", f"transform {name}")
        return answered(*changes.make(asking, act, said, state, wanted))

    _add_states(app, dsn, desk, reader)


def _add_states(app: FastAPI, dsn: str, desk: RegistryReader, reader: TransformReader) -> None:
    """Add the routes that pause and resume."""

    def set_to(name: str, state: str, said: Said, given: State, asking: Caller) -> dict[str, Any]:
        """Write the state with its entry in the audit log, or try whether it can be written."""
        require_there(name in desk.read().snapshot.transforms, "transform")
        _require_current(given, reader.read().states.get(name, INITIAL))
        actor, act = asking.acting(said.actor), "pause" if state == PAUSED else "resume"
        with transaction(dsn) as conn:
            record_act(conn, actor, f"{act} transform", f"transform {name}", said.reason)
            if said.dry_run:
                conn.rollback()
            else:
                accept = said.accept and state == RUNNING
                asyncio.run(set_state(desk.kafka.brokers, name, state, said.reason, by=actor, accept=accept))
        return {"name": name, "state": state, "dry_run": said.dry_run}

    @app.post("/v1/transforms/{name}/pause")
    def pause_transform(
        name: TransformName, said: Annotated[Said, Query()], state: StateIfGiven, asking: Asking
    ) -> dict[str, Any]:
        """Pause a transform: its events stay on Kafka.  If-Match: its `state_tag`."""
        return set_to(name, PAUSED, said, state, asking)

    @app.post("/v1/transforms/{name}/resume")
    def resume_transform(
        name: TransformName, said: Annotated[Said, Query()], state: StateIfGiven, asking: Asking
    ) -> dict[str, Any]:
        """Resume a transform; `accept`: a position outside of the log moves to its nearest end.

        If-Match: its `state_tag`.
        """
        return set_to(name, RUNNING, said, state, asking)


def _require_current(given: State, current: TransformState) -> None:
    """Raise `UserError` TRANSFORM_CHANGED with the author and the time of the present state."""
    try:
        given.require(current.tag, TRANSFORM_CHANGED)
    except UserError as e:
        by = current.by or "onramp"
        detail = f"{e.detail}; it is {current.state} by {by} at {current.at}: {current.reason}"
        raise RefusalError(TRANSFORM_CHANGED, detail, changed_by=current.by, changed_at=current.at) from None
