"""Cuts JSON objects of one layout into a column for each field, without a parse of each object.

A producer writes all objects in the same form.  One object is parsed, and gives the layout: the bytes
between its values.  Another object has the layout if it has the same bytes at its own quotes.  Then it is
the same JSON with other values, and each value lies between two of these byte strings.

Quotes delimit texts, so an object with a backslash has no layout.  A value that is not a text contains no
quote: it has no key, so it contains only empty objects, and every bracket that opens in it closes in it.
"""

from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from shared.kafka_read.arrow_bytes import Pieces, offsets, place_in

_Mask = np.ndarray[Any, np.dtype[np.bool_]]
_Ints = np.ndarray[Any, np.dtype[np.int64]]
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
#: Decodes an object to its values by field, each as raw bytes.
raw_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Layout(NamedTuple):
    """The bytes that objects of one layout share."""

    #: The fields, in the order of the object.
    names: tuple[str, ...]
    #: The bytes before each value, including a text's opening quote.
    gaps: tuple[bytes, ...]
    #: Flags of the values that are texts.
    are_texts: tuple[bool, ...]
    #: The bytes after the last value.
    end: bytes

    @property
    def quotes(self) -> int:
        """Number of quotes in each object."""
        return sum(gap.count(_QUOTE) for gap in (*self.gaps, self.end))


def layout_of(body: bytes) -> Layout | None:
    """Return the layout of `body`, strict JSON; None if it has no field or cannot be cut at its quotes."""
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
    """The mask of objects that match, and their values: a column for each field, texts without quotes."""

    matches: _Mask
    columns: list[pa.BinaryArray]


def cut(layout: Layout, bodies: pa.BinaryArray) -> Cut:
    """Cut those of `bodies`, each strict JSON, that have `layout`.  Costs a few passes over their bytes."""
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
    """Return the start and end of each of `bodies` in the joined bytes, and the joined bytes."""
    bounds = offsets(bodies).astype(np.int64)
    raw = np.frombuffer(bodies.buffers()[2], np.uint8)[bounds[0] : bounds[-1]]
    return bounds[:-1] - bounds[0], bounds[1:] - bounds[0], raw


def _bounds(layout: Layout, starts: _Ints, ends: _Ints, quotes: _Ints, first: _Ints) -> _Ints:
    """Return the positions at which to cut each object: its start, each value's start and end, its end.

    `first`: the index in `quotes` of each object's first quote.
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
