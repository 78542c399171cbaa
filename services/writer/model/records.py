"""What a task reads, as columns, and FILTER: which of it is for this writer."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from services.writer.model import arrow_bytes
from services.writer.model.offsets import Partition
from shared import wire

#: What a task receives, a row for each record of its ranges, in offset order per partition.
#: `context`: the bytes of the context header, or `USUAL` for the usual ones, or `LARGE` where the
#: record's headers are not carried; without that header nobody asks for a record, and its value is
#: not carried.
ARRIVALS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.binary()),
        ("received_at", pa.binary()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("context", pa.binary()),
    ]
)
#: Columns whose length is a client's affair; the others have about so many bytes a record.
_BYTES: Final = ("value", "received_at", "context")
_FIXED_BYTES: Final = 64
_TIME: Final = pa.timestamp("us", "UTC")
#: Microseconds since 1970: the years 1 to 9999 in UTC.
_FIRST_TIME: Final = -62_135_596_800_000_000
_LAST_TIME: Final = 253_402_300_799_999_999
#: Headers that are cast by themselves when one of them is no time.
_TIMES_TOGETHER: Final = 64
#: A record's `timestamp` is its client's word, any 64 bits of milliseconds: one outside of these,
#: which Python and Postgres can tell, is taken for the nearer of them.
FIRST_MS: Final = 0
LAST_MS: Final = 253_402_300_799_999
#: No JSON is empty: it stands for the bytes that nearly every context header has.
USUAL: Final = b""
#: No JSON either; a header that has these very bytes says nothing, and arrives as none.
LARGE: Final = b"\0"


class Headers(NamedTuple):
    """What arrives of a record's headers: `context` and `received_at` of `ARRIVALS`."""

    context: bytes | None
    received_at: bytes | None

    @classmethod
    def of(cls, headers: Mapping[str, bytes | None]) -> Self:
        """Return what arrives of `headers`."""
        context, received_at = headers.get(wire.HEADER_CONTEXT), headers.get(wire.HEADER_RECEIVED_AT)
        if len(context or b"") + len(received_at or b"") > wire.MAX_HEADER_BYTES:
            return cls(LARGE if context and context != LARGE else None, None)
        if not context or context == LARGE:
            return cls(None, received_at)
        return cls(USUAL if context == wire.CONTEXT_BYTES else context, received_at)


@dataclass(frozen=True, slots=True)
class PartitionSlice:
    """Neighbouring records of one partition."""

    partition: Partition
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def first(self) -> int:
        """The first record's offset."""
        return int(self.rows.column("offset")[0].as_py())

    @property
    def size(self) -> int:
        """About the bytes of its records, exact in what a client may make large; asking Arrow costs more."""
        ends = [arrow_bytes.offsets(self.rows.column(name)) for name in _BYTES] if len(self) else []
        return len(self) * _FIXED_BYTES + sum(int(each[-1] - each[0]) for each in ends)

    def only(self, offsets: Collection[int]) -> "PartitionSlice":
        """The records at `offsets`."""
        mask = pc.is_in(self.rows.column("offset"), pa.array(sorted(offsets), pa.int64()))
        return PartitionSlice(self.partition, self.rows.filter(mask))

    def wanted(self) -> "PartitionSlice":
        """The records that carry the writer's filter in their `context` header, or one that nobody reads."""
        contexts = self.rows.column("context")
        wanted = pc.equal(contexts, USUAL).fill_null(False)
        if wanted.true_count == len(wanted):
            return self
        others = [context is not None and _means_us(context) for context in contexts.to_pylist()]
        return PartitionSlice(self.partition, self.rows.filter(pc.or_(wanted, pa.array(others))))


def wanted_of(parts: Sequence[PartitionSlice]) -> list[PartitionSlice]:
    """FILTER: what is wanted of each of `parts`; usually all of all, which one look tells."""
    contexts = [part.rows.column("context") for part in parts]
    if contexts and pc.all(pc.equal(pa.concat_arrays(contexts), USUAL), skip_nulls=False).as_py():
        return list(parts)
    return [part.wanted() for part in parts]


def rows_by_topic(read: Iterable[PartitionSlice]) -> Counter[str]:
    """How many records of each topic were `read`."""
    found: Counter[str] = Counter()
    for run in read:
        found[run.partition.topic] += len(run)
    return found


def values_of(read: Iterable[PartitionSlice]) -> Iterator[pa.Array]:
    """The values of what was `read`."""
    return (run.rows.column("value") for run in read)


def cut(read: Iterable[PartitionSlice], start: int, end: int) -> Iterator[PartitionSlice]:
    """The records at the places from `start` to `end` of all that were `read`."""
    at = 0
    for run in read:
        first, last = max(start - at, 0), min(end - at, len(run))
        if first < last:
            yield PartitionSlice(run.partition, run.rows.slice(first, last - first))
        at += len(run)


def _means_us(context: bytes) -> bool:
    """Return whether other bytes are the same JSON as the usual ones, or may have been."""
    if context == LARGE:
        return True
    try:
        return bool(orjson.loads(context) == wire.CONTEXT)
    except orjson.JSONDecodeError:
        return False


def received_at(records: pa.RecordBatch) -> pa.Array:
    """Return the gateway's header where it is a timestamp, else the timestamp of the Kafka record."""
    headers = _within_years(_as_times(records.column("received_at")))
    return pc.coalesce(headers, records.column("timestamp"))


def _within_years(times: pa.Array) -> pa.Array:
    """Return null for times outside the years 1 to 9999, which few clients of Postgres can read."""
    moments = times.cast(pa.int64())
    bounds = pc.min_max(moments)
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    if first is None or (first >= _FIRST_TIME and last <= _LAST_TIME):
        return times
    is_within = pc.and_(pc.greater_equal(moments, _FIRST_TIME), pc.less_equal(moments, _LAST_TIME))
    return pc.if_else(is_within, times, pa.scalar(None, _TIME))


def _as_times(headers: pa.Array) -> pa.Array:
    """Return null for another client's header, in a format of its own; few neighbours pay for it."""
    try:
        return headers.cast(pa.string()).cast(_TIME)
    except pa.ArrowInvalid:
        if len(headers) == 1:
            return pa.nulls(1, _TIME)
        step = _TIMES_TOGETHER if len(headers) > _TIMES_TOGETHER else 1
        return pa.concat_arrays([_as_times(headers.slice(i, step)) for i in range(0, len(headers), step)])
