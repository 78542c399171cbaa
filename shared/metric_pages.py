"""Reads a service's /metrics, and computes rates and percentiles between two scrapes."""

import http.client
import time
import urllib.error
import urllib.request
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

_TIMEOUT_SECONDS: Final = 5.0
Labels = Mapping[str, str]
Join = Callable[[float, float], float]


class PageError(Exception):
    """A page of a service cannot be read: the problem as a sentence, and what an operator can do."""

    def __init__(self, problem: str, *, fix: str) -> None:
        super().__init__(f"{problem} {fix}")
        self.problem = problem
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a page."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Scrape:
    """All samples of a page, and when it was read (monotonic seconds)."""

    at: float
    samples: Sequence[Sample] = ()

    def sums(self, name: str, by: str, **where: str) -> dict[str, float]:
        """Return the sums of a metric's series with the labels `where`, by another label."""
        return self._joined(name, by, where, lambda a, b: a + b)

    def maxima(self, name: str, by: str, **where: str) -> dict[str, float]:
        """Return the largest of those series, by another label."""
        return self._joined(name, by, where, max)

    def _joined(self, name: str, by: str, where: Labels, join: Join) -> dict[str, float]:
        values: dict[str, float] = {}
        for sample in self.samples:
            if sample.name == name and where.items() <= sample.labels.items():
                key = sample.labels.get(by, "")
                values[key] = join(values[key], sample.value) if key in values else sample.value
        return values


def read_metrics(url: str) -> Scrape:
    """Read the /metrics of the service at `url`.

    Raises:
        PageError: it does not answer, or not with metrics.
    """
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/metrics", timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
            text = answer.read().decode()
        families = list(text_string_to_metric_families(text))
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise PageError(
            f"{url}/metrics cannot be read: {_why(error)}.",
            fix="Is it up, and is this its address? It may have a port of its own for operators.",
        ) from error
    samples = [Sample(s.name, s.labels, s.value) for family in families for s in family.samples]
    return Scrape(time.monotonic(), samples)


def _why(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"it answers {error.code}"
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return type(reason).__name__ if isinstance(reason, Exception) else str(reason)


def rates(before: Scrape, now: Scrape, name: str, by: str, **where: str) -> dict[str, float]:
    """Return a counter's growth per second, by a label; a decreased counter has restarted at 0."""
    seconds, earlier = (now.at - before.at) or 1.0, before.sums(name, by, **where)
    return {
        key: (value - earlier.get(key, 0.0) if value >= earlier.get(key, 0.0) else value) / seconds
        for key, value in now.sums(name, by, **where).items()
    }


def p99(before: Scrape, now: Scrape, histogram: str) -> float | None:
    """Return the 99th percentile of the values between two scrapes, or None without values."""
    earlier, grown = before.sums(f"{histogram}_bucket", "le"), defaultdict(float)
    for bound, count in now.sums(f"{histogram}_bucket", "le").items():
        grown[float(bound)] = count - earlier.get(bound, 0.0)
    bounds = sorted(grown)
    counts = [grown[bound] for bound in bounds]
    if not counts or counts[-1] <= 0:
        return None
    rank = 0.99 * counts[-1]
    n = bisect_left(counts, rank)
    if n == len(bounds) - 1:  # beyond the last bound: unknown
        return bounds[n - 1] if n else None
    below, lower = (counts[n - 1], bounds[n - 1]) if n else (0.0, 0.0)
    return lower + (bounds[n] - lower) * (rank - below) / (counts[n] - below)
