"""JSON objects of one layout, cut into a column for each field without a parse of each object.

A producer writes one object like the next.  One of them, parsed alone, gives the layout: the bytes
between its values.  Another has the layout if it has those bytes at its own quotes: then it is the same
JSON with other values, and each value is what lies between two of them.

Texts are found by their quotes, so no object with a backslash has a layout.  A value that is no text has
no quote in it: no key, so no object but an empty one, and what opens in it closes in it.
"""

from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from services.writer.model.arrow_bytes import Pieces, offsets, place_in

_Mask = np.ndarray[Any, np.dtype[np.bool_]]
_Ints = np.ndarray[Any, np.dtype[np.int64]]
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
#: An object's values by field, each as the bytes that stand there.
raw_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Layout(NamedTuple):
    """What objects of one layout have in common."""

    #: The fields, in the order in which an object has them.
    names: tuple[str, ...]
    #: The bytes before each value, a text's first quote among them.
    gaps: tuple[bytes, ...]
    #: Which values are texts.
    are_texts: tuple[bool, ...]
    #: The bytes behind the last value.
    end: bytes

    @property
    def quotes(self) -> int:
        """The quotes of each object."""
        return sum(gap.count(_QUOTE) for gap in (*self.gaps, self.end))


def layout_of(body: bytes) -> Layout | None:
    """Return the layout of `body`, strict JSON; None if it has no field, or one that has no such place."""
    fields = raw_fields(body)
    if not fields or b"\\" in body:
        return None
    gaps, are_texts, position = [], [], 0
    for raw in fields.values():
        start, end = place_in(body, raw)
        is_text = body[start] == _QUOTE
        if not is_text and b'"' in body[start:end]:
            return None
        gaps.append(body[position : start + is_text])
        are_texts.append(is_text)
        position = end - is_text
    return Layout(tuple(fields), tuple(gaps), tuple(are_texts), body[position:])


class Cut(NamedTuple):
    """Which objects have a layout, and their values: a column for each field, texts without their quotes."""

    matches: _Mask
    columns: list[pa.BinaryArray]


def cut(layout: Layout, bodies: pa.BinaryArray) -> Cut:
    """Find those of `bodies`, each strict JSON, that have `layout`.  Costs a few passes over their bytes."""
    starts, ends, raw = _bytes_of(bodies)
    quotes = np.flatnonzero(raw == _QUOTE)
    first = np.searchsorted(quotes, starts)
    matches = np.diff(first, append=len(quotes)) == layout.quotes
    matches[np.searchsorted(starts, np.flatnonzero(raw == _BACKSLASH), "right") - 1] = False
    rows = np.flatnonzero(matches)
    bounds = _bounds(layout, starts[rows], ends[rows], quotes, first[rows])
    fits = (np.diff(bounds, axis=1) >= 0).all(axis=1)
    bounds[~fits] = starts[rows][~fits, np.newaxis]
    pieces = Pieces(bounds, len(raw), raw)
    for i, gap in enumerate((*layout.gaps, layout.end)):
        fits &= pieces.equal(2 * i, gap)
    matches[rows] = fits
    columns = [pieces.column(2 * i + 1) for i in range(len(layout.names))]
    return Cut(matches, columns if fits.all() else [c.filter(pa.array(fits)) for c in columns])


def _bytes_of(bodies: pa.BinaryArray) -> tuple[_Ints, _Ints, np.ndarray[Any, np.dtype[np.uint8]]]:
    """Return where each of `bodies` starts and ends in the bytes of all, and these bytes."""
    bounds = offsets(bodies).astype(np.int64)
    raw = np.frombuffer(bodies.buffers()[2], np.uint8)[bounds[0] : bounds[-1]]
    return bounds[:-1] - bounds[0], bounds[1:] - bounds[0], raw


def _bounds(layout: Layout, starts: _Ints, ends: _Ints, quotes: _Ints, first: _Ints) -> _Ints:
    """Return where each object would be cut: its start, each value's start and end, its end.

    `first`: the index in `quotes` of each object's first.
    """
    bounds = np.empty((len(starts), 2 * len(layout.names) + 2), np.int64)
    bounds[:, 0], bounds[:, -1] = starts, ends
    passed = 0
    for i, gap in enumerate(layout.gaps):
        passed += gap.count(_QUOTE)
        behind_quote = len(gap) - gap.rindex(b'"')
        bounds[:, 2 * i + 1] = quotes[first + passed - 1] + behind_quote
        if i + 1 < len(layout.gaps):
            bounds[:, 2 * i + 2] = quotes[first + passed] - layout.gaps[i + 1].index(b'"')
    bounds[:, -2] = ends - len(layout.end)
    return bounds
