"""DECODE: the body becomes items, each holding the producer's own bytes.

The whole body is judged at once because that is fast; only a batch that fails is judged
again item by item, so that one bad item never rejects its neighbours.
"""

import secrets
from typing import Final

import msgspec

from services.ingest import cloudevents
from services.ingest.forms import Form
from services.ingest.items import Arrival, Item
from services.ingest.slices import cut
from shared import strict_json
from shared.errors import BAD_JSON, BATCH_TOO_LARGE, EMPTY_BODY, UserError

_SLICES: Final = msgspec.json.Decoder(list[msgspec.Raw])
_ARRAY: Final = b"["
_WHITESPACE: Final = b" \t\r\n"


def decode(body: bytes, arrival: Arrival, max_batch: int) -> list[Item]:
    """The items of `body`.  Raises `UserError` when the document as a whole is refused."""
    if arrival.form is Form.CLOUDEVENT_BINARY:
        return [_from_cloudevent(cloudevents.from_headers(arrival.headers, body), arrival)]
    if not body or body.isspace():
        raise UserError(EMPTY_BODY, "the body is empty")
    if arrival.form is Form.LINES:
        arrival.single = False
        return _lines(body, max_batch)
    arrival.single = body.lstrip(_WHITESPACE)[:1] != _ARRAY
    if arrival.form in {Form.CLOUDEVENT, Form.CLOUDEVENTS}:
        return _cloudevents(body, arrival, max_batch)
    return [_one(body)] if arrival.single else _batch(body, max_batch)


def _one(body: bytes) -> Item:
    document = strict_json.loads(body)
    if not isinstance(document, dict):
        raise UserError(BAD_JSON, "expected an object or an array of objects at the top")
    return Item(body, document)


def _batch(body: bytes, max_batch: int) -> list[Item]:
    try:
        documents = strict_json.loads(body)
    except UserError as refusal:
        return _item_by_item(body, max_batch, refusal)
    assert isinstance(documents, list)  # noqa: S101 - its first byte is the bracket
    _check_count(len(documents), max_batch)
    slices = _SLICES.decode(body)
    return [Item(bytes(raw), document) for raw, document in zip(slices, documents, strict=True)]


def _lines(body: bytes, max_batch: int) -> list[Item]:
    lines = [line for each in body.split(b"\n") if (line := each.strip(_WHITESPACE))]
    _check_count(len(lines), max_batch)
    # One parse for all lines.  A mark that no sender can guess stands between them, so that
    # a line with two values, or half of one, cannot pass as something else.
    mark = secrets.token_hex(8)
    try:
        documents = strict_json.loads(b"[" + (b',"%s",' % mark.encode()).join(lines) + b"]")
    except UserError:
        documents = None
    if isinstance(documents, list) and documents[1::2] == [mark] * (len(lines) - 1):
        return [Item(line, document) for line, document in zip(lines, documents[::2], strict=True)]
    return [_judged(line) for line in lines]


def _cloudevents(body: bytes, arrival: Arrival, max_batch: int) -> list[Item]:
    if arrival.single != (arrival.form is Form.CLOUDEVENT):
        raise UserError(BAD_JSON, "a CloudEvent is an object, a batch of them an array")
    if arrival.single:
        strict_json.loads(body)
        return [_from_cloudevent(body, arrival)]
    slices = cut(body)
    if slices is None:
        raise UserError(BAD_JSON, "the array could not be read")
    _check_count(len(slices), max_batch)
    return [_from_cloudevent(value, arrival) for value in slices]


def _from_cloudevent(value: bytes, arrival: Arrival) -> Item:
    try:
        strict_json.loads(value)
        return _judged(cloudevents.to_envelope(value, arrival.received_at))
    except UserError as refusal:
        return Item(value, None, refusal)


def _item_by_item(body: bytes, max_batch: int, refusal: UserError) -> list[Item]:
    slices = cut(body)
    if slices is None:
        raise refusal
    _check_count(len(slices), max_batch)
    return [_judged(value) for value in slices]


def _check_count(count: int, max_batch: int) -> None:
    if not count:
        raise UserError(EMPTY_BODY, "there is no event in the body")
    if count > max_batch:
        raise UserError(BATCH_TOO_LARGE, f"{count} events; the limit is {max_batch}")


def _judged(value: bytes) -> Item:
    try:
        return Item(value, strict_json.loads(value))
    except UserError as refusal:
        return Item(value, None, refusal)
