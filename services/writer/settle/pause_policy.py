"""When an event type pauses: its share of parked events among the last ones is too large.

A flood of events that cannot land is one mistake, not thousands: a table that lost a
column, a producer's new version.  Pausing keeps them waiting, so that they land when the
mistake is mended, instead of parking each for a person to replay.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

#: What a decayed count may be and still be none.
_NOTHING: Final = 0.5


@dataclass(frozen=True, slots=True)
class PausePolicy:
    """The operator's limit.  `share` 1 means never: nothing is above it."""

    share: float = 1.0
    window: int = 10_000
    least: int = 1_000


@dataclass(frozen=True, slots=True)
class Share:
    """How many events of a type were decided lately, and how many of them parked."""

    seen: float = 0.0
    parked: float = 0.0

    def paused_after(self, bad: "np.ndarray[Any, np.dtype[np.bool_]]", limit: PausePolicy) -> int | None:
        """The place in `bad` (the next events, in order: was it parked?) after which the type is paused.

        Each event is judged with the `limit.window` events that end with it; of those before
        `bad` the average stands for each.
        """
        n = len(bad)
        sums = np.concatenate([[0], np.cumsum(bad)])
        ends = np.arange(1, n + 1)
        here = np.minimum(ends, limit.window)
        parked = sums[ends] - sums[ends - here]
        before = np.minimum(self.seen, limit.window - here)
        if self.seen:
            parked = parked + before * (self.parked / self.seen)
        seen = here + before
        over = (seen >= limit.least) & (parked > limit.share * seen)
        return int(over.argmax()) if over.any() else None

    def after(self, bad: "np.ndarray[Any, np.dtype[np.bool_]]", limit: PausePolicy) -> "Share":
        """The share when the events `bad` are decided as well; what is older than the window fades."""
        last = bad[-limit.window :]
        before = min(self.seen, limit.window - len(last))
        parked = float(last.sum()) + (before * self.parked / self.seen if self.seen else 0.0)
        return Share(before + len(last), parked) if parked >= _NOTHING else Share()
