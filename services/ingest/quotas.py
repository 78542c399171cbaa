"""Quotas: token buckets per key, for events and for bytes.

One noisy producer must not starve the others.  A gateway of several workers divides each
quota by their number: the sum is right when load is spread, and never too high.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from shared.errors import QUOTA, InfrastructureError
from shared.registry import ApiKey

#: A bucket holds this many seconds of its rate, so that short bursts pass.
_BURST_SECONDS: Final = 2.0
_MOST_KEYS: Final = 10_000


class QuotaError(InfrastructureError):
    """Used up; `retry_after` is in whole seconds."""

    def __init__(self, what: str, retry_after: int) -> None:
        super().__init__(QUOTA, f"the quota of {what} per second is used up")
        self.retry_after = retry_after


class Bucket:
    """Tokens that grow with time up to a burst.  A single take may go below zero: the next waits."""

    def __init__(self, rate: float | None, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._tokens = 0.0 if rate is None else rate * _BURST_SECONDS
        self._at = clock()

    def wait(self) -> float:
        """Seconds until something may be taken, 0 when it may be now."""
        if self._rate is None:
            return 0.0
        now = self._clock()
        self._tokens = min(self._rate * _BURST_SECONDS, self._tokens + (now - self._at) * self._rate)
        self._at = now
        return 0.0 if self._tokens > 0 else -self._tokens / self._rate + 1 / self._rate

    def take(self, amount: float) -> None:
        """Take more than there is if need be: a batch larger than the burst must pass some time."""
        if self._rate is not None:
            self._tokens -= amount


class Quota:
    """The two buckets of one key."""

    def __init__(self, events: Bucket, size: Bucket) -> None:
        self._events = events
        self._size = size

    def admit(self) -> None:
        """Raise `QuotaError` while either is used up: before the body is read."""
        for what, bucket in (("events", self._events), ("bytes", self._size)):
            wait = bucket.wait()
            if wait > 0:
                raise QuotaError(what, max(1, round(wait + 0.5)))

    def charge(self, events: int, size: int) -> None:
        """Count what was sent."""
        self._events.take(events)
        self._size.take(size)


class Quotas:
    """Every key's quota, remembered across requests; the longest unused go first."""

    def __init__(self, workers: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._workers = workers
        self._clock = clock
        self._known: OrderedDict[tuple[str, float | None, float | None], Quota] = OrderedDict()

    def of(self, name: str, key: ApiKey) -> Quota:
        """The quota of a key; a changed limit begins a new one."""
        if key.events_per_second is None and key.bytes_per_second is None:
            return UNLIMITED
        identity = (name, key.events_per_second, key.bytes_per_second)
        quota = self._known.get(identity)
        if quota is None:
            quota = Quota(self._bucket(key.events_per_second), self._bucket(key.bytes_per_second))
            self._known[identity] = quota
            if len(self._known) > _MOST_KEYS:
                self._known.popitem(last=False)
        self._known.move_to_end(identity)
        return quota

    def _bucket(self, rate: float | None) -> Bucket:
        return Bucket(None if rate is None else rate / self._workers, self._clock)


UNLIMITED: Final = Quota(Bucket(None, time.monotonic), Bucket(None, time.monotonic))
