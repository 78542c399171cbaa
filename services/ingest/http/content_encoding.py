"""Content encodings, inflated as a stream under a cap.

4.9 KB of gzip can hold 5 MB, and the zstandard package ignores its own output limit when a
frame declares its size; so every step asks the decompressor for no more than what the cap
leaves.
"""

import sys
import zlib
from collections.abc import Callable
from typing import Final, Protocol

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from shared.errors import BAD_COMPRESSION, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, UserError


class Codec(Protocol):
    """What one content encoding does."""

    @property
    def eof(self) -> bool:
        """Whether the compressed stream has ended."""
        ...

    def inflate(self, data: bytes, most: int) -> tuple[bytes, bool]:
        """At most `most` bytes more, and whether there may be still more without new data."""
        ...

    @property
    def unused_data(self) -> bytes:
        """What follows the end of the compressed stream."""
        ...


class _Zlib:
    def __init__(self, window: int) -> None:
        self._stream = zlib.decompressobj(window)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def inflate(self, data: bytes, most: int) -> tuple[bytes, bool]:
        out = self._stream.decompress(self._stream.unconsumed_tail + data, most)
        return out, len(out) == most and not self._stream.eof


class _Zstd:
    def __init__(self) -> None:
        self._stream = zstd.ZstdDecompressor()

    @property
    def eof(self) -> bool:
        return bool(self._stream.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._stream.unused_data)

    def inflate(self, data: bytes, most: int) -> tuple[bytes, bool]:
        out = self._stream.decompress(data, most)
        return out, not self._stream.needs_input and not self._stream.eof


_GZIP_WINDOW: Final = 31
_ZLIB_WINDOW: Final = 15
_CODECS: Final[dict[bytes, Callable[[], Codec]]] = {
    b"gzip": lambda: _Zlib(_GZIP_WINDOW),
    b"x-gzip": lambda: _Zlib(_GZIP_WINDOW),
    b"deflate": lambda: _Zlib(_ZLIB_WINDOW),
    b"zstd": _Zstd,
}
_PIECE: Final = 256 * 1024


def codec_of(encoding: bytes) -> Codec | None:
    """The codec of a Content-Encoding header, None for identity.

    Raises:
        UserError: another encoding, or one over another.
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
    """A compressed body as it arrives; `out` grows to `cap` at most."""

    def __init__(self, codec: Codec, cap: int) -> None:
        self.out = bytearray()
        self._codec = codec
        self._cap = cap

    def feed(self, data: bytes) -> None:
        """More of the body.  Raises `UserError` past the cap, and for what is no such stream."""
        try:
            more = bool(data)
            while more:
                if self._codec.eof:
                    raise UserError(BAD_COMPRESSION, "there are bytes after the end of the compressed stream")
                room = min(_PIECE, self._cap - len(self.out) + 1)
                piece, more = self._codec.inflate(data, room)
                data = b""
                self.out += piece
                if len(self.out) > self._cap:
                    raise UserError(BODY_TOO_LARGE, f"inflated it exceeds the limit of {self._cap} bytes")
        except (zlib.error, zstd.ZstdError):
            raise UserError(BAD_COMPRESSION, "the body is not what its Content-Encoding says") from None

    def finish(self) -> bytes:
        """The whole body.  Raises `UserError` when the stream was cut off."""
        if not self._codec.eof:
            raise UserError(BAD_COMPRESSION, "the compressed stream ends too early")
        if self._codec.unused_data:
            raise UserError(BAD_COMPRESSION, "there are bytes after the end of the compressed stream")
        return bytes(self.out)
