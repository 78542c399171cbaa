"""DECODE: the body becomes items, each holding the producer's own bytes.

A body is judged at once because that is fast; only a batch that fails is judged again item
by item, so that one bad item never rejects its neighbours.  Of a large body no parser sees
more than a piece at a time, for a parser holds up everybody; and what is over a limit is
refused before it is parsed.
"""

import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from services.ingest.body_form import Form
from services.ingest.decode import cloudevents
from services.ingest.decode.array_items import cut, is_json
from services.ingest.request import BatchItem, RequestContext
from shared import strict_json
from shared.errors import BAD_JSON, BATCH_TOO_LARGE, EMPTY_BODY, EVENT_TOO_LARGE, UserError

_SLICES: Final = msgspec.json.Decoder(list[msgspec.Raw])
_ARRAY: Final = b"["
_WHITESPACE: Final = b" \t\r\n"
_LINE: Final = re.compile(rb"[^ \t\r\n][^\n]*")
#: As much as a parser may see at once: it holds up everybody for some 15 ms.
_WHOLE: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What a body and its items may be."""

    max_batch: int
    max_event_bytes: int


def decode(body: bytes, arrival: RequestContext, limits: Limits) -> list[BatchItem]:
    """The items of `body`.  Raises `UserError` when the document as a whole is refused."""
    if arrival.form is Form.CLOUDEVENT_BINARY:
        _check_size(body, limits)
        return [_from_cloudevent(cloudevents.from_headers(arrival.headers, body), arrival)]
    if not body or body.isspace():
        raise UserError(EMPTY_BODY, "the body is empty")
    if arrival.form is Form.LINES:
        arrival.single = False
        return _lines(body, limits)
    arrival.single = body.lstrip(_WHITESPACE)[:1] != _ARRAY
    if arrival.form in {Form.CLOUDEVENT, Form.CLOUDEVENTS}:
        return _cloudevents(body, arrival, limits)
    return [_one(body, limits)] if arrival.single else _batch(body, limits)


def _one(body: bytes, limits: Limits) -> BatchItem:
    _check_size(body, limits)
    document = strict_json.loads(body)
    if not isinstance(document, dict):
        raise UserError(BAD_JSON, "expected an object or an array of objects at the top")
    return BatchItem(body, document)


def _batch(body: bytes, limits: Limits) -> list[BatchItem]:
    if len(body) > _WHOLE:
        slices = _cut(body, limits, UserError(BAD_JSON, "the array could not be read"))
        return _whole([item for piece in _pieces(slices) for item in _judged_at_once(piece, limits)])
    try:
        documents = strict_json.loads(body)
    except UserError as refusal:
        slices = _cut(body, limits, refusal)
        return _whole([_judged(value, limits) for value in slices], refusal)
    assert isinstance(documents, list)  # noqa: S101 - its first byte is the bracket
    _check_count(len(documents), limits)
    return [
        BatchItem(bytes(raw), document) for raw, document in zip(_SLICES.decode(body), documents, strict=True)
    ]


def _lines(body: bytes, limits: Limits) -> list[BatchItem]:
    lines: list[bytes] = []
    for line in _LINE.finditer(body):
        lines.append(line[0].rstrip(_WHITESPACE))
        if len(lines) > limits.max_batch:
            break
    _check_count(len(lines), limits)
    return [item for piece in _pieces(lines) for item in _judged_at_once(piece, limits)]


def _pieces(values: list[bytes]) -> Iterator[list[bytes]]:
    """The values in pieces that a parser may see at once; a larger value is a piece of its own."""
    piece: list[bytes] = []
    size = 0
    for value in values:
        if piece and size + len(value) > _WHOLE:
            yield piece
            piece, size = [], 0
        piece.append(value)
        size += len(value)
    yield piece


def _judged_at_once(values: list[bytes], limits: Limits) -> list[BatchItem]:
    # One parse for all.  A mark that no sender can guess stands between them, so that one
    # with two values, or half of one, cannot pass as something else.
    if len(values[0]) <= limits.max_event_bytes:
        mark = secrets.token_hex(8)
        try:
            documents = strict_json.loads(b"[" + (b',"%s",' % mark.encode()).join(values) + b"]")
        except UserError:
            documents = None
        if isinstance(documents, list) and documents[1::2] == [mark] * (len(values) - 1):
            return [
                BatchItem(value, document) for value, document in zip(values, documents[::2], strict=True)
            ]
    return [_judged(value, limits) for value in values]


def _cloudevents(body: bytes, arrival: RequestContext, limits: Limits) -> list[BatchItem]:
    if arrival.single != (arrival.form is Form.CLOUDEVENT):
        raise UserError(BAD_JSON, "a CloudEvent is an object, a batch of them an array")
    if arrival.single:
        _check_size(body, limits)
        strict_json.loads(body)
        return [_from_cloudevent(body, arrival)]
    slices = _cut(body, limits, UserError(BAD_JSON, "the array could not be read"))
    return _whole([_judged(value, limits, lambda v: _from_cloudevent(v, arrival)) for value in slices])


def _from_cloudevent(value: bytes, arrival: RequestContext) -> BatchItem:
    try:
        strict_json.loads(value)
        envelope = cloudevents.to_envelope(value, arrival.received_at)
        return BatchItem(envelope, strict_json.loads(envelope))
    except UserError as refusal:
        return BatchItem(value, None, refusal)


def _cut(body: bytes, limits: Limits, refusal: UserError) -> list[bytes]:
    slices = cut(body, limits.max_batch)
    if slices is None:
        raise refusal
    _check_count(len(slices), limits)
    return slices


def _whole(items: list[BatchItem], refusal: UserError | None = None) -> list[BatchItem]:
    """The items of an array, unless one is no JSON at all: then the array is none either."""
    for item in items:
        verdict = item.verdict
        if isinstance(verdict, UserError) and verdict.fault is BAD_JSON and not is_json(item.value):
            raise refusal or UserError(BAD_JSON, "the array could not be read")
    return items


def _check_count(count: int, limits: Limits) -> None:
    if not count:
        raise UserError(EMPTY_BODY, "there is no event in the body")
    if count > limits.max_batch:
        raise UserError(BATCH_TOO_LARGE, f"the limit is {limits.max_batch} events")


def _check_size(value: bytes, limits: Limits) -> None:
    if len(value) > limits.max_event_bytes:
        raise UserError(EVENT_TOO_LARGE, f"{len(value)} bytes; the limit is {limits.max_event_bytes}")


def _item(value: bytes) -> BatchItem:
    return BatchItem(value, strict_json.loads(value))


def _judged(value: bytes, limits: Limits, read: Callable[[bytes], BatchItem] = _item) -> BatchItem:
    try:
        _check_size(value, limits)
        return read(value)
    except UserError as refusal:
        return BatchItem(value, None, refusal)
