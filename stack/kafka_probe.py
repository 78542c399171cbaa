"""A real question to a Kafka broker, asked with the standard library alone.

An open port says nothing: a broker accepts connections long before it has joined its
cluster. The probe asks for the cluster's metadata and counts the brokers that are up.
Protocol: https://kafka.apache.org/protocol (Metadata request, key 3, version 1).
"""

import socket
import struct
from dataclasses import dataclass

_METADATA = 3
_VERSION = 1
_CORRELATION = 7
_TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a broker says of its cluster: the ids of the brokers that are up, the controller's id."""

    brokers: tuple[int, ...]
    controller: int


def ask(host: str, port: int) -> Cluster | None:
    """Return what the broker says, None while it cannot answer."""
    try:
        with socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS) as connection:
            connection.sendall(_request())
            size = struct.unpack(">i", _read(connection, 4))[0]
            return _parse(_read(connection, size))
    except (OSError, EOFError, struct.error):
        return None


def _request() -> bytes:
    client = b"onramp-probe"
    header = struct.pack(">hhih", _METADATA, _VERSION, _CORRELATION, len(client)) + client
    no_topics = struct.pack(">i", 0)
    body = header + no_topics
    return struct.pack(">i", len(body)) + body


def _parse(answer: bytes) -> Cluster:
    correlation, count = struct.unpack_from(">ii", answer)
    if correlation != _CORRELATION:
        raise EOFError("the answer is to another question")
    at, brokers = 8, []
    for _ in range(count):
        (broker,) = struct.unpack_from(">i", answer, at)
        at = _skip_string(answer, at + 4) + 4  # host, port
        at = _skip_string(answer, at)  # rack
        brokers.append(broker)
    (controller,) = struct.unpack_from(">i", answer, at)
    return Cluster(brokers=tuple(brokers), controller=controller)


def _skip_string(answer: bytes, at: int) -> int:
    length: int = struct.unpack_from(">h", answer, at)[0]
    return at + 2 + max(0, length)


def _read(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise EOFError("the broker closed the connection")
        parts += part
    return bytes(parts)
