"""Listens for syslog over UDP, TCP and TLS, and sends messages through `accept`, like HTTP.

TCP: reading from a connection pauses until its messages are on Kafka, so in an outage a sender's
socket fills and it keeps its queue. UDP has no guarantee: messages that do not fit the queue while Kafka
is down are counted as lost. A failed batch is sent again with the same ids until it is
acknowledged.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from services.ingest.accept import Flow
from services.ingest.auth.quotas import Quotas
from services.ingest.observe.metrics import EventCounts
from services.ingest.observe.rejection_log import RejectionLog
from services.ingest.settings import IngestSettings
from services.ingest.syslog.connection_setup import Opened, peer_of
from services.ingest.syslog.connections import Connections
from services.ingest.syslog.delivery import LIMITED, LOST, REJECTED, Delivery, count, show_none_yet
from services.ingest.syslog.framing import Framer, FramingError
from services.ingest.syslog.sources import Sources

logger = logging.getLogger(__name__)


class Syslog:
    """The listeners for UDP, TCP and TLS; started and stopped by `app.py`."""

    def __init__(
        self,
        flow: Flow,
        settings: IngestSettings,
        log: RejectionLog,
        *,
        events: EventCounts,
        quotas: Quotas | None = None,
    ) -> None:
        self._delivery = Delivery(flow, log, events)
        self._settings = settings
        self._sources = Sources(settings, quotas or Quotas(settings.replicas))
        self._servers: list[asyncio.Server] = []
        self._transport: asyncio.BaseTransport | None = None
        self._connections = Connections(settings.syslog_connections)
        self._closing = False
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._has_messages = asyncio.Event()
        self._empty = asyncio.Event()
        self._udp_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen on the configured ports; all workers share them."""
        host, settings, loop = self._settings.syslog_host, self._settings, asyncio.get_running_loop()
        # TLS (RFC 5425) is the same except for the handshake.
        for port, tls in ((settings.syslog_tcp_port, None), (settings.syslog_tls_port, settings.tls())):
            if port:
                show_none_yet("tcp")
                opened = partial(Opened, self._take, tls, settings.read_seconds)
                self._servers.append(await loop.create_server(opened, host, port, reuse_port=True))
        if settings.syslog_udp_port:
            show_none_yet("udp")
            self._transport, _ = await loop.create_datagram_endpoint(
                lambda: _Datagrams(self._enqueue), (host, settings.syslog_udp_port), reuse_port=True
            )
            self._udp_task = asyncio.create_task(self._drain(), name="syslog-udp")

    async def stop(self, within: float) -> None:
        """Stop receiving; deliver received messages within `within` seconds, then drop the rest."""
        for server in self._servers:
            server.close()
        if self._transport is not None:
            self._transport.close()
        self._closing = True
        for connection in self._connections.all - self._connections.delivering:
            connection.cancel()
        if self._connections.delivering:
            await asyncio.wait(self._connections.delivering, timeout=within)
        for connection in self._connections.all:
            connection.cancel()
        if self._udp_task is not None:
            if self._queue:
                emptied = asyncio.create_task(self._empty.wait())
                await asyncio.wait([emptied], timeout=within)
                emptied.cancel()
            self._udp_task.cancel()
        ending = [*self._connections.all, *([self._udp_task] if self._udp_task else [])]
        if ending:
            await asyncio.wait(ending)
        count("udp", LOST, len(self._queue))

    @property
    def waiting(self) -> int:
        """Return the number of UDP messages that are not on Kafka yet."""
        return len(self._queue)

    # --- TCP ------------------------------------------------------------------------------

    def _take(self, opened: Opened) -> bool:
        """Serve the connection if it may send and has a place; else return False."""
        if self._sources.admits(opened.peer):
            task = asyncio.get_running_loop().create_task(self._serve(opened))
            task.add_done_callback(partial(self._served, opened))
            if self._connections.add(task, opened.peer):
                return True
            task.cancel()
        count("tcp", REJECTED, 1)
        return False

    async def _serve(self, opened: Opened) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is one
        try:
            await opened.ready()
            await self._read(opened, task)
            await opened.end()
        except (OSError, asyncio.CancelledError):
            pass  # the sender disconnected or the gateway stops: the sender or Kafka has each message
        except FramingError as e:
            count("tcp", REJECTED, 1)
            logger.warning("syslog connection rejected", extra={"reason": str(e)})

    def _served(self, opened: Opened, task: asyncio.Task[None]) -> None:
        self._connections.remove(task)
        # Another connection may have the place already, so the file is freed with it.
        (opened.close if self._closing else opened.abort)()

    async def _read(self, opened: Opened, task: asyncio.Task[None]) -> None:
        framer, peer = Framer(self._settings.syslog_message_bytes), opened.peer
        ended = False
        while not ended and not self._closing:
            data = await opened.read(self._settings.syslog_idle_seconds)
            ended = not data
            messages = framer.finish() if ended else framer.feed(data)
            self._connections.received(task)
            await self._wait_for_quota(peer, len(messages))
            self._sources.charge(peer, len(messages), len(data))
            await self._delivery.send(messages, "tcp", peer)
            self._connections.delivered(task)

    async def _wait_for_quota(self, peer: str, messages: int) -> None:
        """Wait until `peer` may send more; all its connections share one quota.

        Called after `messages` were read and before they are counted: connections that count first would
        all read at once, and together exceed the quota.
        """
        try:
            while True:
                delay = self._sources.delay(peer)
                if not delay:
                    return
                await asyncio.sleep(delay)
        except asyncio.CancelledError:
            count("tcp", LOST, messages)
            raise

    # --- UDP ------------------------------------------------------------------------------

    def _enqueue(self, data: bytes, peer: str) -> None:
        message = data[: self._settings.syslog_message_bytes].rstrip(b"\r\n\x00")
        if not message:
            return
        if not self._sources.admits(peer):
            count("udp", REJECTED, 1)
            return
        if self._sources.delay(peer):
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
        self._has_messages.set()

    async def _drain(self) -> None:
        while True:
            await self._has_messages.wait()
            lines = list(itertools.islice(self._queue, self._delivery.batch_size))
            await self._delivery.deliver(lines, "udp")
            for _ in lines:
                self._queued_bytes -= len(self._queue.popleft())
            if not self._queue:
                self._has_messages.clear()
                self._empty.set()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, enqueue: Callable[[bytes, str], None]) -> None:
        self._enqueue = enqueue

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._enqueue(data, peer_of(addr))
