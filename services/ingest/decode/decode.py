"""DECODE: the body becomes items, each holding the producer's own bytes.

A body is parsed as one document because that is fast; only a batch that fails is parsed again
item by item, so that one bad item never rejects other items. A large body is parsed in
pieces, because no other request is served while a parser runs. A body over a limit is
rejected before it is parsed.
"""

import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from services.ingest.body_form import Form
from services.ingest.decode import cloudevents
from services.ingest.decode.array_items import is_json, split_array
from services.ingest.request import BatchItem, RequestContext
from shared import strict_json
from shared.errors import BAD_JSON, BATCH_TOO_LARGE, EMPTY_BODY, EVENT_TOO_LARGE, UserError

_SLICES: Final = msgspec.json.Decoder(list[msgspec.Raw])
_ARRAY: Final = b"["
_WHITESPACE: Final = b" \t\r\n"
_LINE: Final = re.compile(rb"[^ \t\r\n][^\n]*")
#: Maximum bytes per parser call: no other thread runs for about 15 ms.
_PIECE_BYTES: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a body: its events, and the bytes of each."""

    max_batch: int
    max_event_bytes: int


def decode(body: bytes, request: RequestContext, limits: Limits) -> list[BatchItem]:
    """Return the items of `body`; an item that is not strict JSON has its verdict.

    Raises:
        UserError: the body as a whole is rejected.
    """
    if request.form is Form.CLOUDEVENT_BINARY:
        _check_size(body.strip(_WHITESPACE), limits)  # in text they are data, and CHECK counts them
        event = cloudevents.from_headers(request.headers, request.repeated, body)
        return [_from_cloudevent(event, request)]
    if not body or body.isspace():
        raise UserError(EMPTY_BODY, "the body is empty")
    if request.form is Form.LINES:
        request.single = False
        return _lines(body, limits)
    # An event has the same bytes alone, in an array and on a line: blanks around it are not part of it.
    body = body.strip(_WHITESPACE)
    request.single = body[:1] != _ARRAY
    if request.form in {Form.CLOUDEVENT, Form.CLOUDEVENTS}:
        return _cloudevents(body, request, limits)
    return [_single(body, limits)] if request.single else _batch(body, limits)


def _single(body: bytes, limits: Limits) -> BatchItem:
    _check_size(body, limits)
    document = strict_json.loads(body)
    if not isinstance(document, dict):
        raise UserError(BAD_JSON, "expected an object or an array of objects at the top")
    return BatchItem(body, document)


def _batch(body: bytes, limits: Limits) -> list[BatchItem]:
    if len(body) > _PIECE_BYTES:
        slices = _split(body, limits, UserError(BAD_JSON, "the array could not be read"))
        return _require_json([item for piece in _pieces(slices) for item in _parse_together(piece, limits)])
    try:
        documents = strict_json.loads(body)
    except UserError as error:
        slices = _split(body, limits, error)
        return _require_json([_parse_one(value, limits) for value in slices], error)
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
    return [item for piece in _pieces(lines) for item in _parse_together(piece, limits)]


def _pieces(values: list[bytes]) -> Iterator[list[bytes]]:
    """Yield the values in pieces of at most `_PIECE_BYTES`; a larger value is a piece of its own."""
    piece: list[bytes] = []
    size = 0
    for value in values:
        if piece and size + len(value) > _PIECE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(value)
        size += len(value)
    yield piece


def _parse_together(values: list[bytes], limits: Limits) -> list[BatchItem]:
    # One call for all. An unguessable separator is between them, so that a
    # value that holds two documents, or half of one, cannot pass as another value.
    if len(values[0]) <= limits.max_event_bytes:
        separator = secrets.token_hex(8)
        try:
            documents = strict_json.loads(b"[" + (b',"%s",' % separator.encode()).join(values) + b"]")
        except UserError:
            documents = None
        if isinstance(documents, list) and documents[1::2] == [separator] * (len(values) - 1):
            return [
                BatchItem(value, document) for value, document in zip(values, documents[::2], strict=True)
            ]
    return [_parse_one(value, limits) for value in values]


def _cloudevents(body: bytes, request: RequestContext, limits: Limits) -> list[BatchItem]:
    if request.single != (request.form is Form.CLOUDEVENT):
        raise UserError(BAD_JSON, "a CloudEvent is an object, a batch of them an array")
    if request.single:
        _check_size(body, limits)
        strict_json.loads(body)
        return [_from_cloudevent(body, request)]
    slices = _split(body, limits, UserError(BAD_JSON, "the array could not be read"))
    return _require_json(
        [_parse_one(value, limits, lambda v: _from_cloudevent(v, request)) for value in slices]
    )


def _from_cloudevent(value: bytes, request: RequestContext) -> BatchItem:
    try:
        strict_json.check_depth(value, strict_json.loads(value))
        envelope = cloudevents.to_envelope(value, request.received_at)
        return BatchItem(envelope, strict_json.loads(envelope))
    except UserError as error:
        return BatchItem(value, None, error.without_frames())


def _split(body: bytes, limits: Limits, error: UserError) -> list[bytes]:
    slices = split_array(body, limits.max_batch)
    if slices is None:
        raise error
    _check_count(len(slices), limits)
    return slices


def _require_json(items: list[BatchItem], error: UserError | None = None) -> list[BatchItem]:
    """Return the items of an array; raise if an item is not JSON, because then the array is not either."""
    for item in items:
        verdict = item.verdict
        if isinstance(verdict, UserError) and verdict.fault is BAD_JSON and not is_json(item.value):
            raise error or UserError(BAD_JSON, "the array could not be read")
    return items


def _check_count(count: int, limits: Limits) -> None:
    if not count:
        raise UserError(EMPTY_BODY, "there is no event in the body")
    if count > limits.max_batch:
        raise UserError(BATCH_TOO_LARGE, f"the limit is {limits.max_batch} events")


def _check_size(value: bytes, limits: Limits) -> None:
    if len(value) > limits.max_event_bytes:
        raise UserError(EVENT_TOO_LARGE, f"{len(value)} bytes; the limit is {limits.max_event_bytes}")


def _parse(value: bytes) -> BatchItem:
    return BatchItem(value, strict_json.loads(value))


def _parse_one(value: bytes, limits: Limits, parse: Callable[[bytes], BatchItem] = _parse) -> BatchItem:
    try:
        _check_size(value, limits)
        return parse(value)
    except UserError as error:
        return BatchItem(value, None, error.without_frames())
