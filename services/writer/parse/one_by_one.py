"""Reads values as envelopes and packets, whatever the order of their members.

The judgement is `strict_json`'s and `shared.envelope`'s, and a value that the fast ways are
not sure of goes through them alone.  The fast way asks the same questions of hundreds of
values at once: see `bulk` and `texts`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa

from services.writer.parse import json_checks, text_checks
from services.writer.parse.events import COLUMNS, Events
from shared import envelope, strict_json
from shared.envelope import Metadata
from shared.errors import NO_ENVELOPE, UserError


class RawMetadata(msgspec.Struct, gc=False):
    """Metadata as sent; `timestamp` in a form that Arrow reads."""

    id: str
    timestamp: str
    version: str


class Record(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An envelope (`metadata`, `event_name`, `payload`), a packet (`data`), or an envelope
    that names its destinations like a packet.
    """  # noqa: D205 - one sentence

    # None is "not there": the types keep a null from passing for it.
    metadata: RawMetadata = None  # type: ignore[assignment]
    event_name: str = None  # type: ignore[assignment]
    payload: msgspec.Raw = None  # type: ignore[assignment]
    data: msgspec.Raw = None  # type: ignore[assignment]
    pipeline_context: msgspec.Raw = None  # type: ignore[assignment]


class _Destined(msgspec.Struct, forbid_unknown_fields=True):
    """An envelope with its destinations beside it: what `envelope.parse` reads, and one field."""

    metadata: Metadata
    event_name: envelope.EventName
    payload: msgspec.Raw
    pipeline_context: msgspec.Raw


class _Packet(msgspec.Struct, forbid_unknown_fields=True):
    pipeline_context: msgspec.Raw
    data: msgspec.Raw


#: A part of the run that is not surely plain is read in smaller ones, the last value by value.
_PARTS: Final = (256, 16)
_BRACE: Final = ord("{")
_decode: Final = msgspec.json.Decoder(Record).decode
#: What stands for the metadata of a packet.
_NO_METADATA: Final = RawMetadata(None, None, None)  # type: ignore[arg-type]
#: What stands for a value that is no event.
_NOTHING: Final = Record()


def read(values: Sequence[bytes | None]) -> Events:
    """What each of `values` is, or the error that says what is wrong with it."""
    return as_events(_in_form(values, _read(values, _PARTS)))


def read_one(value: bytes | None) -> Record | UserError:
    """What `value` is, judged alone by the contracts' own words."""
    if value is None:
        return UserError(NO_ENVELOPE, "the record has no value (a tombstone)")
    try:
        document = strict_json.loads(value)
        strict_json.check_depth(value, document)
        if not isinstance(document, dict) or "pipeline_context" not in document:
            return _record(envelope.parse(value))
        if "metadata" in document:
            destined = _shaped(value, _Destined, "payload")
            return _record(destined, destined.pipeline_context)
        packet = _shaped(value, _Packet, "data")
        return Record(data=packet.data, pipeline_context=packet.pipeline_context)
    except UserError as e:
        return UserError(NO_ENVELOPE, f"{e.fault.code}: {e.detail}", e.pointer)


def _read(values: Sequence[bytes | None], parts: Sequence[int]) -> list[Record | UserError]:
    if not parts:
        return [read_one(value) for value in values]
    found: list[Record | UserError] = []
    for start in range(0, len(values), parts[0]):
        part = values[start : start + parts[0]]
        plain = _read_plain(part)
        found += _read(part, parts[1:]) if plain is None else plain
    return found


def _read_plain(values: Sequence[bytes | None]) -> Sequence[Record] | None:
    """The records of `values` if all of them are surely strict JSON of a known shape."""
    try:
        records = [_decode(value) for value in values]  # type: ignore[arg-type]
        if json_checks.parse(values) is None:  # type: ignore[arg-type]
            return None
    except (TypeError, ValueError, RecursionError):  # no value; no JSON, in one parser's words or the other's
        return None
    return records if all(map(_has_shape, records)) else None


def _has_shape(record: Record) -> bool:
    if record.metadata is None:
        is_bare = record.event_name is None and record.payload is None
        return is_bare and record.pipeline_context is not None and _is_object(record.data)
    return record.event_name is not None and record.data is None and _is_object(record.payload)


def _is_object(raw: msgspec.Raw | None) -> bool:
    return raw is not None and memoryview(raw)[0] == _BRACE


def _in_form(values: Sequence[bytes | None], found: list[Record | UserError]) -> list[Record | UserError]:
    """`found`, with each envelope whose names or times are not in the usual form judged alone."""
    at = [i for i, r in enumerate(found) if isinstance(r, Record) and r.metadata is not None]
    envelopes: list[Any] = [found[i] for i in at]
    metadata = [r.metadata for r in envelopes]
    times = pa.array([m.timestamp for m in metadata], pa.string())
    good = text_checks.usual(
        pa.array([m.id for m in metadata], pa.string()),
        times,
        pa.array([m.version for m in metadata], pa.string()),
        pa.array([r.event_name for r in envelopes], pa.string()),
    )
    try:
        text_checks.as_times(times.filter(good))
    except pa.ArrowInvalid:  # a day or an hour that no calendar has: not every value's fault
        good = pa.repeat(False, len(at))
    if good.true_count < len(at):
        for i, well in zip(at, good.to_pylist(), strict=True):
            if not well:
                found[i] = read_one(values[i])
    return found


def as_events(found: Sequence[Record | UserError]) -> Events:
    """`found` as columns."""
    errors = {i: r for i, r in enumerate(found) if isinstance(r, UserError)}
    records = [_NOTHING if isinstance(r, UserError) else r for r in found]
    metadata = [r.metadata or _NO_METADATA for r in records]
    bodies = [r.payload if r.metadata is not None else r.data for r in records]
    contexts = [r.pipeline_context for r in records]
    arrays = [
        pa.array([m.id for m in metadata], pa.string()),
        text_checks.as_times(pa.array([m.timestamp for m in metadata], pa.string())),
        pa.array([m.version for m in metadata], pa.string()),
        pa.array([r.event_name for r in records], pa.string()),
        pa.array([None if b is None else bytes(b) for b in bodies], pa.binary()).cast(pa.string()),
        pa.array([None if c is None else bytes(c) for c in contexts], pa.binary()),
    ]
    return Events(pa.RecordBatch.from_arrays(arrays, schema=COLUMNS), errors)


def _shaped(value: bytes, shape: Any, body: str) -> Any:
    found = envelope.decode(value, shape)
    if not _is_object(getattr(found, body)):
        raise UserError(NO_ENVELOPE, "Expected `object`", f"/{body}")
    return found


def _record(event: Any, context: msgspec.Raw | None = None) -> Record:
    """`event` with its time in a form that Arrow reads, whatever its spelling and century."""
    metadata = RawMetadata(event.metadata.id, _utc(event.metadata.timestamp), event.metadata.version)
    return Record(metadata, event.event_name, event.payload, pipeline_context=context)  # type: ignore[arg-type]


def _utc(time: datetime) -> str:
    try:
        return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        raise UserError(
            NO_ENVELOPE, "the time is not within the years 1 to 9999", "/metadata/timestamp"
        ) from None
