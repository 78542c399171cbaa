"""Floods of hostile clients, and the maximum memory of the gateway under each.

``python -m loadtest.floods`` starts Kafka, which has the registry, and a gateway for each flood, and prints
a table; ``--out`` keeps the figures.  A flood is over when every client has seen the start of an answer.
"""

import argparse
import asyncio
import gzip
import json
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from loadtest import report
from stack import services
from stack.kafka import Kafka
from stack.ports import LOOPBACK

MIB: Final = 2**20
#: Bytes that the process may have in addition to its budget.
BESIDE: Final = 100 * MIB
_HEAD: Final = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
#: Few bytes on the wire and a large answer, which reports each event's error.
_FAULTS: Final = gzip.compress(b"[" + b"{}," * 1_999 + b"{}]")
#: 9 KB on the wire, and 9 MB inflated.
_GIANT: Final = gzip.compress(b"[" + (b" " * 4500 + b"{},") * 1_999 + b"{}]")
_BODY: Final = b"[" + b" " * (MIB - 3) + b"1]"
_HEADERS: Final = b"".join(b"X-Filler-%d: %s\r\n" % (n, b"x" * 150) for n in range(40))


class _Client:
    """One connection, which reads no more than the first bytes of an answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, piece: bytes) -> None:
        with suppress(ConnectionError):  # a refusal may come before everything is sent
            self._writer.write(piece)
            await self._writer.drain()

    async def hear(self) -> None:
        with suppress(ConnectionError):
            await self._reader.read(1)

    def leave(self) -> None:
        self._writer.transport.abort()


async def _connected(port: int) -> _Client:
    """Return a client with small buffers, so that the kernel does not buffer in place of the gateway."""
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, (LOOPBACK, port))
    return _Client(*await asyncio.open_connection(sock=narrow, limit=1024))


async def _all_say(port: int, count: int, *turns: bytes) -> None:
    """Send in turns, one piece of each client at a time; then await the start of all answers."""
    clients = [await _connected(port) for _ in range(count)]
    try:
        for piece in turns:
            await asyncio.gather(*(client.say(piece) for client in clients))
        await asyncio.gather(*(client.hear() for client in clients))
    finally:
        for client in clients:
            client.leave()


def _posted(content: bytes, *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return b"%s%sContent-Length: %d\r\n\r\n%s" % (_HEAD, lines, len(content), content)


def _late(whole: bytes) -> tuple[bytes, bytes]:
    return whole[:-4], whole[-4:]


_TURNS: Final[Mapping[str, tuple[bytes, ...]]] = {
    "stalled readers of large answers": (_posted(_FAULTS, b"Content-Encoding: gzip") * 3,),
    "gzips of 9 MB that end late": _late(_posted(_GIANT, b"Content-Encoding: gzip")),
    "bodies of 1 MiB that end late": _late(_posted(_BODY)),
    "silent connections": (b"", b"no HTTP\r\n\r\n"),
    "pipelines of 2,000 requests": (_posted(b"{}") * 2_000,),
    "headers that end late": _late(_HEAD + _HEADERS + b"Content-Length: 0\r\n\r\n"),
}
FLOODS: Final = tuple(_TURNS)


async def flood(name: str, port: int, clients: int) -> None:
    """Flood the gateway at `port`."""
    await _all_say(port, clients, *_TURNS[name])


def peak(pid: int) -> int:
    """Return the largest resident set of the process, in bytes, as the kernel saw it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def main() -> None:
    """Run each flood on a separate gateway."""
    parser = argparse.ArgumentParser("python -m loadtest.floods", description=__doc__)
    parser.add_argument("--budget", type=int, default=256, help="ONRAMP_INGEST_INFLIGHT_BYTES, in MiB")
    parser.add_argument("--clients", type=int, default=400)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    limit = args.budget + BESIDE / MIB
    with tempfile.TemporaryDirectory(prefix="onramp-floods-") as folder:
        kafka = Kafka(Path(folder))
        try:
            kafka.start()
            rows = [_measured(name, kafka.bootstrap, args.budget * MIB, args.clients) for name in FLOODS]
        finally:
            kafka.stop()
    print(f"{report.machine()}; {args.clients} clients, a budget of {args.budget} MiB\n")
    print("| flood | MiB before | MiB at most | limit |")
    print("|-|-|-|-|")
    for row in rows:
        print(f"| {row['flood']} | {row['before_mib']:.0f} | {row['most_mib']:.0f} | {limit:.0f} |")
    if args.out:
        command = " ".join(["python -m loadtest.floods", *sys.argv[1:]])
        figures = {"command": command, "machine": report.machine(), "limit_mib": limit, "floods": rows}
        args.out.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


def _measured(name: str, bootstrap: str, budget: int, clients: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="onramp-floods-") as folder:
        env = {"ONRAMP_INGEST_INFLIGHT_BYTES": str(budget), "ONRAMP_ALLOW_KEYLESS": "true"}
        gateway = services.gateway(bootstrap=bootstrap, log=Path(folder) / "gateway.log", env=env)
        try:
            gateway.start()
            gateway.wait_ready()
            before = peak(gateway.pid)
            asyncio.run(flood(name, gateway.port, clients))
            return {"flood": name, "before_mib": before / MIB, "most_mib": peak(gateway.pid) / MIB}
        finally:
            gateway.stop()


if __name__ == "__main__":
    main()
