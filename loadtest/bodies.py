"""The bodies of requests, rendered once; only the numbers of each request are rendered again.

Every packet has a number of nine digits: its id ends in it and its data or payload holds it
as `i`, so that 15 bytes suffice for a packet that can be told from all others.
"""

import gzip
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np
import orjson
from numpy.typing import NDArray

from loadtest.shapes import KAFKA, NDJSON, SINGLE, SYSLOG, Shape

DIGITS: Final = 9
FIRST_NUMBER: Final = 10 ** (DIGITS - 1)
SCHEMA: Final = "public"
_PLACE: Final = b"9" * DIGITS
_POWERS: Final = 10 ** np.arange(DIGITS - 1, -1, -1, dtype=np.int64)
_FASTEST: Final = 1


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one run's packets; each run has its own."""

    run: str
    database: str = "onramp"

    @property
    def event(self) -> str:
        """The event name, and the table's."""
        return f"load_{self.run}"

    @property
    def id_prefix(self) -> str:
        """Return what an id starts with, before its number."""
        return f"{self.run}-"


def data(size: int) -> bytes:
    """Return a packet's data or payload, of `size` bytes (or as few as a number needs)."""
    least = b'{"i":%s}' % _PLACE
    if size < len(least) + len(b',"note":""'):
        return least
    return b'{"i":%s,"note":"%s"}' % (_PLACE, b"x" * (size - len(least) - len(b',"note":""')))


def one(shape: Shape, names: Names) -> bytes:
    """Return one packet, envelope or syslog line of this shape."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    if shape.via == SYSLOG:
        note = b" " + b"x" * (shape.size - DIGITS - 1) if shape.size > DIGITS + 1 else b""
        return b"<134>1 %s loadtest %s - - - %s%s" % (now.encode(), names.event.encode(), _PLACE, note)
    if shape.via == KAFKA:
        destination = {"type": "postgres", "vanity": names.database, "schema": SCHEMA, "table": names.event}
        context = orjson.dumps({"destinations": [destination]})
        return b'{"pipeline_context":%s,"data":%s}' % (context, data(shape.size))
    metadata = {"id": names.id_prefix + _PLACE.decode(), "timestamp": now, "version": "1"}
    return b'{"metadata":%s,"event_name":"%s","payload":%s}' % (
        orjson.dumps(metadata),
        names.event.encode(),
        data(shape.size),
    )


class Bodies:
    """The bodies of one run's requests."""

    def __init__(self, shape: Shape, names: Names) -> None:
        """Write the first one."""
        self._via = shape.via
        separator = b"," if shape.via not in (SYSLOG, NDJSON) else b"\n"
        item = one(shape, names) + separator
        self._parts = one(shape, names).split(_PLACE)
        self._positions = _positions(item)
        self._items: NDArray[np.uint8] = np.tile(np.frombuffer(item, np.uint8), (shape.batch, 1))
        self._numbers = np.arange(shape.batch, dtype=np.int64)[:, None]

    @property
    def content_type(self) -> str:
        """The header's value."""
        return "application/x-ndjson" if self._via == NDJSON else "application/json"

    def body(self, first: int) -> bytes:
        """Return the body whose packets have the numbers from `first` on."""
        if self._via in (SINGLE, KAFKA):
            return str(first).encode().join(self._parts)
        digits = ((first + self._numbers) // _POWERS % 10 + ord("0")).astype(np.uint8)
        for position in self._positions:
            self._items[:, position : position + DIGITS] = digits
        text = self._items.tobytes()
        if self._via == SYSLOG:
            return text
        if self._via == NDJSON:
            return gzip.compress(text, _FASTEST)
        return b"[" + text[:-1] + b"]"


def _positions(item: bytes) -> list[int]:
    positions, position = [], item.find(_PLACE)
    while position >= 0:
        positions.append(position)
        position = item.find(_PLACE, position + DIGITS)
    return positions
