"""/healthz, /readyz and /metrics."""

from collections.abc import Callable, Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from services.elt.agent.seen import State


def pages(states: Callable[[], Mapping[str, Mapping[str, str]]], registry: CollectorRegistry) -> Starlette:
    """Return the application: ready is an agent all of whose sources flow."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        found = states()
        ready = all(each["state"] == State.FLOWING for each in found.values())
        return JSONResponse({"ready": ready, "sources": found}, 200 if ready else 503)

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    )
