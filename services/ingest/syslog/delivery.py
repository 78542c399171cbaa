"""Takes syslog messages through `accept`, until each is on Kafka or refused for good.

Syslog has nobody to answer to, so what HTTP leaves to its client is done here: a batch that
failed is sent again with the same ids, and one at which the flow itself fails is sent in halves.
"""

import asyncio
import itertools
import logging
from datetime import UTC, datetime
from typing import Final

import orjson

from services.ingest.accept import Flow, accept
from services.ingest.auth.api_keys import Sender
from services.ingest.auth.quotas import UNLIMITED
from services.ingest.body_form import Form
from services.ingest.observe.metrics import ACCEPTED, SYSLOG_MESSAGES
from services.ingest.observe.rejection_log import RejectionLog
from services.ingest.request import BatchItem, RequestContext
from services.ingest.sink import Receipt
from services.ingest.syslog.message import to_envelope
from shared.errors import OnrampError
from shared.steps import Step

logger = logging.getLogger(__name__)

SENDER: Final = Sender("syslog", None, UNLIMITED)
LOST: Final = "lost"
LIMITED: Final = "limited"
REFUSED: Final = "refused"
_BATCH: Final = 500
_RETRY_SECONDS: Final = 0.5


class Delivery:
    """The way of both listeners to Kafka."""

    def __init__(self, flow: Flow, log: RejectionLog) -> None:
        self._flow = flow
        self._log = log
        self._sequence = itertools.count()
        #: As many as one request may have: the flow refuses a larger one whole.
        self.most = min(_BATCH, flow.limits.max_batch)

    def line(self, message: bytes, transport: str, peer: str) -> bytes:
        """The envelope of a message that has just arrived."""
        return orjson.dumps(to_envelope(message, _now(), peer, transport, next(self._sequence)))

    async def send(self, messages: list[bytes], transport: str, peer: str) -> None:
        """Deliver messages, however many there are: one read may have thirty thousand."""
        for start in range(0, len(messages), self.most):
            some = messages[start : start + self.most]
            await self.deliver([self.line(message, transport, peer) for message in some], transport)

    async def deliver(self, lines: list[bytes], transport: str) -> None:
        """Send at most `most` lines until every one is acknowledged or refused for good."""
        while lines:
            lines = await self._again(lines, transport)
            if lines:
                await self._pause(len(lines), transport)

    async def _again(self, lines: list[bytes], transport: str) -> list[bytes]:
        """Send once; returns what is to be sent again."""
        arrival = _arrival()
        try:
            items = await self._accepted(arrival, lines)
        except Exception as e:  # noqa: BLE001 - logged below; nothing may end what takes syslog
            if arrival.step is Step.SEND or (isinstance(e, OnrampError) and e.fault.retry):
                logger.warning("syslog messages wait", extra=_why(arrival, e))
                return lines
            return await self._in_halves(lines, transport, arrival, e)
        again = [item.value for item in items if _may_help(item)]
        accepted = sum(isinstance(item.verdict, Receipt) for item in items)
        count(transport, ACCEPTED, accepted)
        count(transport, REFUSED, len(items) - accepted - len(again))
        return again

    async def _in_halves(
        self, lines: list[bytes], transport: str, arrival: RequestContext, error: Exception
    ) -> list[bytes]:
        """The flow failed before it sent: the one message at which it does harms only itself."""
        if len(lines) == 1:
            logger.error("a syslog message was refused", extra=_why(arrival, error))
            count(transport, REFUSED, 1)
            return []
        half = len(lines) // 2
        return [
            *await self._again(lines[:half], transport),
            *await self._again(lines[half:], transport),
        ]

    async def _pause(self, waiting: int, transport: str) -> None:
        try:
            await asyncio.sleep(_RETRY_SECONDS)
        except asyncio.CancelledError:
            if transport == "tcp":  # what UDP leaves behind is counted from its queue
                count(transport, LOST, waiting)
            raise

    async def _accepted(self, arrival: RequestContext, lines: list[bytes]) -> list[BatchItem]:
        async def receive(_: RequestContext) -> bytes:
            return b"\n".join(lines)

        items = await accept(self._flow, arrival, receive)
        self._log.judged(arrival, items)
        return items


def count(transport: str, outcome: str, messages: int) -> None:
    """Count messages by what became of them."""
    if messages:
        SYSLOG_MESSAGES.labels(transport, outcome).inc(messages)


def _arrival() -> RequestContext:
    arrival = RequestContext("syslog", _now(), {})
    arrival.form = Form.LINES
    arrival.sender = SENDER
    return arrival


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _why(arrival: RequestContext, error: Exception) -> dict[str, str]:
    # Not its text: an exception's text may repeat the message.
    return {"step": arrival.step, "reason": type(error).__name__}


def _may_help(item: BatchItem) -> bool:
    return isinstance(item.verdict, OnrampError) and item.verdict.fault.retry
