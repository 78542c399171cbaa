"""HTTP of the service: /healthz, /readyz, /status and /metrics, answered by threads of their own."""

from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from services.lake.observe.status import LakeStatus
from shared.page_server import JSON, Answer, PageServer, alive


class LakeServer(PageServer):
    """Serves a `LakeStatus` over HTTP."""

    def __init__(self, status: LakeStatus, host: str, port: int) -> None:
        """Bind the port.  Raises `OSError` when it is taken."""
        pages = {
            "/healthz": alive,
            "/readyz": lambda: _readyz(status),
            "/status": lambda: (HTTPStatus.OK, JSON, status.document()),
            "/metrics": lambda: (
                HTTPStatus.OK,
                CONTENT_TYPE_LATEST,
                generate_latest(status.metrics.registry),
            ),
        }
        super().__init__(pages, host, port)


def _readyz(status: LakeStatus) -> Answer:
    code = HTTPStatus.OK if status.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return code, JSON, status.document()
