"""Compares the outcomes of the same events under two sets of rules: which events newly fail or pass."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from services.writer.plan.reasons import Reason

#: The place of failure of an event that the gateway refuses.
_GATEWAY: Final = "gateway"


@dataclass(slots=True, kw_only=True)
class EventOutcomes:
    """The outcomes of events under one set of rules; events are identified by their indices in the chunk.

    `destinations`: the number of destinations of each event, including rejected ones.  `parked` and
    `untried` name the destinations.
    """

    destinations: "np.ndarray[Any, np.dtype[np.int64]]"
    refused: Mapping[int, list[Reason]] = field(default_factory=dict)
    parked: dict[int, dict[str, Reason]] = field(default_factory=dict)
    untried: dict[int, set[str]] = field(default_factory=dict)

    def park(self, event: int, destination: str, reason: Reason) -> None:
        """Record that the event fails at one of its destinations."""
        self.parked.setdefault(event, {})[destination] = reason

    def leave(self, events: Iterable[int], destination: str) -> None:
        """Record that the outcome of these events at one of their destinations is unknown."""
        for event in events:
            self.untried.setdefault(event, set()).add(destination)

    def fails_at(self, event: int) -> set[str]:
        """Return the destinations at which the event fails, or the gateway if that refuses the event."""
        return {_GATEWAY} if event in self.refused else set(self.parked.get(event, ()))

    def reasons(self, event: int) -> list[Reason]:
        """Return the reasons why the event fails, each once."""
        if event in self.refused:
            return self.refused[event]
        return list(dict.fromkeys(self.parked.get(event, {}).values()))

    def lands(self, event: int) -> bool:
        """Return whether the event lands in any table."""
        if event in self.refused:
            return False
        excluded = len(self.parked.get(event, ())) + len(self.untried.get(event, ()))
        return int(self.destinations[event]) > excluded


class Changed(NamedTuple):
    """Events whose outcome differs under the new rules."""

    newly_fail: list[int]
    newly_pass: list[int]


def compare(old: EventOutcomes, new: EventOutcomes) -> Changed:
    """Return the events that change.

    An event newly fails if it landed in some table under the old rules and fails under the new rules at a
    destination where it did not fail before.  It newly passes if it lands in some table under the new rules
    and no longer fails at a destination.  Destinations where it was not tried do not count.
    """
    failing = sorted({*old.refused, *old.parked, *new.refused, *new.parked})
    newly_fail = [e for e in failing if old.lands(e) and _fails_beyond(new, old, e)]
    failed = set(newly_fail)
    newly_pass = [e for e in failing if e not in failed and new.lands(e) and _fails_beyond(old, new, e)]
    return Changed(newly_fail, newly_pass)


def _fails_beyond(one: EventOutcomes, other: EventOutcomes, event: int) -> bool:
    """Return whether the event fails under `one` where it was tried and does not fail under `other`."""
    return bool(one.fails_at(event) - other.fails_at(event) - other.untried.get(event, set()))
