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
from typing import Any, Final

from services.ingest.accept import Flow
from services.ingest.auth.quotas import Quotas
from services.ingest.observe.rejection_log import RejectionLog
from services.ingest.settings import IngestSettings
from services.ingest.syslog.delivery import LIMITED, LOST, REFUSED, Delivery, count
from services.ingest.syslog.framing import Framer, FramingError
from services.ingest.syslog.seats import Seats
from services.ingest.syslog.sources import Sources

logger = logging.getLogger(__name__)

_READ_BYTES: Final = 64 * 1024


class Syslog:
    """Both listeners; started and stopped by `app.py`."""

    def __init__(
        self, flow: Flow, settings: IngestSettings, log: RejectionLog, quotas: Quotas | None = None
    ) -> None:
        self._delivery = Delivery(flow, log)
        self._settings = settings
        self._sources = Sources(settings, quotas or Quotas(settings.copies))
        self._servers: list[asyncio.Server] = []
        self._transport: asyncio.BaseTransport | None = None
        self._seats = Seats(settings.syslog_connections)
        self._closing = False
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._arrived = asyncio.Event()
        self._empty = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen on the ports that are set; several workers share them."""
        host, settings = self._settings.syslog_host, self._settings
        # Over TLS (RFC 5425) the same follows, but for the handshake.
        for port, tls in ((settings.syslog_tcp_port, None), (settings.syslog_tls_port, settings.tls())):
            if port:
                server = await asyncio.start_server(
                    self._connected, host, port, ssl=tls, reuse_port=True, limit=_READ_BYTES
                )
                self._servers.append(server)
        if settings.syslog_udp_port:
            self._transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: _Datagrams(self._take), (host, settings.syslog_udp_port), reuse_port=True
            )
            self._pump = asyncio.create_task(self._drain(), name="syslog-udp")

    async def stop(self, within: float) -> None:
        """Take no more, finish what was taken within `within` seconds, give up the rest."""
        for server in self._servers:
            server.close()
        if self._transport is not None:
            self._transport.close()
        self._closing = True
        for connection in self._seats.all - self._seats.delivering:
            connection.cancel()
        if self._seats.delivering:
            await asyncio.wait(self._seats.delivering, timeout=within)
        for connection in self._seats.all:
            connection.cancel()
        if self._pump is not None:
            if self._queue:
                emptied = asyncio.create_task(self._empty.wait())
                await asyncio.wait([emptied], timeout=within)
                emptied.cancel()
            self._pump.cancel()
        ending = [*self._seats.all, *([self._pump] if self._pump else [])]
        if ending:
            await asyncio.wait(ending)
        count("udp", LOST, len(self._queue))

    @property
    def waiting(self) -> int:
        """How many messages that came over UDP are not on Kafka yet."""
        return len(self._queue)

    # --- TCP ------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, peer = asyncio.current_task(), _peer(writer.get_extra_info("peername"))
        if task is None or not self._sources.admits(peer) or not self._seats.take(task, peer):
            count("tcp", REFUSED, 1)
            writer.close()
            return
        try:
            await self._read(reader, peer, task)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the sender left, or we are stopping; what was read is on Kafka or with the sender
        except FramingError as e:
            count("tcp", REFUSED, 1)
            logger.warning("syslog connection refused", extra={"reason": str(e)})
        finally:
            self._seats.leave(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, peer: str, task: asyncio.Task[None]) -> None:
        framer = Framer(self._settings.syslog_message_bytes)
        ended = False
        while not ended and not self._closing:
            data = await self._said(reader)
            ended = not data
            messages = framer.finish() if ended else framer.feed(data)
            self._seats.said(task)
            await self._turn_of(peer, len(messages))
            self._sources.charge(peer, len(messages), len(data))
            await self._delivery.send(messages, "tcp", peer)
            self._seats.delivered(task)

    async def _turn_of(self, peer: str, messages: int) -> None:
        """Wait until `peer` may send more: its connections share what it may.

        With what was read in hand: many that read first and are counted then would, all at
        once, take what is everybody's.
        """
        try:
            while True:
                wait = self._sources.wait(peer)
                if not wait:
                    return
                await asyncio.sleep(wait)
        except asyncio.CancelledError:
            count("tcp", LOST, messages)
            raise

    async def _said(self, reader: asyncio.StreamReader) -> bytes:
        """What comes next; nothing when the sender has ended, or has been silent for too long."""
        try:
            async with asyncio.timeout(self._settings.syslog_idle_seconds):
                return await reader.read(_READ_BYTES)
        except TimeoutError:
            return b""

    # --- UDP ------------------------------------------------------------------------------

    def _take(self, data: bytes, peer: str) -> None:
        message = data[: self._settings.syslog_message_bytes].rstrip(b"\r\n\x00")
        if not message:
            return
        if not self._sources.admits(peer):
            count("udp", REFUSED, 1)
            return
        if self._sources.wait(peer):
            count("udp", LIMITED, 1)
            return
        self._sources.charge(peer, 1, len(message))
        if self._queued_bytes + len(message) > self._settings.syslog_queue_bytes:
            count("udp", LOST, 1)
            return
        line = self._delivery.line(message, "udp", peer)
        self._queue.append(line)
        self._queued_bytes += len(line)
        self._empty.clear()
        self._arrived.set()

    async def _drain(self) -> None:
        while True:
            await self._arrived.wait()
            lines = list(itertools.islice(self._queue, self._delivery.most))
            await self._delivery.deliver(lines, "udp")
            for _ in lines:
                self._queued_bytes -= len(self._queue.popleft())
            if not self._queue:
                self._arrived.clear()
                self._empty.set()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, take: Callable[[bytes, str], None]) -> None:
        self._take = take

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._take(data, _peer(addr))


def _peer(address: Any) -> str:
    return str(address[0]) if address else ""
