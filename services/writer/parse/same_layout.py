"""Reads values that are written alike: all at once, as columns, without looking into each.

A producer writes one event like the next.  One value that was judged alone shows the form:
the bytes between what differs, which are its id, time, version, name and its body.  A value
has that form when all those bytes are there and what is between them is well: then it is the
same JSON with other texts in it, and only the body is left to be judged as JSON.

Quotes find the texts: none of the texts may hold a quote or a backslash.
"""

from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from services.writer.model.arrow_bytes import offsets
from services.writer.parse import json_checks
from services.writer.parse.events import COLUMNS
from services.writer.parse.text_checks import PLAIN_VERSION, usual

_Mask = np.ndarray[Any, np.dtype[np.bool_]]
_Ints = np.ndarray[Any, np.dtype[np.int32]]
_QUOTE: Final = ord('"')
_OPEN, _CLOSE = ord("{"), ord("}")


class Form(NamedTuple):
    """How values are written."""

    #: The bytes before each text, and before the body.
    gaps: tuple[bytes, ...]
    #: The columns that the texts belong to, in the value's order.
    texts: tuple[str, ...]
    #: The bytes after the body.
    end: bytes
    #: The `pipeline_context` among those bytes.
    context: bytes | None


class _Metadata(msgspec.Struct):
    id: msgspec.Raw
    timestamp: msgspec.Raw
    version: msgspec.Raw


class _Spans(msgspec.Struct):
    # None is "not there".
    metadata: _Metadata | None = None
    event_name: msgspec.Raw = None  # type: ignore[assignment]
    payload: msgspec.Raw = None  # type: ignore[assignment]
    data: msgspec.Raw = None  # type: ignore[assignment]
    pipeline_context: msgspec.Raw = None  # type: ignore[assignment]


_spans: Final = msgspec.json.Decoder(_Spans).decode


def form_of(value: bytes) -> Form | None:
    """The form of `value`, an envelope or a packet; none if one of its texts stands behind the body."""
    spans = _spans(value)
    texts: dict[str, msgspec.Raw] = {}
    if spans.metadata is not None:
        texts = {"event_name": spans.event_name} | {
            name: getattr(spans.metadata, name) for name in ("id", "timestamp", "version")
        }
    body = spans.payload if texts else spans.data
    if body is None:
        return None
    begin, last = _place(value, body)
    ordered = sorted((_place(value, raw), name) for name, raw in texts.items())
    gaps, at = [], 0
    for (start, end), _ in ordered:
        gaps.append(value[at : start + 1])
        at = end - 1
    if at > begin:
        return None
    context = None if spans.pipeline_context is None else bytes(spans.pipeline_context)
    return Form((*gaps, value[at:begin]), tuple(name for _, name in ordered), value[last:], context)


def _place(value: bytes, raw: msgspec.Raw) -> tuple[int, int]:
    """Where `raw` begins and ends in the `value` that it is a view of."""
    part = np.frombuffer(memoryview(raw), np.uint8)
    start = int(part.ctypes.data - np.frombuffer(value, np.uint8).ctypes.data)
    assert value[start : start + len(part)] == bytes(raw)  # noqa: S101 - it is a view
    return start, start + len(part)


class _Pieces:
    """Values cut at `bounds`: a row for each value, its pieces from the first byte to the next value."""

    def __init__(self, values: pa.BinaryArray, bounds: _Ints) -> None:
        n, self._each = bounds.shape
        cuts = np.append(bounds.ravel(), offsets(values)[-1]).astype(np.int32)
        buffers = [None, pa.py_buffer(cuts), values.buffers()[2]]
        self._pieces = pa.Array.from_buffers(pa.binary(), n * self._each, buffers)

    def at(self, i: int) -> pa.BinaryArray:
        """Each value's piece number `i`."""
        return self._pieces.take(pa.array(np.arange(i, len(self._pieces), self._each)))

    def equal(self, i: int, text: bytes) -> _Mask:
        """Which values have `text` as that piece."""
        return _as_mask(pc.equal(self.at(i), pa.scalar(text, pa.binary())))


def _bounds(form: Form, values: pa.BinaryArray) -> tuple[_Ints, _Mask]:
    """Where each value would be cut if it had `form`, and which can have it.

    The cuts: the value's start, each text's start and end, the body's start and end.
    """
    at_bytes = offsets(values)
    raw = np.frombuffer(values.buffers()[2], np.uint8)
    starts, ends = at_bytes[:-1], at_bytes[1:]
    bounds = np.empty((len(values), 2 * len(form.texts) + 3), np.int32)
    bounds[:, 0] = starts
    if form.texts:
        quotes = np.flatnonzero(raw[: ends[-1]] == _QUOTE)
        at = np.searchsorted(quotes, starts) - 1
        for i, gap in enumerate(form.gaps[:-1]):
            at += gap.count(b'"')
            bounds[:, 2 * i + 1] = quotes.take(at, mode="clip") + 1
            bounds[:, 2 * i + 2] = quotes.take(at + 1, mode="clip")
    bounds[:, -2] = bounds[:, -3] + len(form.gaps[-1])
    bounds[:, -1] = ends - len(form.end)
    has = (np.diff(bounds, axis=1) >= 0).all(axis=1) & (bounds[:, -2] < bounds[:, -1])
    bounds[~has] = starts[~has, np.newaxis]
    has[has] = (raw[bounds[has, -2]] == _OPEN) & (raw[bounds[has, -1] - 1] == _CLOSE)
    return bounds, has


def _as_mask(found: pa.Array) -> _Mask:
    mask: _Mask = found.to_numpy(zero_copy_only=False)
    return mask


class Found(NamedTuple):
    """Which values have a form, and those values' columns (`COLUMNS`)."""

    has: _Mask
    columns: pa.RecordBatch


def find(form: Form, values: pa.BinaryArray) -> Found:
    """The values that surely have `form` and strict JSON in their bodies.

    Raises `pa.ArrowInvalid` when a text of any value is no UTF-8, or a time no time.
    """
    bounds, has = _bounds(form, values)
    pieces = _Pieces(values, bounds)
    for i, gap in enumerate((*form.gaps, form.end)):
        has &= pieces.equal(2 * i, gap)
    texts = {name: pieces.at(2 * i + 1).cast(pa.string()) for i, name in enumerate(form.texts)}
    if texts:
        columns = (texts[name] for name in ("id", "timestamp", "version", "event_name"))
        has &= _as_mask(usual(*columns, version=PLAIN_VERSION))
    bodies = pieces.at(2 * len(form.texts) + 1)
    has[has] = json_checks.strict_objects(bodies.filter(pa.array(has)))
    return Found(has, _columns(form, texts, bodies, pa.array(has)))


def _columns(form: Form, texts: dict[str, pa.Array], bodies: pa.Array, has: pa.Array) -> pa.RecordBatch:
    n = has.true_count
    columns = {name: text.filter(has) for name, text in texts.items()}
    columns |= {
        "body": bodies.filter(has).view(pa.string()),  # its parser has seen that it is UTF-8
        "context": pa.repeat(pa.scalar(form.context, pa.binary()), n),
    }
    arrays = [columns[f.name].cast(f.type) if f.name in columns else pa.nulls(n, f.type) for f in COLUMNS]
    return pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)
