"""Parses values of the same layout at once, as columns, without a parse of each value.

A producer writes all events in the same form.  One parsed value gives the template: the bytes between
its variable parts, which are its id, time, version, name and body.  A value matches the template if it
has all those bytes and the texts between them match their patterns.  Then it is the same JSON with other
texts, and only its body remains to be checked as JSON.

Quotes delimit the texts, so no text may contain a quote or a backslash.
"""

from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from shared.kafka_read.arrow_bytes import Pieces, offsets, place_in
from shared.parse import json_checks
from shared.parse.events import COLUMNS
from shared.parse.text_checks import PLAIN_VERSION, matches_patterns

_Mask = np.ndarray[Any, np.dtype[np.bool_]]
_Ints = np.ndarray[Any, np.dtype[np.int32]]
_QUOTE: Final = ord('"')
_OPEN, _CLOSE = ord("{"), ord("}")


class Template(NamedTuple):
    """The fixed bytes of a layout, and the columns between them."""

    #: The bytes before each text, and before the body.
    gaps: tuple[bytes, ...]
    #: The columns of the texts, in the order of the value.
    texts: tuple[str, ...]
    #: The bytes after the body.
    end: bytes
    #: The `pipeline_context` within the fixed bytes, or None.
    context: bytes | None


class _Metadata(msgspec.Struct):
    id: msgspec.Raw
    timestamp: msgspec.Raw
    version: msgspec.Raw


class _Spans(msgspec.Struct):
    # None means absent.
    metadata: _Metadata | None = None
    event_name: msgspec.Raw = None  # type: ignore[assignment]
    payload: msgspec.Raw = None  # type: ignore[assignment]
    data: msgspec.Raw = None  # type: ignore[assignment]
    pipeline_context: msgspec.Raw = None  # type: ignore[assignment]


_spans: Final = msgspec.json.Decoder(_Spans).decode


def template_of(value: bytes) -> Template | None:
    """Return the template of `value`, an envelope or a packet; None if a text follows the body."""
    spans = _spans(value)
    texts: dict[str, msgspec.Raw] = {}
    if spans.metadata is not None:
        texts = {"event_name": spans.event_name} | {
            name: getattr(spans.metadata, name) for name in ("id", "timestamp", "version")
        }
    body = spans.payload if texts else spans.data
    if body is None:
        return None
    body_start, body_end = place_in(value, body)
    ordered = sorted((place_in(value, raw), name) for name, raw in texts.items())
    gaps, position = [], 0
    for (start, end), _ in ordered:
        gaps.append(value[position : start + 1])
        position = end - 1
    if position > body_start:
        return None
    context = None if spans.pipeline_context is None else bytes(spans.pipeline_context)
    names = tuple(name for _, name in ordered)
    return Template((*gaps, value[position:body_start]), names, value[body_end:], context)


def _bounds(template: Template, values: pa.BinaryArray) -> tuple[_Ints, _Mask]:
    """Return the positions at which `template` would cut each value, and which values can match.

    The cuts: the value's start, each text's start and end, the body's start and end.
    """
    byte_offsets = offsets(values)
    raw = np.frombuffer(values.buffers()[2], np.uint8)
    starts, ends = byte_offsets[:-1], byte_offsets[1:]
    bounds = np.empty((len(values), 2 * len(template.texts) + 3), np.int32)
    bounds[:, 0] = starts
    if template.texts:
        quotes = np.flatnonzero(raw[: ends[-1]] == _QUOTE)
        quote_indices = np.searchsorted(quotes, starts) - 1
        for i, gap in enumerate(template.gaps[:-1]):
            quote_indices += gap.count(b'"')
            bounds[:, 2 * i + 1] = quotes.take(quote_indices, mode="clip") + 1
            bounds[:, 2 * i + 2] = quotes.take(quote_indices + 1, mode="clip")
    bounds[:, -2] = bounds[:, -3] + len(template.gaps[-1])
    bounds[:, -1] = ends - len(template.end)
    matches = (np.diff(bounds, axis=1) >= 0).all(axis=1) & (bounds[:, -2] < bounds[:, -1])
    bounds[~matches] = starts[~matches, np.newaxis]
    matches[matches] = (raw[bounds[matches, -2]] == _OPEN) & (raw[bounds[matches, -1] - 1] == _CLOSE)
    return bounds, matches


def _as_mask(flags: pa.BooleanArray) -> _Mask:
    mask: _Mask = flags.to_numpy(zero_copy_only=False)
    return mask


def _only(column: pa.Array, matches: _Mask) -> pa.Array:
    """Return the values that match, without a copy if all match, which is the usual case."""
    return column if matches.all() else column.filter(pa.array(matches))


class Match(NamedTuple):
    """The mask of values that match a template, and the columns (`COLUMNS`) of the matching values."""

    matches: _Mask
    columns: pa.RecordBatch


def match(template: Template, values: pa.BinaryArray) -> Match:
    """Return the values that certainly match `template` and have strict JSON bodies.

    The caller parses all other values one by one.  Costs a parse of each body and a few numpy passes over
    the bytes.  Raise `pa.ArrowInvalid` if a text is not UTF-8, or if a timestamp is an impossible date.
    """
    bounds, matches = _bounds(template, values)
    pieces = Pieces(bounds, int(offsets(values)[-1]), values.buffers()[2])
    for i, gap in enumerate((*template.gaps, template.end)):
        matches &= pieces.equal(2 * i, gap)
    texts = {name: pieces.column(2 * i + 1).cast(pa.string()) for i, name in enumerate(template.texts)}
    if texts:
        columns = (texts[name] for name in ("id", "timestamp", "version", "event_name"))
        matches &= _as_mask(matches_patterns(*columns, version=PLAIN_VERSION))
    bodies = pieces.column(2 * len(template.texts) + 1)
    matches[matches] = json_checks.strict_objects(_only(bodies, matches))
    return Match(matches, _columns(template, texts, bodies, matches))


def _columns(
    template: Template, texts: dict[str, pa.Array], bodies: pa.Array, matches: _Mask
) -> pa.RecordBatch:
    n = int(np.count_nonzero(matches))
    columns = {name: _only(text, matches) for name, text in texts.items()}
    columns |= {
        "body": _only(bodies, matches).view(pa.string()),  # orjson has checked that it is UTF-8
        "context": pa.repeat(pa.scalar(template.context, pa.binary()), n),
    }
    arrays = [columns[f.name].cast(f.type) if f.name in columns else pa.nulls(n, f.type) for f in COLUMNS]
    return pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)
