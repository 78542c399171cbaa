"""Reads a run's values as envelopes and packets, hundreds at a time.

The judgement is `strict_json`'s and `shared.envelope`'s, and a value that the fast way is
not sure of goes through them alone.  The fast way asks the same questions of many values
at once: see `bulk`, and Arrow's regular expressions over all ids.

Joining is safe because each value has been decoded alone before, to its end: msgspec and
orjson agree on where a value ends, so that no value can reach into its neighbour.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from services.writer import bulk
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


#: A part of the run that is not surely plain is read in smaller ones, the last value by value.
_PARTS: Final = (256, 16)
#: Arrow compiles a pattern anew in each call, which costs as much as some hundred matches in Python.
_FEW: Final = 200
_BRACE: Final = ord("{")
_decode: Final = msgspec.json.Decoder(Record).decode
_ID: Final = r"^[A-Za-z0-9._:-]{1,128}$"
_NAME: Final = r"^[a-z][a-z0-9_]{0,62}$"
_VERSION: Final = r"^(?s:.){1,32}$"
#: The usual RFC 3339; other spellings and centuries go the slow way.
_TIME: Final = (
    r"^[12]\d{3}-\d{2}-\d{2}T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
)
_TIMESTAMP: Final = pa.timestamp("us", "UTC")


def read(values: Sequence[bytes | None]) -> list[Record | UserError]:
    """What each of `values` is, or the error that says what is wrong with it."""
    return _in_form(values, _read(values, _PARTS))


def _read(values: Sequence[bytes | None], parts: Sequence[int]) -> list[Record | UserError]:
    if not parts:
        return [_read_one(value) for value in values]
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
        if bulk.parse(values) is None:  # type: ignore[arg-type]
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
    good = pc.and_(
        pc.and_(_match([m.id for m in metadata], _ID), _match([m.timestamp for m in metadata], _TIME)),
        # Few names and versions stand in many envelopes.
        pc.and_(
            _match_distinct([r.event_name for r in envelopes], _NAME),
            _match_distinct([m.version for m in metadata], _VERSION),
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


def _match(texts: Sequence[str], pattern: str) -> pa.Array:
    if len(texts) < _FEW:
        fits = re.compile(pattern, re.ASCII).fullmatch  # Python keeps what it has compiled
        return pa.array([fits(text) is not None for text in texts], pa.bool_())
    return pc.match_substring_regex(pa.array(texts, pa.string()), pattern)


def _match_distinct(texts: Sequence[str], pattern: str) -> pa.Array:
    distinct = list(dict.fromkeys(texts))
    well = dict(zip(distinct, _match(distinct, pattern).to_pylist(), strict=True))
    return pa.array([well[text] for text in texts], pa.bool_())


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
            destined = _shaped(value, _Destined, "payload")
            return _record(destined, destined.pipeline_context)
        packet = _shaped(value, _Packet, "data")
        return Record(data=packet.data, pipeline_context=packet.pipeline_context)
    except UserError as e:
        return UserError(NO_ENVELOPE, f"{e.fault.code}: {e.detail}", e.pointer)


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
