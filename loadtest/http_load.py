"""A closed loop of keep-alive connections that cost as little as Python allows.

Run as a process of its own: ``python -m loadtest.http_load PORT FORM BATCH CONNECTIONS SECONDS NAME
KEY [CA_FILE]`` prints one JSON line: requests, other statuses, latency percentiles in ms.  With a CA
it speaks HTTPS.
"""

import asyncio
import json
import ssl
import sys
import time
from typing import cast

import httptools
import uvloop

from loadtest.events import bodies

_REQUESTS = 64
_ACCEPTED = 202


class Connection(asyncio.Protocol):
    """Sends the next request when the answer to the last is complete."""

    def __init__(self, requests: list[bytes], first: int, until: float) -> None:
        self._requests = requests
        self._next = first
        self._until = until
        self._parser = httptools.HttpResponseParser(self)
        self._sent_at = 0.0
        self.latencies: list[float] = []
        self.other = 0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        """Part of an answer."""
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        """Called by the parser at the end of an answer."""
        now = time.perf_counter()
        self.latencies.append(now - self._sent_at)
        self.other += self._parser.get_status_code() != _ACCEPTED
        if now < self._until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        if not self.done.done():
            self.done.set_result(exc)

    def _send(self) -> None:
        self._next = (self._next + 1) % len(self._requests)
        self._sent_at = time.perf_counter()
        self._transport.write(self._requests[self._next])


async def run(
    port: int, requests: list[bytes], connections: int, seconds: float, trust: ssl.SSLContext | None = None
) -> dict[str, float]:
    """Load the gateway and return its answers."""
    loop = asyncio.get_running_loop()
    until = time.perf_counter() + seconds
    pairs = [
        await loop.create_connection(
            lambda n=n: Connection(requests, n, until),  # type: ignore[misc]
            "127.0.0.1",
            port,
            ssl=trust,
        )
        for n in range(connections)
    ]
    made = [connection for _, connection in pairs]
    await asyncio.gather(*(each.done for each in made))
    latencies = sorted(each for connection in made for each in connection.latencies)
    return {
        "requests": len(latencies),
        "other": sum(connection.other for connection in made),
        "p50_ms": round(1000 * latencies[len(latencies) // 2], 1),
        "p99_ms": round(1000 * latencies[int(len(latencies) * 0.99)], 1),
    }


def main() -> None:
    """Read the arguments, run, print."""
    port, form, batch, connections, seconds, name, key, *ca_file = sys.argv[1:]
    contents, headers = bodies(form, int(batch), _REQUESTS, name)
    head = "".join(
        f"{k}: {v}\r\n" for k, v in {"Host": "gateway", "Authorization": f"Bearer {key}", **headers}.items()
    ).encode()
    requests = [
        b"POST /v1/events HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (head, len(content), content)
        for content in contents
    ]
    trust = ssl.create_default_context(cafile=ca_file[0]) if ca_file else None
    result = uvloop.run(run(int(port), requests, int(connections), float(seconds), trust))
    print(json.dumps(result | {"events": result["requests"] * int(batch)}))


if __name__ == "__main__":
    main()
