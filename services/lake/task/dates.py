"""The columns of dates: the UTC day of an event's timestamp, and the first day of its month.

Both are null for timestamps that cannot be an event's time: a sender must not decide how many folders
and files a commit creates.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from shared.lake.lake_tables import DATE, MONTH, Partitioning

#: 1 January 2000 in microseconds since 1970.
_FIRST: Final = 946_684_800_000_000
_DAY: Final = 86_400_000_000
#: Maximum values of the partition column in one commit; rarer values become null.
MAX_PARTITIONS: Final = 200


def dates(timestamps: pa.ChunkedArray, partitioning: Partitioning, now: float) -> dict[str, pa.ChunkedArray]:
    """Return the columns of dates by name; `now` in seconds since 1970."""
    moments = timestamps.cast(pa.int64())
    possible = pc.and_(
        pc.greater_equal(moments, _FIRST), pc.less_equal(moments, int(now * 1_000_000) + _DAY)
    ).fill_null(False)
    days = pc.if_else(possible, timestamps.cast(pa.date32()), pa.scalar(None, pa.date32()))
    if partitioning is Partitioning.NONE:
        return {DATE: days}
    if partitioning is Partitioning.DAY:
        return {DATE: _bounded(days)}
    return {DATE: days, MONTH: _bounded(pc.floor_temporal(days, unit="month").cast(pa.date32()))}


def _bounded(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return `values` with at most `MAX_PARTITIONS` distinct ones, the most frequent."""
    counts = pc.value_counts(values)
    if len(counts) <= MAX_PARTITIONS:
        return values
    order = pc.sort_indices(counts.field("counts"), sort_keys=[("", "descending")])
    frequent = counts.field("values").take(order[:MAX_PARTITIONS])
    return pc.if_else(pc.is_in(values, frequent), values, pa.scalar(None, pa.date32()))
