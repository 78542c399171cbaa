"""The gateway's routes other than `POST /v1/events`: health, readiness, metrics, error pages, OpenAPI."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from services.ingest.http import problems
from services.ingest.http.drain import Drain
from services.ingest.http.endpoint import new_request_id
from services.ingest.http.openapi import describe_events
from services.ingest.observe import figures
from services.ingest.observe.page import exposition
from services.ingest.sink import Sink
from shared.errors import BAD_REQUEST, METHOD_NOT_ALLOWED, NOT_FOUND, REGISTRY_UNREAD, TABLE, UserError
from shared.registry import Registry

_FAULTS = {404: NOT_FOUND, 405: METHOD_NOT_ALLOWED}


def routes(
    sink: Sink,
    registry: Registry,
    retry_after: int,
    *,
    lifespan: Callable[[FastAPI], Any],
    drain: Drain,
    new_counter_seconds: float = 0.0,
) -> FastAPI:
    """Return the FastAPI application with every route but `POST /v1/events`."""
    app = FastAPI(
        title="Onramp gateway",
        version="1",
        summary="POST an event; the answer is sent when the event is on Kafka.",
        lifespan=lifespan,
    )
    _add_health(app, sink, registry, retry_after, drain=drain)
    _add_metrics(app, new_counter_seconds)
    _add_errors(app, retry_after)
    describe_events(app)
    return app


def _add_health(app: FastAPI, sink: Sink, registry: Registry, retry_after: int, *, drain: Drain) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthz() -> dict[str, str]:
        """Return whether this process answers; says nothing of Kafka."""
        return {"status": "ok"}

    unready = "Kafka cannot be reached, the registry is unread, or the gateway is about to stop."

    @app.get("/readyz", tags=["health"], responses={503: {"description": unready}})
    async def readyz() -> Response:
        """Return whether events can be accepted now, and the replicas that acknowledge each of them."""
        health = await sink.health()
        ready = health.ready and registry.is_read
        body = {
            "status": "leaving" if drain.started else "ready" if ready else "unready",
            "kafka": {
                "reachable": health.reachable,
                "brokers": health.brokers,
                "min_insync_replicas": health.min_insync_replicas,
            },
            "registry": "read" if registry.is_read else REGISTRY_UNREAD.code,
        }
        if ready and not drain.started:
            return JSONResponse(body)
        name, value = problems.retry_after_header(retry_after)
        return JSONResponse(body, 503, {name.decode(): value.decode()})


def _add_metrics(app: FastAPI, new_counter_seconds: float) -> None:
    @app.get("/metrics", tags=["health"], response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Prometheus metrics of all workers."""
        return Response(exposition(new_counter_seconds), media_type=CONTENT_TYPE_LATEST)

    @app.get("/figures", tags=["health"])
    async def show_figures() -> Response:
        """Current counts of all workers by event type and outcome, as JSON; reading has no effect."""
        return Response(figures.document(), media_type="application/json")


def _add_errors(app: FastAPI, retry_after: int) -> None:
    problem: dict[str, Any] = {problems.MEDIA_TYPE.decode(): {}}
    unknown: dict[int | str, dict[str, Any]] = {
        404: {"description": "The error code does not exist.", "content": problem}
    }

    @app.get("/errors/{code}", tags=["errors"], responses=unknown)
    async def error_page(code: str) -> dict[str, Any]:
        """Return the meaning of an error's `type`, and its fix."""
        fault = TABLE.get(code)
        if fault is None:
            raise HTTPException(404)
        return {
            "type": f"/errors/{fault.code}",
            "title": fault.title,
            "status": fault.status,
            "fix": fault.fix,
            "kind": fault.kind,
            "step": fault.step,
            "retry": fault.retry,
        }

    @app.exception_handler(HTTPException)
    async def rejected(_: Request, raised: HTTPException) -> Response:
        fault = _FAULTS.get(raised.status_code, BAD_REQUEST)
        error = UserError(
            fault, "there is no resource at this path" if fault is NOT_FOUND else str(raised.detail)
        )
        answer = problems.answer(error, new_request_id(), retry_after)
        headers = {"content-type": answer.media_type.decode(), **(raised.headers or {})}
        return Response(answer.body, answer.status, headers)
