"""Facts of transforms about an event: its outputs, or the event that it is an output of.

No outcome of a single event is stored.  Outputs are found by their ids in tables, else by their header on
Kafka, back to the time of the event.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from services.ops.audit.classify import Kind
from services.ops.findings import Source
from services.ops.journey.evidence import Evidence, Output, Parent, Transformation
from services.ops.journey.kafka_side import OnKafka, Search
from services.ops.journey.subject import Receipt, subject_of
from services.ops.journey.table_rows_sql import EventRow
from services.ops.kafka_logs import LogRecord
from shared import wire
from shared.envelope import parse
from shared.errors import UserError
from shared.registry.transforms import Transform
from shared.transform_ids import output_id
from shared.transform_totals import Position

#: Maximum outputs of a transform that are named.
MAX_OUTPUTS: Final = 10
#: States of a parked event on which its transform has not run again.
_UNPROCESSED: Final = frozenset({"open", "replaying", "discarded"})


class Places(Protocol):
    """The places with outputs."""

    async def rows_with_id(self, id_: str, event_names: Iterable[str]) -> list[EventRow]:
        """Return the rows with an id in the tables of these event types."""

    async def records_since(
        self, event_name: str, record: LogRecord, is_wanted: Callable[[LogRecord], bool]
    ) -> Search:
        """Return the records of an event type since `record` that are wanted."""

    async def on_kafka(self, receipt: Receipt) -> OnKafka:
        """Return Kafka's answer about a receipt."""

    async def find_unstored(self, evidence: Evidence) -> bool:
        """Add parked events that are not stored to `evidence`; return whether all were searched."""

    async def position(self, transform: str, source: Source) -> Position | None:
        """Return the position of a transform in a partition; None if it has none."""


def parent_of(record: LogRecord | None, transforms: Mapping[str, Transform]) -> Parent | None:
    """Return the event of which the record is an output; None without the headers of a transform."""
    if record is None:
        return None
    source, version = (record.headers.get(name) for name in (wire.HEADER_SOURCE, wire.HEADER_TRANSFORM))
    try:
        receipt = subject_of((source or b"").decode())
    except (UserError, UnicodeDecodeError):
        return None
    if version is None or not isinstance(receipt, Receipt):
        return None
    text = version.decode(errors="replace")
    transform = transforms.get(text.partition("@")[0])
    return Parent(receipt, text, transform.source_type if transform else None)


async def transformations(
    evidence: Evidence, transforms: Mapping[str, Transform], places: Places
) -> list[Transformation]:
    """Return the facts of each transform that reads the event's type and has a function."""
    if evidence.event is not None and evidence.event.kind is not Kind.ENVELOPE:
        return []
    found = [
        await _transformation(evidence, name, transform, places)
        for name, transform in sorted(transforms.items())
        if transform.source_type == evidence.event_name
        and transform.source is not None
        and f"{wire.TRANSFORM_DESTINATION}{name}" not in _unprocessed(evidence)
    ]
    if any(each.seems_dropped(evidence.receipt.offset) for each in found):
        is_whole = await places.find_unstored(evidence)
        found = [replace(each, is_whole=each.is_whole and is_whole) for each in found]
    parked = _unprocessed(evidence)
    return [each for each in found if f"{wire.TRANSFORM_DESTINATION}{each.transform}" not in parked]


def _unprocessed(evidence: Evidence) -> set[str]:
    """Return the destinations of transforms that have parked the event, and not run on it again."""
    stored = {each.destination for each in evidence.stored() if each.state in _UNPROCESSED}
    return stored | {each.destination for each in evidence.unstored}


async def _transformation(
    evidence: Evidence, name: str, transform: Transform, places: Places
) -> Transformation:
    position = await places.position(name, evidence.receipt.source)
    ids = {evidence.kafka.topic_id, None}
    if position is not None and position.totals.topic_id not in ids:
        position = None  # of another generation of the topic
    outputs, is_whole = await _outputs_in_tables(evidence, name, transform, places), True
    if not outputs:
        outputs, is_whole = await _outputs_on_kafka(evidence, name, transform, places)
    first = next((each.receipt for each in outputs if each.receipt), None)
    record = (await places.on_kafka(first)).record if first else None
    parent = parent_of(record, {})
    return Transformation(
        transform=name,
        event_types=tuple(transform.to),
        position=position,
        outputs=tuple(outputs),
        version=parent.version if parent else "",
        is_whole=is_whole,
    )


async def _outputs_in_tables(
    evidence: Evidence, name: str, transform: Transform, places: Places
) -> list[Output]:
    """Return the outputs that tables with the key `_id` have, by their numbers without a hole."""
    outputs: list[Output] = []
    for k in range(1, MAX_OUTPUTS + 1) if evidence.id else ():
        id_ = output_id(name, str(evidence.id), k).decode()
        rows = await places.rows_with_id(id_, transform.to)
        if not rows:
            break
        outputs.append(Output(id_, rows[0].event_name, rows[0].receipt))
    return outputs


def _is_output(receipt: bytes, prefix: bytes, record: LogRecord) -> bool:
    """Return whether the record is an output of one event; `prefix`: the name of the transform, and an @."""
    version = record.headers.get(wire.HEADER_TRANSFORM, b"")
    return version.startswith(prefix) and record.headers.get(wire.HEADER_SOURCE) == receipt


async def _outputs_on_kafka(
    evidence: Evidence, name: str, transform: Transform, places: Places
) -> tuple[list[Output], bool]:
    """Return the outputs on Kafka, and whether there can be no others."""
    if evidence.kafka.record is None:
        return [], False
    is_wanted = partial(_is_output, str(evidence.receipt).encode(), f"{name}@".encode())
    outputs: dict[str, Output] = {}
    is_whole = True
    for event_name in transform.to:
        search = await places.records_since(event_name, evidence.kafka.record, is_wanted)
        is_whole = is_whole and search.is_whole and bool(search.extents)
        for record in search.records:
            output = Output(_id_of(record), event_name, Receipt(record.source, record.offset))
            outputs.setdefault(output.id, output)
    by_number = sorted(outputs.values(), key=lambda each: (len(each.id), each.id))
    return by_number[:MAX_OUTPUTS], is_whole or bool(outputs)


def _id_of(record: LogRecord) -> str:
    try:
        return parse(record.value or b"").metadata.id
    except UserError:
        return "an output without an id"
