"""The pages of a service with one status: /healthz, /readyz, /status and /metrics."""

from http import HTTPStatus
from typing import Protocol

from prometheus_client import CONTENT_TYPE_LATEST

from shared.page_server import JSON, Answer, PageServer, alive


class ServedMetrics(Protocol):
    """Metrics of a service."""

    def page(self) -> bytes:
        """Return the text of /metrics; reading changes nothing."""


class ServedStatus(Protocol):
    """The state of a service."""

    @property
    def metrics(self) -> ServedMetrics:
        """Its metrics."""

    @property
    def is_ready(self) -> bool:
        """Whether it does its work."""

    def document(self) -> bytes:
        """Return the JSON of /status, which /readyz shows as well."""


def status_server(status: ServedStatus, host: str, port: int) -> PageServer:
    """Bind the port.  Raises `OSError` when it is taken."""

    def readyz() -> Answer:
        code = HTTPStatus.OK if status.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return code, JSON, status.document()

    pages = {
        "/healthz": alive,
        "/readyz": readyz,
        "/status": lambda: (HTTPStatus.OK, JSON, status.document()),
        "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, status.metrics.page()),
    }
    return PageServer(pages, host, port)
