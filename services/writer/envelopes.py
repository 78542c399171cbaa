"""Reads a run's values as envelopes and packets, hundreds at a time.

The judgement is `strict_json`'s and `shared.envelope`'s, and a value that the fast way is
not sure of goes through them alone.  The fast way asks the same questions of many values
at once: Arrow's regular expressions over the column, one parse of the values joined into
one array, one regular expression over all ids.

Joining is safe because each value has been decoded alone before, to its end: msgspec and
orjson agree on where a value ends, so that no value can reach into its neighbour.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from shared import envelope, strict_json
from shared.envelope import Metadata
from shared.errors import NO_ENVELOPE, UserError

#: What stands where a record has no such field.
_NONE: Final = msgspec.Raw(b"")


class RawMetadata(msgspec.Struct):
    """Metadata as sent; `timestamp` in a form that Arrow reads."""

    id: str
    timestamp: str
    version: str


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """An envelope (`metadata`, `event_name`, `payload`), a packet (`data`), or an envelope
    that names its destinations like a packet.
    """  # noqa: D205 - one sentence

    # None is "not there": the types keep a null from passing for it.
    metadata: RawMetadata = None  # type: ignore[assignment]
    event_name: str = None  # type: ignore[assignment]
    payload: msgspec.Raw = _NONE
    data: msgspec.Raw = _NONE
    pipeline_context: msgspec.Raw = _NONE

    @property
    def body(self) -> bytes:
        """What lands: an envelope's payload, a packet's data."""
        return bytes(self.payload if self.metadata is not None else self.data)


class _Destined(msgspec.Struct, forbid_unknown_fields=True):
    """An envelope with its destinations beside it: what `envelope.parse` reads, and one field."""

    metadata: Metadata
    event_name: envelope.EventName
    payload: msgspec.Raw
    pipeline_context: msgspec.Raw


class _Packet(msgspec.Struct, forbid_unknown_fields=True):
    pipeline_context: msgspec.Raw
    data: msgspec.Raw


_AT_ONCE: Final = 256
_BRACE: Final = ord("{")
_decode: Final = msgspec.json.Decoder(Record).decode
#: What `strict_json` suspects, and more brackets than levels are allowed.
_SUSPICIOUS: Final = r'[0-9]{19}|\\u00|"[ \t\r\n]+:'
_BRACKETS: Final = rf"^(?:[^{{\[]*[{{\[]){{{strict_json.MAX_DEPTH + 1}}}"
_ID: Final = r"^[A-Za-z0-9._:-]{1,128}$"
_NAME: Final = r"^[a-z][a-z0-9_]{0,62}$"
_VERSION: Final = r"^(?s:.){1,32}$"
#: The usual RFC 3339; other spellings and centuries go the slow way.
_TIME: Final = (
    r"^[12]\d{3}-\d{2}-\d{2}T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
)
_TIMESTAMP: Final = pa.timestamp("us", "UTC")


def read(column: pa.Array) -> list[Record | UserError]:
    """What each of the values of `column` (binary) is, or the error that says what is wrong with it."""
    values = column.to_pylist()
    plain = pc.invert(
        pc.or_(pc.match_substring_regex(column, _SUSPICIOUS), pc.match_substring_regex(column, _BRACKETS))
    ).to_pylist()
    found: list[Record | UserError] = []
    for start in range(0, len(values), _AT_ONCE):
        part = values[start : start + _AT_ONCE]
        records = _read_plain(part) if all(plain[start : start + _AT_ONCE]) else None
        found += records or [_read_one(value) for value in part]
    return _in_form(values, found)


def _read_plain(values: Sequence[bytes]) -> Sequence[Record] | None:
    """The records of `values` if all of them are surely strict JSON of a known shape."""
    try:
        records = [_decode(value) for value in values]
        joined = b"[" + b",".join(values) + b"]"
        document = orjson.loads(joined)
        keys = orjson.dumps(document).count(b'":')
    except (msgspec.DecodeError, orjson.JSONDecodeError, orjson.JSONEncodeError, ValueError, RecursionError):
        return None
    # Equal keys leave fewer marks in the document than in the bytes: see strict_json.
    if keys != joined.count(b'":') or len(document) != len(records):
        return None
    return records if all(_has_shape(r) for r in records) else None


def _has_shape(record: Record) -> bool:
    if record.metadata is None:
        is_bare = record.event_name is None and not _size(record.payload)
        return is_bare and _size(record.pipeline_context) > 0 and _is_object(record.data)
    return record.event_name is not None and not _size(record.data) and _is_object(record.payload)


def _size(raw: msgspec.Raw) -> int:
    return len(memoryview(raw))


def _is_object(raw: msgspec.Raw) -> bool:
    view = memoryview(raw)
    return bool(view) and view[0] == _BRACE


def _in_form(values: Sequence[bytes | None], found: list[Record | UserError]) -> list[Record | UserError]:
    """`found`, with each envelope whose names or times are not in the usual form judged alone."""
    at = [i for i, r in enumerate(found) if isinstance(r, Record) and r.metadata is not None]
    envelopes: list[Any] = [found[i] for i in at]
    metadata = [r.metadata for r in envelopes]
    times = pa.array([m.timestamp for m in metadata], pa.string())
    good = pc.and_(
        pc.and_(
            pc.match_substring_regex(pa.array([m.id for m in metadata], pa.string()), _ID),
            pc.match_substring_regex(pa.array([r.event_name for r in envelopes], pa.string()), _NAME),
        ),
        pc.and_(
            pc.match_substring_regex(pa.array([m.version for m in metadata], pa.string()), _VERSION),
            pc.match_substring_regex(times, _TIME),
        ),
    )
    try:
        times.filter(good).cast(_TIMESTAMP)
    except pa.ArrowInvalid:  # a day or an hour that no calendar has: not every value's fault
        good = pa.repeat(False, len(at))
    if good.true_count < len(at):
        for i, well in zip(at, good.to_pylist(), strict=True):
            if not well:
                found[i] = _read_one(values[i])
    return found


def _read_one(value: bytes | None) -> Record | UserError:
    """What `value` is, judged alone by the contracts' own words."""
    if value is None:
        return UserError(NO_ENVELOPE, "the record has no value (a tombstone)")
    try:
        document = strict_json.loads(value)
        strict_json.check_depth(value, document)
        if not isinstance(document, dict) or "pipeline_context" not in document:
            return _record(envelope.parse(value))
        if "metadata" in document:
            return _record(_shaped(value, _Destined, "payload"))
        packet = _shaped(value, _Packet, "data")
        return Record(data=packet.data, pipeline_context=packet.pipeline_context)
    except UserError as e:
        return UserError(NO_ENVELOPE, f"{e.fault.code}: {e.detail}", e.pointer)


def _shaped(value: bytes, shape: Any, body: str) -> Any:
    found = envelope.decode(value, shape)
    if not _is_object(getattr(found, body)):
        raise UserError(NO_ENVELOPE, "Expected `object`", f"/{body}")
    return found


def _record(event: Any) -> Record:
    """`event` with its time in a form that Arrow reads, whatever its spelling and century."""
    context = getattr(event, "pipeline_context", _NONE)
    metadata = RawMetadata(event.metadata.id, _utc(event.metadata.timestamp), event.metadata.version)
    return Record(metadata, event.event_name, event.payload, _NONE, context)


def _utc(time: datetime) -> str:
    try:
        return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        raise UserError(
            NO_ENVELOPE, "the time is not within the years 1 to 9999", "/metadata/timestamp"
        ) from None
