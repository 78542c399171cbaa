"""Quotas: token buckets per key, for events and bytes per second.

One noisy producer must not starve the others. Workers on one machine share their buckets;
gateways on several machines each have a part of a quota (docs/adr/0024-standby-writers-and-quotas.md).
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from services.ingest.auth.quota_levels import Levels, bucket_name
from shared.errors import QUOTA, InfrastructureError
from shared.registry import ApiKey

#: A bucket holds this many seconds of its rate, so that short bursts pass.
_BURST_SECONDS: Final = 2.0
_MAX_KEYS: Final = 10_000
#: Minimum rate, a token in eleven days: the seconds of a much smaller one overflow.
_MIN_RATE: Final = 1e-6
_MAX_RETRY_SECONDS: Final = 86_400


class QuotaError(InfrastructureError):
    """The quota of a unit (events or bytes) is used up; `retry_after` is in whole seconds."""

    def __init__(self, unit: str, retry_after: int) -> None:
        super().__init__(QUOTA, f"the quota of {unit} per second is used up")
        self.retry_after = retry_after


class Bucket:
    """A token bucket: `rate` tokens per second up to a burst; below zero, the next request waits."""

    def __init__(
        self,
        rate: float | None,
        clock: Callable[[], float],
        levels: Levels | None = None,
        name: bytes = b"alone".ljust(16),
    ) -> None:
        self._rate = None if rate is None else max(rate, _MIN_RATE)
        self._clock = clock
        self._levels = levels or (Levels() if rate is not None else None)
        self._name = name

    def delay(self) -> float:
        """Return the seconds until a token may be consumed; 0 for now."""
        if self._rate is None or self._levels is None:
            return 0.0
        behind = self._levels.full_at(self._name) - self._clock() - _BURST_SECONDS
        return 0.0 if behind < 0 else behind + 1 / self._rate

    def consume(self, amount: float) -> None:
        """Consume tokens, below zero if needed: a batch larger than the burst must pass."""
        if self._rate is not None and self._levels is not None:
            self._levels.consume(self._name, amount / self._rate, self._clock())


class Quota:
    """The two buckets of one key."""

    def __init__(self, events: Bucket, size: Bucket) -> None:
        self._events = events
        self._size = size

    def delay(self) -> float:
        """Return the seconds until more may be sent; 0 for now."""
        return max(self._events.delay(), self._size.delay())

    def admit(self) -> None:
        """Raise `QuotaError` while either bucket is used up; called before the body is read."""
        for unit, bucket in (("events", self._events), ("bytes", self._size)):
            delay = bucket.delay()
            if delay > 0:
                raise QuotaError(unit, max(1, min(round(delay + 0.5), _MAX_RETRY_SECONDS)))

    def charge(self, events: int, size: int) -> None:
        """Consume tokens for `events` and bytes."""
        self._events.consume(events)
        self._size.consume(size)


class Quotas:
    """The quotas of the most recently used keys; each of `replicas` gateways grants an equal part."""

    def __init__(
        self, replicas: int = 1, levels: Levels | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._levels = levels or Levels()
        self._known: OrderedDict[tuple[str, float | None, float | None], Quota] = OrderedDict()

    def for_key(self, name: str, key: ApiKey) -> Quota:
        """Return the quota of a key; a changed limit starts a new one."""
        return self.with_limits(name, key.events_per_second, key.bytes_per_second)

    def with_limits(self, name: str, events: float | None, size: float | None) -> Quota:
        """Return the quota of this name and these limits per second; None is no limit."""
        if events is None and size is None:
            return UNLIMITED
        identity = (name, events, size)
        quota = self._known.get(identity)
        if quota is None:
            quota = Quota(self._bucket("events", name, events), self._bucket("bytes", name, size))
            self._known[identity] = quota
            if len(self._known) > _MAX_KEYS:
                self._known.popitem(last=False)
        self._known.move_to_end(identity)
        return quota

    def _bucket(self, unit: str, name: str, rate: float | None) -> Bucket:
        part = None if rate is None else rate / self._replicas
        return Bucket(part, self._clock, self._levels, bucket_name(unit, name, rate))


UNLIMITED: Final = Quota(Bucket(None, time.monotonic), Bucket(None, time.monotonic))
