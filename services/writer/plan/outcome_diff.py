"""What each of two rules makes of the same events, and which of them newly fail or newly pass."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from services.writer.plan.reasons import Reason

#: Where an event fails that the gateway refuses.
_DOOR: Final = "gateway"


@dataclass(slots=True, kw_only=True)
class Judged:
    """What one set of rules makes of events, which are told by their places among all that were read.

    `destinations`: how many each event has, those that are rejected included.  `parked` and `untried` say
    at which of them, by name.
    """

    destinations: "np.ndarray[Any, np.dtype[np.int64]]"
    refused: Mapping[int, list[Reason]] = field(default_factory=dict)
    parked: dict[int, dict[str, Reason]] = field(default_factory=dict)
    untried: dict[int, set[str]] = field(default_factory=dict)

    def park(self, event: int, destination: str, reason: Reason) -> None:
        """Note that the event fails at one of its destinations."""
        self.parked.setdefault(event, {})[destination] = reason

    def leave(self, events: Iterable[int], destination: str) -> None:
        """Note that nobody knows what one of their destinations would make of these events."""
        for event in events:
            self.untried.setdefault(event, set()).add(destination)

    def fails_at(self, event: int) -> set[str]:
        """Return where the event fails; whoever is refused gets no farther."""
        return {_DOOR} if event in self.refused else set(self.parked.get(event, ()))

    def reasons(self, event: int) -> list[Reason]:
        """Return why the event fails, each reason once."""
        if event in self.refused:
            return self.refused[event]
        return list(dict.fromkeys(self.parked.get(event, {}).values()))

    def lands(self, event: int) -> bool:
        """Return whether the event lands anywhere."""
        if event in self.refused:
            return False
        left_out = len(self.parked.get(event, ())) + len(self.untried.get(event, ()))
        return int(self.destinations[event]) > left_out


class Changed(NamedTuple):
    """Events with which the new rules do something else."""

    newly_fail: list[int]
    newly_pass: list[int]


def compare(old: Judged, new: Judged) -> Changed:
    """Return what changes.

    An event newly fails if it landed somewhere and now fails where it did not.  It newly passes if it
    lands somewhere and fails no more where it did.  Where it was not tried, nothing is claimed.
    """
    failing = sorted({*old.refused, *old.parked, *new.refused, *new.parked})
    newly_fail = [e for e in failing if old.lands(e) and _fails_beyond(new, old, e)]
    failed = set(newly_fail)
    newly_pass = [e for e in failing if e not in failed and new.lands(e) and _fails_beyond(old, new, e)]
    return Changed(newly_fail, newly_pass)


def _fails_beyond(one: Judged, other: Judged, event: int) -> bool:
    """Return whether the event fails under `one` where it does not under `other`, as far as that was tried."""
    return bool(one.fails_at(event) - other.fails_at(event) - other.untried.get(event, set()))
