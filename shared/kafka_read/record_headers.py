"""Reads records' headers: headers in the gateway's form all at once, others one by one."""

from typing import Final

import numpy as np

from shared import wire
from shared.kafka_read.decompress import CorruptBatchError
from shared.kafka_read.records import LARGE, Headers
from shared.kafka_read.varints import VARINT_BITS, Bytes, Ints, as_varint, read_varint, read_varints

_MAX_COUNT: Final = 4
_MAX_RECEIVED_AT: Final = wire.MAX_HEADER_BYTES - len(wire.CONTEXT_BYTES)
_OURS: Final = {wire.HEADER_CONTEXT.encode(), wire.HEADER_RECEIVED_AT.encode()}
_OUR_SIZES: Final = frozenset(len(name) for name in _OURS)
#: Bytes that encode a complete non-null size.
_SHORT: Final = frozenset(range(0, VARINT_BITS, 2))


class _GatewayHeaders:
    """Headers in the gateway's form: the usual context, the time of receipt, at most two foreign headers."""

    def __init__(self) -> None:
        context, received_at = wire.HEADER_CONTEXT.encode(), wire.HEADER_RECEIVED_AT.encode()
        written = b"".join(as_varint(len(text)) + text for text in (context, wire.CONTEXT_BYTES, received_at))
        self._written = np.frombuffer(written, np.uint8)
        #: Bytes that may be read after the start of a record's headers.
        self.longest = len(written) + 1

    def find(self, data: Bytes, starts: Ints, ends: Ints) -> tuple[np.ndarray, Ints, Ints]:
        """Return which headers, from `starts` to before `ends`, have the form, and the bounds of received-at.

        The bounds of other headers are empty.  `data` has `longest` bytes after each start.
        """
        size = len(self._written)
        windows = np.lib.stride_tricks.sliding_window_view(data, size)
        count = data[starts] >> 1  # at most 63: longer varints do not have the form
        matches = (
            (data[starts] <= 2 * _MAX_COUNT)
            & (starts + size + 1 < ends)
            & (windows[np.minimum(starts + 1, len(windows) - 1)] == self._written).all(axis=1)
        )
        positions = np.where(matches, starts + 1 + size, starts)
        sizes, received_at = read_varints(data, positions)
        received_end = received_at + sizes
        matches &= (sizes >= 0) & (sizes <= _MAX_RECEIVED_AT) & (received_end <= ends)
        at = np.where(matches, received_end, starts)
        for number in range(2, _MAX_COUNT):
            more = np.flatnonzero(matches & (count > number))
            if not len(more):
                break
            at[more], other = _skip_foreign(data, at[more], ends[more])
            matches[more[~other]] = False
        matches &= at == ends
        return matches, np.where(matches, received_at, starts), np.where(matches, received_end, starts)


GATEWAY_HEADERS: Final = _GatewayHeaders()


def _skip_foreign(data: Bytes, at: Ints, ends: Ints) -> tuple[Ints, np.ndarray]:
    """Return the end of the header at each of `at`, and whether it is certainly not one of Onramp's."""
    name_sizes, names_at = read_varints(data, np.minimum(at, len(data) - 11))
    names_end = names_at + np.maximum(name_sizes, 0)
    fits = (name_sizes >= 0) & (names_end < ends)
    value_sizes, values_at = read_varints(data, np.where(fits, names_end, at))
    values_end = values_at + np.maximum(value_sizes, 0)
    other = fits & (values_end <= ends) & ~np.isin(name_sizes, list(_OUR_SIZES))
    return np.where(other, values_end, at), other


def headers_of(written: bytes) -> Headers:
    """Return the parsed headers of `written`, which begins with their number; the last of a name counts.

    More than `wire.MAX_HEADERS` headers are not read.  Raise `CorruptBatchError`.
    """
    try:
        count, at = read_varint(written, 0)
        if count > wire.MAX_HEADERS:
            return Headers(LARGE, None)
        headers: dict[str, bytes | None] = {}
        for _ in range(count):
            # Sizes of one byte are decoded inline, because a call would dominate the cost.
            byte = written[at]
            name_size, name_at = (byte >> 1, at + 1) if byte in _SHORT else read_varint(written, at)
            name_end = name_at + name_size if name_size > 0 else name_at
            byte = written[name_end]
            size, value_at = (byte >> 1, name_end + 1) if byte in _SHORT else read_varint(written, name_end)
            at = value_at + size if size > 0 else value_at
            if name_size in _OUR_SIZES and (name := written[name_at:name_end]) in _OURS:
                headers[name.decode()] = written[value_at:at] if size >= 0 else None
    except IndexError:
        at = -1
    if at != len(written):
        raise CorruptBatchError("a record's headers do not fill it")
    return Headers.of(headers)
