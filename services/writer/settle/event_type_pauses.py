"""The pause policy: an event type pauses when the share of parked events among its last ones is too large.

A flood of events that cannot land has one cause, for example a table without a column or a producer's new
version.  Paused events wait and land when the cause is fixed, and an operator need not replay each of them.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

#: A decayed count below this is none.
_NEGLIGIBLE: Final = 0.5


@dataclass(frozen=True, slots=True)
class PausePolicy:
    """The operator's limit.  A `share` of 1 disables pausing, because no share is above it."""

    share: float = 1.0
    window: int = 10_000
    min_events: int = 1_000


@dataclass(frozen=True, slots=True)
class ParkRate:
    """The number of a type's last events (decayed by the window), and the number of parked ones."""

    events: float = 0.0
    parked: float = 0.0

    def paused_after(
        self, parked_mask: "np.ndarray[Any, np.dtype[np.bool_]]", policy: PausePolicy
    ) -> int | None:
        """Return the index in `parked_mask` (the next events, in order) after which the type pauses, or None.

        Each event counts with the `policy.window` events that end with it; each event before
        `parked_mask` counts with the average.
        """
        n = len(parked_mask)
        sums = np.concatenate([[0], np.cumsum(parked_mask)])
        ends = np.arange(1, n + 1)
        own = np.minimum(ends, policy.window)
        parked = sums[ends] - sums[ends - own]
        earlier = np.minimum(self.events, policy.window - own)
        if self.events:
            parked = parked + earlier * (self.parked / self.events)
        counted = own + earlier
        over = (counted >= policy.min_events) & (parked > policy.share * counted)
        return int(over.argmax()) if over.any() else None

    def after(self, parked_mask: "np.ndarray[Any, np.dtype[np.bool_]]", policy: PausePolicy) -> "ParkRate":
        """Return the rate after the events of `parked_mask`; events older than the window decay."""
        recent = parked_mask[-policy.window :]
        earlier = min(self.events, policy.window - len(recent))
        parked = float(recent.sum()) + (earlier * self.parked / self.events if self.events else 0.0)
        return ParkRate(earlier + len(recent), parked) if parked >= _NEGLIGIBLE else ParkRate()
