"""How long events took from their receipt to the commit of their rows, counted by ranges of seconds."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from services.writer.model.targets import Target

#: Upper bounds in seconds; what took longer is in one range more.
BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_MICROSECONDS: Final = 1e6
#: A record that claims to be older says nothing of how long it took, and would be all of a sum.
LONGEST: Final = 30 * 86400.0


class CommitDelays(NamedTuple):
    """The delays of the events of one topic that one transaction put into one table."""

    database: str
    table: str
    topic: str
    #: Events by range of `BOUNDS`, an upper bound included.
    counts: Sequence[int]
    #: The sum of all delays.
    seconds: float


def times_of(rows: pa.Table, mask: "np.ndarray[Any, np.dtype[np.bool_]]") -> pa.Table:
    """Return what `measure` needs of those `rows` that the `mask` selects."""
    times = rows.select(["_topic", "_received_at"])
    return times if mask.all() else times.filter(pa.array(mask))


def measure(landed: Iterable[tuple[Target, pa.Table]], committed: float) -> Iterator[CommitDelays]:
    """Yield the delays of rows that were `committed` then (Unix seconds), by table and topic.

    A gateway whose clock is ahead gives no negative delay.  Costs nothing per event in Python.
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
