"""The lines of a spool file: each says by a checksum whether it is whole, so one that is cut harms no other.

+ CRC NUMBER BODY     an event
- CRC NUMBER NUMBER…  events that are settled
"""

import json
import zlib
from collections.abc import Iterable

_FIELDS = 3


def kept(number: int, body: bytes) -> bytes:
    """The line of an event."""
    return _line(b"+", b"%d %b" % (number, body))


def settled(numbers: Iterable[int]) -> bytes:
    """The line that crosses events out."""
    return _line(b"-", b" ".join(b"%d" % number for number in numbers))


def read(content: bytes) -> tuple[dict[int, bytes], int, int]:
    """The events that are not crossed out, the number after the last, and how many lines are damaged."""
    live: dict[int, bytes] = {}
    after = damaged = 0
    for line in filter(None, content.split(b"\n")):
        sign, crc, rest = (*line.split(b" ", 2), b"", b"")[:_FIELDS]
        if sign not in {b"+", b"-"} or crc != _crc(sign, rest):
            damaged += 1
        elif sign == b"+":
            number, _, body = rest.partition(b" ")
            live[int(number)] = body
            after = max(after, int(number) + 1)
        else:
            for number in rest.split(b" "):
                live.pop(int(number), None)
    return live, after, damaged


def id_of(body: bytes) -> str:
    """An envelope's id."""
    try:
        return str(json.loads(body)["metadata"]["id"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return "(no id)"


def _line(sign: bytes, rest: bytes) -> bytes:
    return b"%b %b %b\n" % (sign, _crc(sign, rest), rest)


def _crc(sign: bytes, rest: bytes) -> bytes:
    return b"%08x" % zlib.crc32(rest, zlib.crc32(sign))
