"""The lines of a spool file: each has a checksum, so a damaged line does not affect others.

+ CRC NUMBER BODY     an event
- CRC NUMBER NUMBER…  events that are settled
"""

import json
import zlib
from collections.abc import Iterable

_FIELDS = 3


def event_line(number: int, body: bytes) -> bytes:
    """Return the line of an event."""
    return _line(b"+", b"%d %b" % (number, body))


def settled_line(numbers: Iterable[int]) -> bytes:
    """Return the line that marks events as settled."""
    return _line(b"-", b" ".join(b"%d" % number for number in numbers))


def read(content: bytes) -> tuple[dict[int, bytes], int, int]:
    """Return the unsettled events, the next number, and the number of damaged lines."""
    live: dict[int, bytes] = {}
    next_number = damaged = 0
    for line in filter(None, content.split(b"\n")):
        sign, crc, rest = (*line.split(b" ", 2), b"", b"")[:_FIELDS]
        if sign not in {b"+", b"-"} or crc != _crc(sign, rest):
            damaged += 1
        elif sign == b"+":
            number, _, body = rest.partition(b" ")
            live[int(number)] = body
            next_number = max(next_number, int(number) + 1)
        else:
            for number in rest.split(b" "):
                live.pop(int(number), None)
    return live, next_number, damaged


def id_of(body: bytes) -> str:
    """Return an envelope's id; `(no id)` if it has none."""
    try:
        return str(json.loads(body)["metadata"]["id"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return "(no id)"


def _line(sign: bytes, rest: bytes) -> bytes:
    return b"%b %b %b\n" % (sign, _crc(sign, rest), rest)


def _crc(sign: bytes, rest: bytes) -> bytes:
    return b"%08x" % zlib.crc32(rest, zlib.crc32(sign))
