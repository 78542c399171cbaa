"""Infers an event type from samples: texts of events or payloads, or the newest records of a topic."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import orjson

from shared.contracts.infer import Samples
from shared.contracts.tables import columns_of
from shared.errors import UserError
from shared.strict_json import check_depth

_ENVELOPE: Final = frozenset({"metadata", "event_name", "payload"})


class Inferred(NamedTuple):
    """The schema that the samples have in common, and its columns.

    `problem`: the reason why a field cannot be a column.  `skipped`: texts that are no JSON or nested too
    deep, or events of other names.
    """

    schema: dict[str, Any]
    columns: list[dict[str, Any]]
    samples: int
    skipped: int
    problem: str = ""


def inferred_from(
    texts: Iterable[bytes | str | None], name: str, *, of_events_only: bool = False
) -> Inferred:
    """Return what is common to the payloads of events of a name; other JSON documents are payloads.

    `of_events_only`: other documents are skipped too, such as packets on a topic of several event types.
    """
    samples, used, skipped = Samples(), 0, 0
    for text in texts:
        payload = payload_of(text, name, of_events_only=of_events_only)
        if payload is None:
            skipped += 1
        else:
            used += 1
            samples.add(payload)
    schema = samples.schema()
    try:
        columns = [column._asdict() for column in columns_of(schema)]
    except ValueError as error:
        return Inferred(schema, [], used, skipped, str(error))
    return Inferred(schema, columns, used, skipped)


def payload_of(text: bytes | str | None, name: str, *, of_events_only: bool = False) -> object:
    """Return the payload of an event of this name, or the document that is no event; else None.

    A document that is nested deeper than events may be is none.
    """
    body = text.encode(errors="surrogatepass") if isinstance(text, str) else text or b""
    try:
        document = orjson.loads(body)
        check_depth(body, document)
    except (orjson.JSONDecodeError, UserError):
        return None
    if not isinstance(document, dict) or not document.keys() >= _ENVELOPE:
        return None if of_events_only else document
    return document["payload"] if document["event_name"] == name else None


def event_of(text: str, name: str, event_id: str) -> str:
    """Return a sample as an event, byte for byte in its payload; a payload gets an envelope of its own."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    if isinstance(document, dict) and document.keys() >= _ENVELOPE:
        return text
    metadata = {"id": event_id, "timestamp": datetime.now(UTC).isoformat(), "version": "1"}
    head = orjson.dumps({"metadata": metadata, "event_name": name}).decode()
    return f'{head[:-1]},"payload":{text}}}'
