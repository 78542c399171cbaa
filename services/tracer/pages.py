"""HTTP of the tracer: /healthz, /readyz, /status and /metrics, answered by threads of their own."""

from http import HTTPStatus

import msgspec
import orjson
from prometheus_client import CONTENT_TYPE_LATEST

from services.tracer.metrics import TracerMetrics
from services.tracer.rounds import Rounds
from services.tracer.status import status
from shared.page_server import JSON, Answer, PageServer, alive


class TracerServer(PageServer):
    """Serves the tracer's state over HTTP."""

    def __init__(self, rounds: Rounds, metrics: TracerMetrics, host: str, port: int) -> None:
        """Bind the port.  Raises `OSError` when it is taken."""
        pages = {
            "/healthz": alive,
            "/readyz": lambda: _readyz(rounds),
            "/status": lambda: (HTTPStatus.OK, JSON, _status(rounds)),
            "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, metrics.page()),
        }
        super().__init__(pages, host, port)


def _status(rounds: Rounds) -> bytes:
    return msgspec.json.encode(status(rounds.tracers(), rounds.refusals))


def _readyz(rounds: Rounds) -> Answer:
    """Return 200 once a tracer of this process has landed, else the refusals."""
    code = HTTPStatus.OK if rounds.landed else HTTPStatus.SERVICE_UNAVAILABLE
    return code, JSON, orjson.dumps({"landed": rounds.landed, "refusals": rounds.refusals})
