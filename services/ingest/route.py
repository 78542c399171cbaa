"""ROUTE: determines an envelope's topic, key and headers on Kafka."""

import re
from typing import Any, Final

from services.ingest.request import BatchItem, RequestContext
from services.ingest.sink import Headers, Record
from shared import wire
from shared.errors import KEY_MISSING, UserError
from shared.steps import Step

_TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_MAX_KEY_BYTES: Final = 1024


def route(items: list[BatchItem], request: RequestContext) -> None:
    """Set the record of every item that passed the checks.

    Also drop the parsed documents: no later step reads them, and while Kafka is slow they would
    use up to 25 times the bytes of the events.
    """
    headers = _headers(request)
    for item in items:
        if item.verdict is None and item.envelope is not None:
            try:
                item.record = _record(item, headers)
            except UserError as error:
                item.verdict = error.at(Step.ROUTE).without_frames()
        item.document = None


def _record(item: BatchItem, headers: Headers) -> Record:
    assert item.envelope is not None  # noqa: S101 - route() looked
    event_type = item.event_type
    topic = wire.topic_of(item.envelope.event_name)
    if event_type is None:
        return Record(topic, item.envelope.metadata.id.encode(), item.value, headers)
    if event_type.topic is not None:
        topic = event_type.topic
    if event_type.key is None:
        return Record(topic, item.envelope.metadata.id.encode(), item.value, headers)
    return Record(topic, _key_at(item.document, event_type.key), item.value, headers)


def _key_at(document: Any, pointer: str) -> bytes:
    value = document["payload"]
    for escaped in pointer.split("/")[1:]:
        name = escaped.replace("~1", "/").replace("~0", "~")
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UserError(KEY_MISSING, "no string or number there", "/payload" + pointer)
    key = str(value).encode()
    if not 0 < len(key) <= _MAX_KEY_BYTES:
        raise UserError(KEY_MISSING, f"a key has 1 to {_MAX_KEY_BYTES} bytes", "/payload" + pointer)
    return key


def _headers(request: RequestContext) -> Headers:
    headers = [
        (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES),
        (wire.HEADER_RECEIVED_AT, request.received_at.encode()),
        (wire.HEADER_PRODUCER, request.producer.encode()),
    ]
    trace = request.headers.get(b"traceparent")
    if trace is not None and _TRACEPARENT.fullmatch(trace):
        headers.append((wire.HEADER_TRACEPARENT, trace))
    return headers
