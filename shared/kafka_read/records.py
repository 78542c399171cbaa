"""The records that a task reads, as columns, and FILTER, which selects the records for this writer."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from shared import wire
from shared.kafka_read import arrow_bytes
from shared.kafka_read.offsets import Partition

#: Columns of a task's input: a row for each record of its ranges, in offset order per partition.
#: `context`: the bytes of the context header, or `USUAL` for the usual bytes, or `LARGE` if the record's
#: headers are not carried.  A record without that header is not for this writer, so its value is not
#: carried.
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
#: Columns whose length a client decides, and the approximate bytes per record of the other columns.
_BYTES: Final = ("value", "received_at", "context")
_FIXED_BYTES: Final = 64
_TIME: Final = pa.timestamp("us", "UTC")
#: Microseconds since 1970: the years 1 to 9999 in UTC.
_FIRST_TIME: Final = -62_135_596_800_000_000
_LAST_TIME: Final = 253_402_300_799_999_999
#: Number of headers in one cast after a cast of all has failed.
_TIMES_TOGETHER: Final = 64
#: Bounds of a record's `timestamp`, which a client sets to any 64 bits of milliseconds.  A time outside the
#: bounds, which Python and Postgres can represent, is clamped to the nearer bound.
FIRST_MS: Final = 0
LAST_MS: Final = 253_402_300_799_999
#: Stands for the bytes of nearly every context header; no JSON is empty.
USUAL: Final = b""
#: Stands for headers that are too large; not JSON.  A header with exactly these bytes arrives as absent.
LARGE: Final = b"\0"


class Headers(NamedTuple):
    """The columns of `ARRIVALS` that come from a record's headers: `context` and `received_at`."""

    context: bytes | None
    received_at: bytes | None

    @classmethod
    def of(cls, headers: Mapping[str, bytes | None]) -> Self:
        """Return the two columns for `headers`."""
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
        """Approximate bytes of its records; exact for the columns whose length a client decides.

        Arrow's own computation costs more.
        """
        ends = [arrow_bytes.offsets(self.rows.column(name)) for name in _BYTES] if len(self) else []
        return len(self) * _FIXED_BYTES + sum(int(each[-1] - each[0]) for each in ends)

    def only(self, offsets: Collection[int]) -> "PartitionSlice":
        """Return the records at `offsets`."""
        mask = pc.is_in(self.rows.column("offset"), pa.array(sorted(offsets), pa.int64()))
        return PartitionSlice(self.partition, self.rows.filter(mask))

    def wanted(self) -> "PartitionSlice":
        """Return the records whose `context` header carries the writer's filter, or is too large to read."""
        contexts = self.rows.column("context")
        wanted = pc.equal(contexts, USUAL).fill_null(False)
        if wanted.true_count == len(wanted):
            return self
        others = [context is not None and _means_us(context) for context in contexts.to_pylist()]
        return PartitionSlice(self.partition, self.rows.filter(pc.or_(wanted, pa.array(others))))


def wanted_of(parts: Sequence[PartitionSlice]) -> list[PartitionSlice]:
    """FILTER: return the wanted records of each of `parts`; usually all, which one comparison shows."""
    contexts = [part.rows.column("context") for part in parts]
    if contexts and pc.all(pc.equal(pa.concat_arrays(contexts), USUAL), skip_nulls=False).as_py():
        return list(parts)
    return [part.wanted() for part in parts]


def rows_by_topic(read: Iterable[PartitionSlice]) -> Counter[str]:
    """Return the number of records of each topic in `read`."""
    counts: Counter[str] = Counter()
    for run in read:
        counts[run.partition.topic] += len(run)
    return counts


def values_of(read: Iterable[PartitionSlice]) -> Iterator[pa.Array]:
    """Yield the values of the records in `read`."""
    return (run.rows.column("value") for run in read)


def cut(read: Iterable[PartitionSlice], start: int, end: int) -> Iterator[PartitionSlice]:
    """Yield the records at positions `start` to `end` among all records in `read`."""
    at = 0
    for run in read:
        first, last = max(start - at, 0), min(end - at, len(run))
        if first < last:
            yield PartitionSlice(run.partition, run.rows.slice(first, last - first))
        at += len(run)


def _means_us(context: bytes) -> bool:
    """Return whether `context` is the same JSON as the usual bytes, or is too large to know."""
    if context == LARGE:
        return True
    try:
        return bool(orjson.loads(context) == wire.CONTEXT)
    except orjson.JSONDecodeError:
        return False


def received_at(records: pa.RecordBatch) -> pa.Array:
    """Return the gateway's header if it is a timestamp, otherwise the timestamp of the Kafka record."""
    headers = _within_years(_as_times(records.column("received_at")))
    return pc.coalesce(headers, records.column("timestamp"))


def _within_years(times: pa.Array) -> pa.Array:
    """Replace times outside the years 1 to 9999 by null, because few clients of Postgres can read them."""
    moments = times.cast(pa.int64())
    bounds = pc.min_max(moments)
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    if first is None or (first >= _FIRST_TIME and last <= _LAST_TIME):
        return times
    is_within = pc.and_(pc.greater_equal(moments, _FIRST_TIME), pc.less_equal(moments, _LAST_TIME))
    return pc.if_else(is_within, times, pa.scalar(None, _TIME))


def _as_times(headers: pa.Array) -> pa.Array:
    """Return `headers` as times, null for a header in another client's format; costs a few more casts."""
    try:
        return headers.cast(pa.string()).cast(_TIME)
    except pa.ArrowInvalid:
        if len(headers) == 1:
            return pa.nulls(1, _TIME)
        step = _TIMES_TOGETHER if len(headers) > _TIMES_TOGETHER else 1
        return pa.concat_arrays([_as_times(headers.slice(i, step)) for i in range(0, len(headers), step)])
