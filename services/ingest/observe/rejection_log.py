"""Log lines about events: at most one per event, with a rate limit.

A producer with a bug sends thousands of bad events a second; the log shows some of them and
the number of omitted lines. A rejected sender needs no key, so these lines have a lower limit.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from services.ingest.request import BatchItem, RequestContext
from services.ingest.sink import Receipt
from shared import event_lines
from shared.errors import OnrampError
from shared.event_lines import EventLines
from shared.path_steps import Step

logger = logging.getLogger(__name__)

_LINES_PER_SECOND: Final = 20
_ACCEPTED: Final = "accepted"


class RejectionLog:
    """Logs rejected events, 20 lines a second at most, and accepted ones up to the process' own limit."""

    def __init__(self, event_lines_per_second: int = 0) -> None:
        per_second = event_lines_per_second
        self._accepted_lines = event_lines.of_process("ingest", __name__, per_second) if per_second else None
        self._second = 0
        self._lines = 0
        self._suppressed = 0

    def log_request(self, request: RequestContext, error: OnrampError) -> None:
        """Log a request that was rejected as a whole."""
        self._write(request, error, None)

    def log_items(self, request: RequestContext, items: list[BatchItem]) -> None:
        """Log the items of a request by their verdicts."""
        accepted = []
        for item in items:
            if isinstance(item.verdict, OnrampError):
                self._write(request, item.verdict, item)
            else:
                accepted.append(item)
        if accepted and self._accepted_lines is not None:
            self._log_accepted(self._accepted_lines, request, accepted)

    @staticmethod
    def _log_accepted(lines: EventLines, request: RequestContext, items: Sequence[BatchItem]) -> None:
        count = len(items)
        _, granted = lines.grant(0, count)
        if granted < count:
            lines.suppress({_ACCEPTED: count - granted})
            items = [items[place] for place in event_lines.spread(count, granted)]
        if granted:
            lines.write(_ACCEPTED, _accepted(request, items))

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
        if self._suppressed:
            fields["suppressed"] = self._suppressed
            self._suppressed = 0
        logger.log(error.fault.level, "rejected", extra=fields)

    def _may_write(self) -> bool:
        now = int(time.monotonic())
        if now != self._second:
            self._second, self._lines = now, 0
        self._lines += 1
        if self._lines <= _LINES_PER_SECOND:
            return True
        self._suppressed += 1
        return False


def _accepted(request: RequestContext, items: Sequence[BatchItem]) -> Iterator[dict[str, Any]]:
    for item in items:
        verdict, envelope = item.verdict, item.envelope
        if isinstance(verdict, Receipt) and envelope is not None:
            yield {
                "receipt": f"{verdict.topic}/{verdict.partition}/{verdict.offset}",
                "step": Step.SEND.value,
                "outcome": _ACCEPTED,
                "event_id": envelope.metadata.id,
                "event_name": envelope.event_name,
                "request_id": request.request_id,
                "producer": request.producer,
            }


def _event(item: BatchItem) -> dict[str, object]:
    if item.envelope is None:
        return {}
    return {"event_id": item.envelope.metadata.id, "event_name": item.envelope.event_name}
