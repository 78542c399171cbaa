"""HTTP for a `Status`: /healthz, /readyz, /metrics and /figures, answered by threads of their own."""

from http import HTTPStatus
from typing import Any

import msgspec
import orjson
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from services.writer.observe.status import Status
from shared.page_server import JSON, Answer, PageServer, alive


class StatusServer(PageServer):
    """Serves a `Status` over HTTP."""

    def __init__(self, status: Status, host: str, port: int) -> None:
        """Bind the port.  Raises `OSError` when it is taken."""
        pages = {
            "/healthz": alive,
            "/readyz": lambda: readyz(status),
            "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, status.page()),
            "/figures": lambda: (HTTPStatus.OK, JSON, msgspec.json.encode(status.figures())),
        }
        super().__init__(pages, host, port)


def readyz(status: Status) -> Answer:
    """Return the answer of /readyz."""
    ready, reason = status.ready()
    document: dict[str, Any] = {
        "status": status.state,
        "reason": reason,
        "databases": status.databases,
        "since": status.state_times.since(),
        "reasons": status.reasons,
        "warnings": status.warnings,
        "batch_seconds": status.batch_seconds(),
        "holds": status.holds,
        "unknown_databases": status.unknown_databases,
        "not_configured": status.unusable,
        "open_transactions": status.open_transactions(),
        "halted_partitions": {str(p): why for p, why in status.halted_partitions.items()},
    }
    # A standby is as ready as it can be: a rollout waits for it before it ends the other writer.
    is_ready = ready or status.state == "standby"
    return (
        HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE,
        JSON,
        orjson.dumps(document),
    )
