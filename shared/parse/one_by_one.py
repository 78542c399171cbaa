"""Parses values as envelopes and packets, with their members in any order.

`strict_json` and `shared.envelope` define validity; they parse each value that the fast path is not
certain of.  The fast path makes the same checks on hundreds of values at once: see `json_checks` and
`text_checks`.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from shared import envelope, strict_json
from shared.envelope import Metadata
from shared.errors import NO_ENVELOPE, UserError
from shared.parse import json_checks, text_checks
from shared.parse.events import COLUMNS, Events


class RawMetadata(msgspec.Struct, gc=False):
    """Metadata as sent; `timestamp` is RFC 3339 text that Arrow can cast."""

    id: str
    timestamp: str
    version: str


class Record(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An envelope (`metadata`, `event_name`, `payload`), a packet (`data`), or an envelope
    that names its destinations, like a packet.
    """  # noqa: D205 - one sentence

    # None means absent: these types do not accept a JSON null.
    metadata: RawMetadata = None  # type: ignore[assignment]
    event_name: str = None  # type: ignore[assignment]
    payload: msgspec.Raw = None  # type: ignore[assignment]
    data: msgspec.Raw = None  # type: ignore[assignment]
    pipeline_context: msgspec.Raw = None  # type: ignore[assignment]


class _Destined(msgspec.Struct, forbid_unknown_fields=True):
    """An envelope that names its destinations: the fields of `envelope.parse`, and `pipeline_context`."""

    metadata: Metadata
    event_name: envelope.EventName
    payload: msgspec.Raw
    pipeline_context: msgspec.Raw


class _Packet(msgspec.Struct, forbid_unknown_fields=True):
    pipeline_context: msgspec.Raw
    data: msgspec.Raw


#: Sizes of the parts on the fast path; a part that fails is split, finally into single values.
_PARTS: Final = (256, 16)
_BRACE: Final = ord("{")
_decode: Final = msgspec.json.Decoder(Record).decode
#: In place of a packet's metadata.
_NO_METADATA: Final = RawMetadata(None, None, None)  # type: ignore[arg-type]
#: In place of a value that is no event.
_NOTHING: Final = Record()


def read(values: Sequence[bytes | None]) -> Events:
    """Parse `values`; return one row for each value, in order, and an error for each invalid value."""
    return as_events(_recheck_unmatched(values, _read(values, _PARTS)))


def read_one(value: bytes | None) -> Record | UserError:
    """Parse one `value` by the contracts' own modules; return a NO_ENVELOPE error if it is not an event."""
    if value is None:
        return UserError(NO_ENVELOPE, "the record has no value (a tombstone)")
    try:
        document = strict_json.loads(value)
        strict_json.check_depth(value, document)
        if not isinstance(document, dict) or "pipeline_context" not in document:
            return _record(envelope.parse(value))
        if "metadata" in document:
            destined = _decode_as(value, _Destined, "payload")
            return _record(destined, destined.pipeline_context)
        packet = _decode_as(value, _Packet, "data")
        return Record(data=packet.data, pipeline_context=packet.pipeline_context)
    except UserError as e:
        return UserError(NO_ENVELOPE, f"{e.fault.code}: {e.detail}", e.pointer)


def _read(values: Sequence[bytes | None], parts: Sequence[int]) -> list[Record | UserError]:
    if not parts:
        return [read_one(value) for value in values]
    records: list[Record | UserError] = []
    for start in range(0, len(values), parts[0]):
        part = values[start : start + parts[0]]
        fast = _read_fast(part)
        records += _read(part, parts[1:]) if fast is None else fast
    return records


def _read_fast(values: Sequence[bytes | None]) -> Sequence[Record] | None:
    """Parse `values`; return None unless all of them are certainly strict JSON of a known shape."""
    try:
        records = [_decode(value) for value in values]  # type: ignore[arg-type]
        if json_checks.parse(values) is None:  # type: ignore[arg-type]
            return None
    except (TypeError, ValueError, RecursionError):  # a tombstone, or a parser rejects the JSON
        return None
    return records if all(map(_has_shape, records)) else None


def _has_shape(record: Record) -> bool:
    if record.metadata is None:
        is_bare = record.event_name is None and record.payload is None
        return is_bare and record.pipeline_context is not None and _is_object(record.data)
    return record.event_name is not None and record.data is None and _is_object(record.payload)


def _is_object(raw: msgspec.Raw | None) -> bool:
    return raw is not None and memoryview(raw)[0] == _BRACE


def _recheck_unmatched(
    values: Sequence[bytes | None], records: list[Record | UserError]
) -> list[Record | UserError]:
    """Re-parse, one by one and in place, the envelopes of `records` whose texts do not match the patterns."""
    indices = [i for i, r in enumerate(records) if isinstance(r, Record) and r.metadata is not None]
    envelopes: list[Any] = [records[i] for i in indices]
    metadata = [r.metadata for r in envelopes]
    times = pa.array([m.timestamp for m in metadata], pa.string())
    matches = text_checks.matches_patterns(
        pa.array([m.id for m in metadata], pa.string()),
        times,
        pa.array([m.version for m in metadata], pa.string()),
        pa.array([r.event_name for r in envelopes], pa.string()),
    )
    try:
        text_checks.as_times(times.filter(matches))
    except pa.ArrowInvalid:  # a value has an impossible date: each value is parsed alone to find it
        matches = pa.repeat(False, len(indices))
    if matches.true_count < len(indices):
        for i, ok in zip(indices, matches.to_pylist(), strict=True):
            if not ok:
                records[i] = read_one(values[i])
    return records


def as_events(parsed: Sequence[Record | UserError]) -> Events:
    """Convert `parsed` to columns; the row of an error is all null."""
    errors = {i: r for i, r in enumerate(parsed) if isinstance(r, UserError)}
    records = [_NOTHING if isinstance(r, UserError) else r for r in parsed]
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


def _decode_as(value: bytes, shape: Any, body: str) -> Any:
    """Decode `value` as `shape`, whose member `body` must be an object.  Raise `UserError`."""
    decoded = envelope.decode(value, shape)
    if not _is_object(getattr(decoded, body)):
        raise UserError(NO_ENVELOPE, "Expected `object`", f"/{body}")
    return decoded


def _record(event: Any, context: msgspec.Raw | None = None) -> Record:
    """Convert a decoded event, with a time of any spelling.  Raise `UserError`."""
    timestamp = envelope.as_utc(event.metadata.timestamp).isoformat().replace("+00:00", "Z")
    metadata = RawMetadata(event.metadata.id, timestamp, event.metadata.version)
    return Record(metadata, event.event_name, event.payload, pipeline_context=context)  # type: ignore[arg-type]
