"""Single events at fixed times over keep-alive connections; each answer is recorded with its receipt.

Run as a process of its own: ``python -m loadtest.open_loop ORDER``, where ORDER is a JSON
file: port, api_key, rate (events/s), seconds, names (at first; events take them in turn),
fresh_every_s (one name more so often), out (a JSON file to write), connections (32 if it does
not say), ca_file (for HTTPS).  An event's latency
counts from when it was due, so that a generator or a gateway that stalls cannot hide it.
"""

import asyncio
import json
import secrets
import ssl
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any, Final, cast

import httptools
import orjson
import uvloop

_CONNECTIONS: Final = 32
_ACCEPTED: Final = 202
#: Time for every connection to be there before the first event is due.
_BEFORE_THE_FIRST: Final = 0.5
_DRAIN_SECONDS: Final = 30.0


class Sent:
    """One event: its due time, the time of its answer, and its receipt (None: it was refused)."""

    __slots__ = ("answered", "due", "name", "receipt")

    def __init__(self, due: float, name: str) -> None:
        self.due = due
        self.name = name
        self.answered = 0.0
        self.receipt: dict[str, Any] | None = None


class _Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self, idle: "asyncio.Queue[_Connection]") -> None:
        self._idle = idle
        self._parser = httptools.HttpResponseParser(self)
        self._body = b""
        self._sent: Sent | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._idle.put_nowait(self)

    def send(self, sent: Sent, request: bytes) -> None:
        self._sent = sent
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        assert self._sent is not None  # noqa: S101 - nothing is answered that was not asked
        self._sent.answered = time.monotonic()
        if self._parser.get_status_code() == _ACCEPTED:
            self._sent.receipt = orjson.loads(self._body)["receipt"]
        self._body, self._sent = b"", None
        self._idle.put_nowait(self)


async def run(order: dict[str, Any]) -> list[Sent]:
    """Send the load that `order` describes; return every event, by due time."""
    loop = asyncio.get_running_loop()
    idle: asyncio.Queue[_Connection] = asyncio.Queue()
    connections = order.get("connections", _CONNECTIONS)
    trust = ssl.create_default_context(cafile=order["ca_file"]) if order.get("ca_file") else None
    for _ in range(connections):
        await loop.create_connection(lambda: _Connection(idle), "127.0.0.1", order["port"], ssl=trust)
    ids = secrets.token_hex(4)  # ids of two loads differ: repeats land another way
    names, fresh = deque(f"latency_{n:04d}" for n in range(order["names"])), order["names"]
    began = time.monotonic() + _BEFORE_THE_FIRST
    sent: list[Sent] = []
    for number in range(int(order["rate"] * order["seconds"])):
        offset = number / order["rate"]
        if offset >= (fresh - order["names"] + 1) * order["fresh_every_s"]:
            names.append(f"latency_{fresh:04d}")
            fresh += 1
        names.rotate(-1)
        one = Sent(began + offset, names[0])
        sent.append(one)
        early = one.due - time.monotonic()
        if early > 0:
            await asyncio.sleep(early)
        connection = await idle.get()
        connection.send(one, _request(order, one.name, number, ids))
    async with asyncio.timeout(_DRAIN_SECONDS):
        for _ in range(connections):
            await idle.get()
    return sent


def _request(order: dict[str, Any], name: str, number: int, ids: str) -> bytes:
    body = (
        f'{{"metadata":{{"id":"{ids}-{number:09d}","timestamp":"2026-11-21T08:00:00Z","version":"1"}},'
        f'"event_name":"{name}","payload":{{"order":{number},"note":"{"x" * 60}"}}}}'
    ).encode()
    head = (
        f"POST /v1/events HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {order['api_key']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def main() -> None:
    """Read the order, run, write."""
    order = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    sent = uvloop.run(run(order))
    lines = [
        (s.due, s.answered, s.name, *((r["topic"], r["partition"], r["offset"]) if (r := s.receipt) else ()))
        for s in sent
    ]
    Path(order["out"]).write_bytes(orjson.dumps(lines))


if __name__ == "__main__":
    main()
