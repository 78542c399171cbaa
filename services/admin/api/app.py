"""The routes of the admin service: their parameters, and the query that answers each."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.types import ASGIApp

from services.admin.api import views
from services.admin.api.audits import add_audits
from services.admin.api.edits import add_edits
from services.admin.api.entry import Entry, TooLarge
from services.admin.api.groups import Groups, add_groups
from services.admin.api.jobs import add_jobs
from services.admin.api.lists import ACTS, EVENTS, PARTS, page
from services.admin.api.metrics import AdminMetrics
from services.admin.api.openapi import describe
from services.admin.api.operators import LOCAL, Operators
from services.admin.api.problems import answer_with_problems, not_stored
from services.admin.api.queries import (
    ActQuery,
    EventQuery,
    Id,
    PartQuery,
    Reveal,
)
from services.admin.api.recheck import add_recheck
from services.admin.api.rights import Asking, caller_of, require_once, require_right
from services.admin.api.turns import Turns
from services.admin.dead_letters.ingester import IngesterStatus
from services.admin.segments.folder import Segments
from services.admin.store import group_marks_sql, read_sql
from services.admin.store.bytes_sql import shown, value
from services.admin.store.control_sql import transaction
from shared.errors import REGISTRY_UNREAD

_MAX_COUNTS: Final = 1_000
#: Maximum bytes of a body, which is in memory before rights are checked; routes that accept more say so.
_MAX_BODY: Final = 1 << 20
#: Maximum length of a logged path; an index of Postgres accepts texts of up to 2,704 bytes.
_LONGEST_PATH: Final = 500
_READY: Final = frozenset({"active", "standby"})


def api(
    dsn: str,
    databases: Mapping[str, str],
    ingester: IngesterStatus,
    operators: Operators,
    *,
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]],
    segments: Segments | None = None,
    metrics: AdminMetrics | None = None,
) -> FastAPI:
    """Return the application."""
    app = _Application(
        title="Onramp admin",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        dependencies=[Depends(require_right), Depends(require_once)],
        max_body_size=_MAX_BODY,
    )
    app.state.turns = Turns()
    app.state.dsn = dsn
    app.add_middleware(Entry, operators=operators, turns=app.state.turns)
    answer_with_problems(app, lambda request: record_refusal(dsn, request))
    _add_state(app, ingester, operators, metrics or AdminMetrics())
    add_groups(app, Groups(dsn, segments, operators.personal))
    _add_events(app, dsn, segments, operators.personal)
    _add_parts(app, dsn)
    _add_acts(app, dsn)
    add_jobs(app, dsn, databases, operators.registry)
    add_recheck(app, dsn, databases)
    add_edits(app, dsn, segments)
    add_audits(app, dsn)
    describe(app)
    return app


class _Application(FastAPI):
    """The body limit wraps every handler and middleware that is added."""

    def build_middleware_stack(self) -> ASGIApp:
        """Return the application wrapped by the body limit."""
        return TooLarge(super().build_middleware_stack())


def _add_state(app: FastAPI, ingester: IngesterStatus, operators: Operators, metrics: AdminMetrics) -> None:
    @app.get("/metrics")
    async def show_metrics() -> Response:
        """Prometheus metrics of the ingester and of this process."""
        return Response(metrics.page(ingester), media_type=CONTENT_TYPE_LATEST)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @app.get("/readyz")
    async def readyz(asking: Asking) -> JSONResponse:
        """Whether the ingester works; counts are shown to callers who see all events."""
        said: dict[str, Any] = {"ingester": ingester.state}
        if asking.only is None:
            said |= {"reason": ingester.reason, "stored": ingester.stored, "behind": ingester.behind}
        if not operators.is_known:
            return JSONResponse(said | {"registry": REGISTRY_UNREAD.code}, 503)
        return JSONResponse(said, 200 if ingester.state in _READY else 503)


def _add_events(app: FastAPI, dsn: str, segments: Segments | None, personal: views.Personal) -> None:
    @app.get("/v1/counts")
    def count_events(asking: Asking) -> dict[str, Any]:
        """The largest counts of events by state, code, event name and destination."""
        with transaction(dsn) as conn:
            return {"counts": [each._asdict() for each in read_sql.counts(conn, _MAX_COUNTS, asking.only)]}

    @app.get("/v1/events")
    def list_events(query: Annotated[EventQuery, Query()], asking: Asking) -> dict[str, Any]:
        """Parked events without their values, the newest first."""
        return page(dsn, EVENTS, query, asking)

    @app.get("/v1/events/{number}")
    def show_event(number: Id, asking: Asking) -> dict[str, Any]:
        """One parked event: its reason, and the shape of its value."""
        with transaction(dsn) as conn:
            found = read_sql.event(conn, number, asking.only)
            if found is None:
                raise not_stored("event")
        loaded = shown(dsn, segments, [number])
        shape = views.shape(number, loaded, personal(found.event_name))
        return views.event(found, whole=True) | {"shape": shape}

    @app.post("/v1/events/{number}/reveal", response_class=Response)
    def reveal(number: Id, wanted: Reveal, asking: Asking) -> Response:
        """The event's bytes; the audit log first records who reads them and why."""
        actor = asking.acting(wanted.actor)
        with transaction(dsn) as conn:
            if read_sql.event(conn, number, asking.only) is None:
                raise not_stored("event")
        found = value(dsn, segments, number)
        if found is None:
            raise not_stored("event with a value")
        with transaction(dsn) as conn:
            read_sql.record_act(conn, actor, "reveal", f"event {number}", wanted.reason)
        named = {"content-disposition": f'attachment; filename="event-{number}"'}
        return Response(found, media_type="application/octet-stream", headers=named)


def _add_parts(app: FastAPI, dsn: str) -> None:
    @app.get("/v1/segments")
    def list_parts(query: Annotated[PartQuery, Query()], asking: Asking) -> dict[str, Any]:
        """The contents of segments: events by destination, name, step, code and hour, the newest first."""
        return page(dsn, PARTS, query, asking)


def _add_acts(app: FastAPI, dsn: str) -> None:
    @app.get("/v1/audit-log")
    def list_acts(query: Annotated[ActQuery, Query()], asking: Asking) -> dict[str, Any]:
        """The audit log: operators' actions and refusals with time and reason, the newest first."""
        return page(dsn, ACTS, query, asking)


def record_refusal(dsn: str, request: Request) -> None:
    """Record in the audit log that an operator was refused something, or did not find it."""
    caller = caller_of(request)
    if caller is not LOCAL and caller.name:
        with transaction(dsn) as conn:
            group_marks_sql.record_refusal(
                conn, caller.name, f"{request.method} {_printable(request.url.path)}"
            )


def _printable(path: str) -> str:
    """Return a path without NUL, cut to the length that a Postgres index accepts."""
    return "".join(c if c.isprintable() else "?" for c in path[:_LONGEST_PATH])
