"""ROUTE: determines an envelope's topic, key and headers on Kafka."""

import re
from typing import Any, Final

from services.ingest.request import BatchItem, RequestContext
from services.ingest.sink import Headers, Record
from shared import wire
from shared.contracts.key_at_pointer import key_at
from shared.errors import UserError
from shared.path_steps import Step

_TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


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
    return Record(topic, key_at(_payload_of(item.document), event_type.key), item.value, headers)


def _payload_of(document: Any) -> Any:
    return document["payload"]


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
