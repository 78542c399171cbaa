"""Counts events by the seconds between their receipt and the commit of their rows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from services.writer.model.targets import Target

#: Upper bounds in seconds; longer delays count in one further range.
BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_MICROSECONDS: Final = 1e6
#: Maximum delay in seconds.  A record that claims to be older has a wrong time and would dominate a sum.
LONGEST: Final = 30 * 86400.0


class CommitDelays(NamedTuple):
    """The delays of one topic's events that one transaction wrote to one table."""

    database: str
    table: str
    topic: str
    #: Number of events in each range of `BOUNDS`, upper bounds included.
    counts: Sequence[int]
    #: The sum of all delays.
    seconds: float


def times_of(rows: pa.Table, mask: "np.ndarray[Any, np.dtype[np.bool_]]") -> pa.Table:
    """Return the columns that `measure` needs of the `rows` that the `mask` selects."""
    times = rows.select(["_topic", "_received_at"])
    return times if mask.all() else times.filter(pa.array(mask))


def measure(landed: Iterable[tuple[Target, pa.Table]], committed: float) -> Iterator[CommitDelays]:
    """Yield the delays, by table and topic, of rows whose commit time is `committed` (Unix seconds).

    A gateway whose clock is ahead causes no negative delay.  Costs no Python operation per event.
    """
    for target, times in landed:
        for topic, received in _by_topic(times):
            delays = committed - received.cast(pa.int64()).to_numpy() / _MICROSECONDS
            np.clip(delays, 0.0, LONGEST, out=delays)
            counts = np.bincount(np.searchsorted(BOUNDS, delays), minlength=len(BOUNDS) + 1)
            total = float(delays.sum())
            yield CommitDelays(target.database, str(target), topic, counts.tolist(), total)


def _by_topic(times: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    topics = times.column("_topic")
    names = pc.unique(topics).to_pylist()
    for name in names:
        of = times if len(names) == 1 else times.filter(pc.equal(topics, name))
        yield name, of.column("_received_at")


def as_json(delays: Sequence[CommitDelays]) -> str:
    """Serialize delays for a task's report."""
    return orjson.dumps([tuple(each) for each in delays]).decode()


def from_json(text: str) -> Iterator[CommitDelays]:
    """Parse the text of `as_json`."""
    return (CommitDelays(*each) for each in orjson.loads(text))
