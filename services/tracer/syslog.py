"""The entrances over syslog: one message in the format of RFC 5424, over TCP or UDP.

Syslog has no answer.  A gateway reads a TCP connection to its end, and closes it when Kafka has its messages;
a datagram is acknowledged by its row only.
"""

import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal
from urllib.parse import urlsplit

from services.tracer.entrances import RefusedError
from services.tracer.rows_sql import SYSLOG, SYSLOG_APP

_SECONDS: Final = 10.0
#: Facility local0, severity informational.
_PRI: Final = 134


@dataclass(frozen=True, slots=True)
class SyslogEntrance:
    """One transport at one gateway."""

    transport: Literal["tcp", "udp"]
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> "SyslogEntrance":
        """Return the entrance at tcp://host:port or udp://host:port.  Raises `ValueError`."""
        parts = urlsplit(url)
        if parts.scheme not in {"tcp", "udp"} or not parts.hostname or not parts.port or parts.path:
            raise ValueError("each syslog URL is tcp://host:port or udp://host:port")
        return cls("tcp" if parts.scheme == "tcp" else "udp", parts.hostname, parts.port)

    @property
    def name(self) -> str:
        """Return the entrance's name: the form, and the gateway's host and port."""
        return f"syslog_{self.transport}@{self.host}:{self.port}"

    @property
    def table(self) -> str:
        """Return the table of its rows."""
        return SYSLOG

    def send(self, tracer_id: str) -> bool:
        """Send the tracer, and return whether the gateway has acknowledged it.  Raises `RefusedError`."""
        at = datetime.now(UTC).isoformat()
        message = f"<{_PRI}>1 {at} - {SYSLOG_APP} - - - {tracer_id}".encode()
        try:
            if self.transport == "udp":
                self._send_datagram(message)
                return False
            self._send_stream(message)
        except OSError as e:
            raise RefusedError(f"no answer: {type(e).__name__}") from None
        return True

    def _send_datagram(self, message: bytes) -> None:
        family, kind, protocol, _, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_DGRAM)[
            0
        ]
        with socket.socket(family, kind, protocol) as sender:
            sender.sendto(message, address)

    def _send_stream(self, message: bytes) -> None:
        """Send the message, and return when the gateway has closed the connection after its end."""
        with socket.create_connection((self.host, self.port), timeout=_SECONDS) as sender:
            sender.sendall(b"%d %b" % (len(message), message))
            sender.shutdown(socket.SHUT_WR)
            while sender.recv(4096):
                pass
