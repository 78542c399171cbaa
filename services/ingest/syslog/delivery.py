"""Sends syslog messages through `accept`, until each is on Kafka or rejected.

Syslog has no answers, so the retries of an HTTP client are done here: a failed batch is sent again
with the same ids, and a batch at which the flow itself fails is sent in halves.
"""

import asyncio
import itertools
import logging
from typing import Final

import orjson

from services.ingest.accept import Flow, accept
from services.ingest.auth.api_keys import Sender
from services.ingest.auth.quotas import UNLIMITED
from services.ingest.body_form import Form
from services.ingest.now import now
from services.ingest.observe.metrics import ACCEPTED, SYSLOG_MESSAGES, EventCounts
from services.ingest.observe.rejection_log import RejectionLog
from services.ingest.request import BatchItem, RequestContext
from services.ingest.sink import Receipt
from services.ingest.syslog.message import to_envelope
from shared.backoff import Backoff
from shared.errors import INTERNAL, OnrampError
from shared.path_steps import Step

logger = logging.getLogger(__name__)

SENDER: Final = Sender("syslog", None, UNLIMITED)
LOST: Final = "lost"
LIMITED: Final = "limited"
#: Label value of the metric.
REJECTED: Final = "refused"
_BATCH: Final = 500
#: Maximum pause before messages are retried: their senders wait meanwhile.
_MAX_PAUSE_SECONDS: Final = 2.0


class Delivery:
    """Delivers the messages of all listeners to Kafka."""

    def __init__(self, flow: Flow, log: RejectionLog, events: EventCounts) -> None:
        self._flow = flow
        self._log = log
        self._events = events
        self._sequence = itertools.count()
        #: Maximum messages of a batch: the flow would reject a larger one as a whole.
        self.batch_size = min(_BATCH, flow.limits.max_batch)

    def line(self, message: bytes, transport: str, peer: str) -> bytes:
        """Return the envelope of a message received now, as JSON."""
        return orjson.dumps(to_envelope(message, now(), peer, transport, next(self._sequence)))

    async def send(self, messages: list[bytes], transport: str, peer: str) -> None:
        """Deliver messages in batches: a read may have thirty thousand."""
        for start in range(0, len(messages), self.batch_size):
            batch = messages[start : start + self.batch_size]
            await self.deliver([self.line(message, transport, peer) for message in batch], transport)

    async def deliver(self, lines: list[bytes], transport: str) -> None:
        """Send at most `batch_size` lines repeatedly until each is on Kafka or rejected."""
        backoff = Backoff(_MAX_PAUSE_SECONDS)
        while lines:
            lines = await self._send_once(lines, transport)
            if lines:
                await self._pause(backoff.fail(), len(lines), transport)

    async def _send_once(self, lines: list[bytes], transport: str) -> list[bytes]:
        """Send the lines once; return the lines to retry."""
        request = _new_request()
        try:
            items = await self._accept(request, lines)
        except Exception as e:  # noqa: BLE001 - logged below; no error may end the delivery
            if request.step is Step.SEND or (isinstance(e, OnrampError) and e.fault.retry):
                logger.warning("syslog messages wait", extra=_log_fields(request, e))
                return lines
            return await self._in_halves(lines, transport, request, e)
        again = [item.value for item in items if _is_retryable(item)]
        self._events.count(request.producer, (item for item in items if not _is_retryable(item)))
        accepted = sum(isinstance(item.verdict, Receipt) for item in items)
        count(transport, ACCEPTED, accepted)
        count(transport, REJECTED, len(items) - accepted - len(again))
        return again

    async def _in_halves(
        self, lines: list[bytes], transport: str, request: RequestContext, error: Exception
    ) -> list[bytes]:
        """Send halves after the flow failed before SEND, to isolate the message at which it fails."""
        if len(lines) == 1:
            logger.error("a syslog message was rejected", extra=_log_fields(request, error))
            count(transport, REJECTED, 1)
            self._events.count_unread(request.producer, _code(error))
            return []
        half = len(lines) // 2
        return [
            *await self._send_once(lines[:half], transport),
            *await self._send_once(lines[half:], transport),
        ]

    async def _pause(self, seconds: float, waiting: int, transport: str) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if transport == "tcp":  # UDP messages are still in its queue and counted there
                count(transport, LOST, waiting)
            raise

    async def _accept(self, request: RequestContext, lines: list[bytes]) -> list[BatchItem]:
        async def receive(_: RequestContext) -> bytes:
            return b"\n".join(lines)

        items = await accept(self._flow, request, receive)
        self._log.log_items(request, items)
        return items


def count(transport: str, outcome: str, messages: int) -> None:
    """Count messages by transport and outcome."""
    if messages:
        SYSLOG_MESSAGES.labels(transport, outcome).inc(messages)


def show_none_yet(transport: str) -> None:
    """Show each outcome at 0 before its first message: Prometheus needs the 0 to compute an increase."""
    for outcome in (ACCEPTED, REJECTED, LOST, LIMITED):
        SYSLOG_MESSAGES.labels(transport, outcome)


def _new_request() -> RequestContext:
    request = RequestContext("syslog", now(), {})
    request.form = Form.LINES
    request.sender = SENDER
    return request


def _log_fields(request: RequestContext, error: Exception) -> dict[str, str]:
    # Not the error's text: it may repeat the message.
    return {"step": request.step, "reason": type(error).__name__}


def _code(error: Exception) -> str:
    return (error.fault if isinstance(error, OnrampError) else INTERNAL).code


def _is_retryable(item: BatchItem) -> bool:
    return isinstance(item.verdict, OnrampError) and item.verdict.fault.retry
