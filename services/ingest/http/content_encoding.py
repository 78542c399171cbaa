"""Content encodings, decompressed as a stream up to a limit.

4.9 KB of gzip can hold 5 MB, and the zstandard package ignores its own output limit when a
frame declares its size; so every call asks the decompressor for no more than the limit
leaves.

A gzip or zstd body is one or more consecutive members (frames; RFC 1952, RFC 8878): files that
were concatenated, and tools that compress in parts, have several.
"""

import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from services.ingest.http.growing_buffer import Growing
from shared.errors import BAD_COMPRESSION, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, UserError

_GZIP_WINDOW: Final = 31
_ZLIB_WINDOW: Final = 15
#: Each member costs a decompressor (about ten microseconds), however few bytes it has.
_MAX_MEMBERS: Final = 1_000
#: Data after a member is copied from the data that it ends in, so the next members get slices.
_SLICE: Final = 16 * 1024


class Codec(Protocol):
    """The decompressor of one member of a content encoding."""

    #: Creates the decompressor of the next member; None if the encoding has only one.
    next: "Callable[[], Codec] | None"

    @property
    def eof(self) -> bool:
        """Return whether the member has ended."""
        ...

    def inflate(self, data: bytes | memoryview, max_bytes: int) -> tuple[bytes, bool]:
        """Return at most `max_bytes` more, and whether more may follow without new data."""
        ...

    @property
    def unused_data(self) -> bytes:
        """Return the data after the end of the member."""
        ...


class _Zlib:
    def __init__(self, window: int) -> None:
        self._stream = zlib.decompressobj(window)
        self.next: Callable[[], Codec] | None = _gzip if window == _GZIP_WINDOW else None

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def inflate(self, data: bytes | memoryview, max_bytes: int) -> tuple[bytes, bool]:
        out = self._stream.decompress(self._stream.unconsumed_tail + data, max_bytes)
        return out, len(out) == max_bytes and not self._stream.eof


class _Zstd:
    def __init__(self) -> None:
        self.next: Callable[[], Codec] | None = _Zstd
        self._stream = zstd.ZstdDecompressor()

    @property
    def eof(self) -> bool:
        return bool(self._stream.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._stream.unused_data)

    def inflate(self, data: bytes | memoryview, max_bytes: int) -> tuple[bytes, bool]:
        out = self._stream.decompress(data, max_bytes)
        return out, not self._stream.needs_input and not self._stream.eof


def _gzip() -> Codec:
    return _Zlib(_GZIP_WINDOW)


_CODECS: Final[dict[bytes, Callable[[], Codec]]] = {
    b"gzip": _gzip,
    b"x-gzip": _gzip,
    b"deflate": lambda: _Zlib(_ZLIB_WINDOW),
    b"zstd": _Zstd,
}
_PIECE: Final = 256 * 1024


def codec_of(encoding: bytes) -> Codec | None:
    """Return the codec of a Content-Encoding header; None for identity.

    Raises:
        UserError: another encoding, or several.
    """
    name = encoding.strip().lower()
    if name in {b"", b"identity"}:
        return None
    if name not in _CODECS:
        raise UserError(
            UNSUPPORTED_MEDIA_TYPE, "this content encoding is not supported: send one of gzip, zstd, deflate"
        )
    return _CODECS[name]()


class Inflater:
    """Decompresses a body piece by piece to `size` bytes, at most `max_bytes`."""

    def __init__(self, codec: Codec, max_bytes: int) -> None:
        self.size = 0
        #: Most bodies are one piece.
        self._first = b""
        self._growing: Growing | None = None
        self._codec = codec
        self._members = 1
        self._max_bytes = max_bytes

    def feed(self, data: bytes) -> Iterator[int]:
        """Decompress a piece of the body; yield the size after each step, for its reservation.

        Raises:
            UserError: past the limit, and for a broken stream.
        """
        left = memoryview(data)
        try:
            while left:
                if self._codec.eof:
                    self._begin_member()
                piece = left if self._members == 1 else left[:_SLICE]
                yield from self._inflate(piece)
                left = left[len(piece) - len(self._codec.unused_data) :]
        except (zlib.error, zstd.ZstdError):
            raise UserError(BAD_COMPRESSION, "the body does not match its Content-Encoding") from None

    def _inflate(self, data: bytes | memoryview) -> Iterator[int]:
        more = True
        while more:
            room = min(_PIECE, self._max_bytes - self.size + 1)
            piece, more = self._codec.inflate(data, room)
            data = b""
            self._add(piece)
            if self.size > self._max_bytes:
                raise UserError(
                    BODY_TOO_LARGE, f"the decompressed body exceeds the limit of {self._max_bytes} bytes"
                )
            yield self.size

    def _begin_member(self) -> None:
        if self._codec.next is None:
            raise UserError(BAD_COMPRESSION, "there are bytes after the end of the compressed stream")
        if self._members == _MAX_MEMBERS:
            raise UserError(BAD_COMPRESSION, f"it has more than {_MAX_MEMBERS} gzip members or zstd frames")
        self._codec, self._members = self._codec.next(), self._members + 1

    def finish(self) -> bytes:
        """Return the whole body. Raises `UserError` if the stream was cut off."""
        if not self._codec.eof:
            raise UserError(BAD_COMPRESSION, "the compressed stream ends too early")
        return self._first if self._growing is None else self._growing.whole()

    def _add(self, piece: bytes) -> None:
        if not piece:
            return
        if self._growing is None and self.size:
            self._growing = Growing(self._max_bytes + 1)
            self._growing.add(self._first)
            self._first = b""
        if self._growing is None:
            self._first = piece
        else:
            self._growing.add(piece)
        self.size += len(piece)
