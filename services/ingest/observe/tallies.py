"""Counts of the hot path, stored as plain numbers until the metrics are read.

prometheus_client takes a lock for each number that it adds to, and with several workers writes each
of them into a file, many times for a single event. So the hot path counts here, on the
event loop alone, and `fold` adds the counts to the metrics: before this worker serves its metrics, and
twice a second for metrics that other workers serve.

A new series is shown at 0 for a while before it counts: Prometheus computes an increase only between two
samples, so the first rejected events would raise no alert (prometheus/prometheus#1673). The time decides,
not a reading, because a person who reads the page must not consume the 0 that an alert needs.
"""

import math
import time
from bisect import bisect_left
from typing import Final, Protocol

from prometheus_client import Counter, Histogram

from shared.figures import Spread


class _Tally(Protocol):
    def fold(self, new_s: float) -> None: ...


_ALL: Final[list[_Tally]] = []


def fold(new_s: float) -> None:
    """Add the counts since the last call to the metrics; a new series is at 0 for `new_s` seconds."""
    for tally in _ALL:
        tally.fold(new_s)


class CounterTally:
    """The counts of a counter since the last `fold`, by labels."""

    def __init__(self, metric: Counter) -> None:
        self._metric = metric
        self._counts: dict[tuple[str, ...], int] = {}
        self._folded: dict[tuple[str, ...], int] = {}
        #: Start of each series (monotonic seconds); one without labels exists from the start.
        self._began: dict[tuple[str, ...], float] = {(): -math.inf}
        _ALL.append(self)

    def add(self, *labels: str) -> None:
        """Add one to the count of these labels."""
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def totals(self) -> dict[tuple[str, ...], int]:
        """Return all counts of this process by labels, also those that the metric does not show yet."""
        return {
            labels: self._folded.get(labels, 0) + self._counts.get(labels, 0)
            for labels in {**self._folded, **self._counts}
        }

    def fold(self, new_s: float) -> None:
        """Add the counts to the metric, and start from 0; a new series counts after `new_s` seconds."""
        now = time.monotonic()
        kept: dict[tuple[str, ...], int] = {}
        for labels, count in self._counts.items():
            child = self._metric.labels(*labels) if labels else self._metric
            if self._began.setdefault(labels, now) <= now - new_s:
                child.inc(count)
                self._folded[labels] = self._folded.get(labels, 0) + count
            else:
                kept[labels] = count
        self._counts = kept


class HistogramTally:
    """The counts of a histogram without labels since the last `fold`."""

    def __init__(self, metric: Histogram, bounds: tuple[float, ...]) -> None:
        self._metric = metric
        self._bounds = (*bounds, math.inf)
        self._counts = [0] * len(self._bounds)
        self._folded = [0] * len(self._bounds)
        self._sum = 0.0
        _ALL.append(self)

    def totals(self) -> Spread:
        """Return all values of this process, also those that the metric does not show yet."""
        counts = zip(self._folded, self._counts, strict=True)
        return Spread(self._bounds[:-1], tuple(folded + count for folded, count in counts))

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def fold(self, _: float) -> None:
        """Add the counts to the metric's private parts: it has no public method for many values."""
        for bucket, count in zip(self._metric._buckets, self._counts, strict=True):  # noqa: SLF001
            if count:
                bucket.inc(count)
        self._metric._sum.inc(self._sum)  # noqa: SLF001
        self._folded = [folded + count for folded, count in zip(self._folded, self._counts, strict=True)]
        self._counts = [0] * len(self._bounds)
        self._sum = 0.0
