"""The routes of the admin service: what is asked of them, and which query answers it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, Final, NamedTuple

from fastapi import FastAPI, Query, Response
from fastapi.responses import JSONResponse

from services.admin.api import cursors, views
from services.admin.api.jobs import add_jobs
from services.admin.api.local import LocalOnly
from services.admin.api.problems import answer_with_problems, not_kept
from services.admin.api.queries import EventQuery, GroupChange, GroupQuery, Id, ListQuery, PartQuery
from services.admin.keep.keeper import KeeperStatus
from services.admin.segments.folder import Segments
from services.admin.store import read_sql
from services.admin.store.bytes_sql import load, value
from services.admin.store.control_sql import cursor_key, transaction

_SAMPLES: Final = 10
_MOST_COUNTS: Final = 1_000
_READY: Final = frozenset({"keeping", "standby"})


def api(
    dsn: str,
    databases: Mapping[str, str],
    keeper: KeeperStatus,
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]],
    segments: Segments | None = None,
) -> FastAPI:
    """Return the application."""
    app = FastAPI(title="Onramp admin", docs_url=None, redoc_url=None, lifespan=lifespan)
    app.add_middleware(LocalOnly)
    answer_with_problems(app)
    _add_state(app, keeper)
    _add_groups(app, dsn, segments)
    _add_events(app, dsn, segments)
    _add_parts(app, dsn)
    add_jobs(app, dsn, databases)
    return app


def _add_state(app: FastAPI, keeper: KeeperStatus) -> None:
    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @app.get("/readyz")
    def readyz() -> JSONResponse:
        said = {"keeper": keeper.state, "reason": keeper.reason, "kept": keeper.kept, "behind": keeper.behind}
        return JSONResponse(said, 200 if keeper.state in _READY else 503)


def _add_groups(app: FastAPI, dsn: str, segments: Segments | None) -> None:
    @app.get("/v1/groups")
    def list_groups(query: Annotated[GroupQuery, Query()]) -> dict[str, Any]:
        """Groups of parked events with one cause each, the one that grew last first."""
        return _page(dsn, _GROUPS, query)

    @app.get("/v1/groups/{number}")
    def show_group(number: Id) -> dict[str, Any]:
        """One group, with what ten of its events look like."""
        with transaction(dsn) as conn:
            found = read_sql.group(conn, number)
            if found is None:
                raise not_kept("group")
            last = read_sql.last_of_group(conn, number, _SAMPLES)
            return views.group(found) | {"samples": views.samples(last, load(conn, segments, last))}

    @app.patch("/v1/groups/{number}")
    def change_group(number: Id, change: GroupChange) -> dict[str, Any]:
        """Acknowledge, ignore, resolve or open a group, or give it to somebody."""
        changed = change.model_dump(exclude_unset=True, include={"state", "assignee"})
        with transaction(dsn) as conn:
            if not read_sql.change_group(conn, number, changed):
                raise not_kept("group")
            said = ", ".join(f"{name} {value}" for name, value in changed.items())
            read_sql.record_act(conn, change.actor, f"set {said}", f"group {number}", change.reason)
        return show_group(number)


def _add_events(app: FastAPI, dsn: str, segments: Segments | None) -> None:
    @app.get("/v1/counts")
    def count_events() -> dict[str, Any]:
        """How many events there are of each state, code, event name and destination: the largest counts."""
        with transaction(dsn) as conn:
            return {"counts": [each._asdict() for each in read_sql.counts(conn, _MOST_COUNTS)]}

    @app.get("/v1/events")
    def list_events(query: Annotated[EventQuery, Query()]) -> dict[str, Any]:
        """Parked events without their values, the one that was kept last first."""
        return _page(dsn, _EVENTS, query)

    @app.get("/v1/events/{number}")
    def show_event(number: Id) -> dict[str, Any]:
        """One parked event: its reason, and the shape of its value."""
        with transaction(dsn) as conn:
            found = read_sql.event(conn, number)
            if found is None:
                raise not_kept("event")
            loaded = load(conn, segments, [number])
            return views.event(found, whole=True) | {"shape": views.shape(number, loaded)}

    @app.get("/v1/events/{number}/value", response_class=Response)
    def download(number: Id) -> Response:
        """The event's very bytes."""
        with transaction(dsn) as conn:
            found = value(conn, segments, number)
        if found is None:
            raise not_kept("event with a value")
        named = {"content-disposition": f'attachment; filename="event-{number}"'}
        return Response(found, media_type="application/octet-stream", headers=named)


def _add_parts(app: FastAPI, dsn: str) -> None:
    @app.get("/v1/parts")
    def list_parts(query: Annotated[PartQuery, Query()]) -> dict[str, Any]:
        """What is in segments: events by destination, name, step, code and hour, the newest first."""
        return _page(dsn, _PARTS, query)


class _Listed(NamedTuple):
    """A list: how a page is read, where an entry is in it, and how it is shown."""

    name: str
    read: Callable[..., list[Any]]
    position: Callable[[Any], Sequence[Any]]
    view: Callable[[Any], dict[str, Any]]


_GROUPS: Final = _Listed("groups", read_sql.groups, lambda g: (g.last_seen, g.id), views.group)
_PARTS: Final = _Listed("parts", read_sql.parts, lambda p: (p.id,), views.part)
_EVENTS: Final = _Listed("events", read_sql.events, lambda e: (e.id,), views.event)


def _page(dsn: str, listed: _Listed, query: ListQuery) -> dict[str, Any]:
    """Return one page of a list, and the cursor of the next one if there is one."""
    filters, limit = query.filters(), query.limit
    with transaction(dsn) as conn:
        key = cursor_key(conn)
        after = None if query.cursor is None else cursors.decode(key, listed.name, filters, query.cursor)
        found = listed.read(conn, filters, after, limit + 1)
    page: dict[str, Any] = {listed.name: [listed.view(each) for each in found[:limit]], "next": None}
    if len(found) > limit:
        page["next"] = cursors.encode(key, listed.name, filters, listed.position(found[limit - 1]))
    return page
