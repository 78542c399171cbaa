"""Log lines about events: at most one per rejected event, and never a flood.

A producer with a bug sends thousands of bad events a second; the log gets some of them and
the number of lines that were left out.
"""

import logging
import time
from typing import Final

from services.ingest.request import BatchItem, RequestContext
from services.ingest.sink import Receipt
from shared.errors import OnrampError

logger = logging.getLogger(__name__)

_LINES_PER_SECOND: Final = 20


class RejectionLog:
    """Logs rejected events, 20 lines a second at most, and accepted ones if `log_events` is set."""

    def __init__(self, *, log_events: bool) -> None:
        self._log_events = log_events
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def log_request(self, request: RequestContext, error: OnrampError) -> None:
        """Log a request that was rejected as a whole."""
        self._write(request, error, None)

    def log_items(self, request: RequestContext, items: list[BatchItem]) -> None:
        """Log the items of a request by their verdicts."""
        for item in items:
            verdict = item.verdict
            if isinstance(verdict, OnrampError):
                self._write(request, verdict, item)
            elif self._log_events and isinstance(verdict, Receipt):
                receipt = f"{verdict.topic}/{verdict.partition}/{verdict.offset}"
                logger.info("accepted", extra={**_event(item), "outcome": "accepted", "receipt": receipt})

    def _write(self, request: RequestContext, error: OnrampError, item: BatchItem | None) -> None:
        if not self._may_write():
            return
        fields: dict[str, object] = {
            "request_id": request.request_id,
            "producer": request.producer,
            "step": error.step,
            "outcome": error.fault.code,
            "pointer": error.pointer,
            **(_event(item) if item is not None else {}),
        }
        if self._left_out:
            fields["left_out"] = self._left_out
            self._left_out = 0
        logger.log(error.fault.level, "rejected", extra=fields)

    def _may_write(self) -> bool:
        now = int(time.monotonic())
        if now != self._second:
            self._second, self._lines = now, 0
        self._lines += 1
        if self._lines <= _LINES_PER_SECOND:
            return True
        self._left_out += 1
        return False


def _event(item: BatchItem) -> dict[str, object]:
    if item.envelope is None:
        return {}
    return {"event_id": item.envelope.metadata.id, "event_name": item.envelope.event_name}
