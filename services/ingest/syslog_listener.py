"""Listens for syslog over UDP and TCP and takes what comes through `accept`, like HTTP.

TCP: a connection is read no further until its messages are on Kafka, so a sender feels an
outage as a full socket and keeps its queue.  UDP cannot promise anything: what does not fit
the queue while Kafka is down is counted as lost.  A batch that failed is sent again with
the same ids until it is acknowledged.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from services.ingest.accept import Flow, accept
from services.ingest.forms import Form
from services.ingest.items import Arrival, Item
from services.ingest.metrics import ACCEPTED, SYSLOG_MESSAGES
from services.ingest.quotas import UNLIMITED
from services.ingest.rejections import RejectionLog
from services.ingest.senders import Sender
from services.ingest.settings import IngestSettings
from services.ingest.sink import Receipt
from services.ingest.syslog import to_envelope
from services.ingest.syslog_framing import Framer, FramingError
from shared.errors import OnrampError

logger = logging.getLogger(__name__)

SENDER: Final = Sender("syslog", None, UNLIMITED)
_READ_BYTES: Final = 64 * 1024
_BATCH: Final = 500
_RETRY_SECONDS: Final = 0.5
_LOST: Final = "lost"
_REFUSED: Final = "refused"


class Syslog:
    """Both listeners; started and stopped by `app.py`."""

    def __init__(self, flow: Flow, settings: IngestSettings, log: RejectionLog) -> None:
        self._flow = flow
        self._settings = settings
        self._log = log
        self._sequence = itertools.count()
        self._server: asyncio.Server | None = None
        self._transport: asyncio.BaseTransport | None = None
        self._connections: set[asyncio.Task[None]] = set()
        #: Those that hold messages which are not on Kafka yet.
        self._delivering: set[asyncio.Task[None]] = set()
        self._closing = False
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._arrived = asyncio.Event()
        self._empty = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen on the ports that are set; several workers share them."""
        host, settings = self._settings.syslog_host, self._settings
        if settings.syslog_tcp_port:
            self._server = await asyncio.start_server(
                self._connected, host, settings.syslog_tcp_port, reuse_port=True, limit=_READ_BYTES
            )
        if settings.syslog_udp_port:
            self._transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: _Datagrams(self._take), (host, settings.syslog_udp_port), reuse_port=True
            )
            self._pump = asyncio.create_task(self._drain(), name="syslog-udp")

    async def stop(self, within: float) -> None:
        """Take no more, finish what was taken within `within` seconds, give up the rest."""
        if self._server is not None:
            self._server.close()
        if self._transport is not None:
            self._transport.close()
        self._closing = True
        for connection in self._connections - self._delivering:
            connection.cancel()
        if self._delivering:
            await asyncio.wait(self._delivering, timeout=within)
        for connection in self._connections:
            connection.cancel()
        if self._pump is not None:
            if self._queue:
                emptied = asyncio.create_task(self._empty.wait())
                await asyncio.wait([emptied], timeout=within)
                emptied.cancel()
            self._pump.cancel()
        ending = [*self._connections, *([self._pump] if self._pump else [])]
        if ending:
            await asyncio.wait(ending)
        self._count("udp", _LOST, len(self._queue))

    # --- TCP ------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._connections) >= self._settings.syslog_connections:
            writer.close()
            return
        self._connections.add(task)
        try:
            await self._read(reader, _peer(writer.get_extra_info("peername")), task)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the sender left, or we are stopping; what was read is on Kafka or with the sender
        except FramingError as e:
            self._count("tcp", _REFUSED, 1)
            logger.warning("syslog connection refused", extra={"reason": str(e)})
        finally:
            self._connections.discard(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, peer: str, task: asyncio.Task[None]) -> None:
        framer = Framer(self._settings.syslog_message_bytes)
        ended = False
        while not ended and not self._closing:
            data = await reader.read(_READ_BYTES)
            ended = not data
            messages = framer.finish() if ended else framer.feed(data)
            self._delivering.add(task)
            try:
                await self._send(messages, "tcp", peer)
            finally:
                self._delivering.discard(task)

    # --- UDP ------------------------------------------------------------------------------

    def _take(self, data: bytes, peer: str) -> None:
        message = data[: self._settings.syslog_message_bytes].rstrip(b"\r\n\x00")
        if not message:
            return
        if self._queued_bytes + len(message) > self._settings.syslog_queue_bytes:
            self._count("udp", _LOST, 1)
            return
        line = orjson.dumps(self._envelope(message, "udp", peer))
        self._queue.append(line)
        self._queued_bytes += len(line)
        self._empty.clear()
        self._arrived.set()

    async def _drain(self) -> None:
        while True:
            await self._arrived.wait()
            lines = list(itertools.islice(self._queue, _BATCH))
            await self._deliver(lines, "udp")
            for _ in lines:
                self._queued_bytes -= len(self._queue.popleft())
            if not self._queue:
                self._arrived.clear()
                self._empty.set()

    # --- both -----------------------------------------------------------------------------

    async def _send(self, messages: list[bytes], transport: str, peer: str) -> None:
        lines = [orjson.dumps(self._envelope(message, transport, peer)) for message in messages]
        for start in range(0, len(lines), _BATCH):
            await self._deliver(lines[start : start + _BATCH], transport)

    def _envelope(self, message: bytes, transport: str, peer: str) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        return to_envelope(message, now, peer, transport, next(self._sequence))

    async def _deliver(self, lines: list[bytes], transport: str) -> None:
        """Send until every message is acknowledged or refused for good."""
        while lines:
            items = await self._accepted(lines)
            again = [item.value for item in items if _may_help(item)]
            accepted = sum(isinstance(item.verdict, Receipt) for item in items)
            self._count(transport, ACCEPTED, accepted)
            self._count(transport, _REFUSED, len(items) - accepted - len(again))
            lines = again
            if lines:
                await self._pause(len(lines), transport)

    async def _pause(self, waiting: int, transport: str) -> None:
        try:
            await asyncio.sleep(_RETRY_SECONDS)
        except asyncio.CancelledError:
            if transport == "tcp":  # what UDP leaves behind is counted from its queue
                self._count(transport, _LOST, waiting)
            raise

    async def _accepted(self, lines: list[bytes]) -> list[Item]:
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        arrival = Arrival("syslog", now, {})
        arrival.form = Form.LINES
        arrival.sender = SENDER

        async def receive(_: Arrival) -> bytes:
            return b"\n".join(lines)

        items = await accept(self._flow, arrival, receive)
        self._log.judged(arrival, items)
        return items

    @staticmethod
    def _count(transport: str, outcome: str, count: int) -> None:
        if count:
            SYSLOG_MESSAGES.labels(transport, outcome).inc(count)


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, take: Callable[[bytes, str], None]) -> None:
        self._take = take

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._take(data, _peer(addr))


def _peer(address: Any) -> str:
    return str(address[0]) if address else ""


def _may_help(item: Item) -> bool:
    return isinstance(item.verdict, OnrampError) and item.verdict.fault.retry
