"""The pages /healthz, /readyz and /metrics."""

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from services.cdc.agent.watch import Watch


def pages(watch: Watch, registry: CollectorRegistry) -> Starlette:
    """Return the application: an agent is ready when all its sources are streaming or on standby."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        ready = watch.is_ready
        return JSONResponse({"ready": ready, "sources": watch.states()}, 200 if ready else 503)

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    )
