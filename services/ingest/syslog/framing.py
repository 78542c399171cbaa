"""Splits a TCP stream into messages by octet counts or newlines (RFC 6587), whichever a message uses."""

import re
from typing import Final

_COUNT: Final = re.compile(rb"([1-9][0-9]{0,8}) ")
_MAX_DIGITS: Final = 10
_ENDS: Final = b"\r\x00"


class FramingError(ValueError):
    """The stream announces a message longer than the limit: where the next one starts is unknown."""


class Framer:
    """Splits a stream into messages of at most `limit` bytes; buffers at most one message between calls."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """Add `data`, and return the messages that are complete now.

        A line over the limit is cut at the limit; the rest of it is skipped.

        Raises:
            FramingError: an octet count over the limit.
        """
        self._buffer += data
        messages: list[bytes] = []
        while self._buffer:
            message = self._counted() if self._is_counted() else self._line()
            if message is None:
                break
            if message:
                messages.append(message)
        return messages

    def finish(self) -> list[bytes]:
        """Return the rest at the stream's end: a last line without its newline."""
        rest = bytes(self._buffer).rstrip(_ENDS)
        self._buffer.clear()
        return [rest] if rest and not self._skipping and not _COUNT.match(rest) else []

    def _is_counted(self) -> bool:
        # Every message starts with `<`, so a digit is the start of a count.
        return not self._skipping and chr(self._buffer[0]) in "123456789"

    def _counted(self) -> bytes | None:
        count = _COUNT.match(self._buffer)
        if count is None:
            if len(self._buffer) < _MAX_DIGITS and self._buffer.isdigit():
                return None
            return self._line()  # digits that are not a count: a line
        size = int(count[1])
        if size > self._limit:
            raise FramingError(f"a message of {size} bytes is announced; the limit is {self._limit}")
        end = count.end() + size
        if len(self._buffer) < end:
            return None
        message = bytes(self._buffer[count.end() : end])
        del self._buffer[:end]
        return message.rstrip(_ENDS + b"\n")

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n")
        if end < 0:
            return self._cut()
        line = b"" if self._skipping else bytes(self._buffer[: min(end, self._limit)])
        del self._buffer[: end + 1]
        self._skipping = False
        return line.rstrip(_ENDS)

    def _cut(self) -> bytes | None:
        if self._skipping:
            self._buffer.clear()
            return None
        if len(self._buffer) <= self._limit:
            return None
        line = bytes(self._buffer[: self._limit])
        self._buffer.clear()
        self._skipping = True
        return line
