"""Counts of a plan: the outcomes of each event type under the old and the new rules, added up over tasks."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from services.writer.plan.reasons import Reason

#: Maximum samples of each kind per event type.
SAMPLES: Final = 5
#: Maximum distinct reasons per type, and maximum types: senders can invent names of fields and types.
_MAX_REASONS: Final = 200
_MAX_TYPES: Final = 5_000
OTHER_TYPES: Final = "(other event names)"
_OTHER_REASONS: Final = Reason("(others)", "", f"more than {_MAX_REASONS} reasons")


@dataclass(slots=True, kw_only=True)
class Sample:
    """A masked event, with its receipt and the reasons why it fails."""

    receipt: str
    reasons: list[Reason]
    event: Any


@dataclass(slots=True, kw_only=True)
class Outcomes:
    """The outcomes of a type's events under one set of rules: each event has one of the four."""

    refused: int = 0
    parked: int = 0
    untried: int = 0
    landed: int = 0
    reasons: Counter[Reason] = field(default_factory=Counter)

    def add(self, other: "Outcomes") -> None:
        """Add what another task counted."""
        self.refused += other.refused
        self.parked += other.parked
        self.untried += other.untried
        self.landed += other.landed
        count(self.reasons, other.reasons)


@dataclass(slots=True, kw_only=True)
class Newly:
    """Events that newly fail, or newly pass."""

    events: int = 0
    reasons: Counter[Reason] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)

    def add(self, other: "Newly") -> None:
        """Add the events of another task."""
        self.events += other.events
        count(self.reasons, other.reasons)
        self.samples = (self.samples + other.samples)[:SAMPLES]


@dataclass(slots=True, kw_only=True)
class TypeTally:
    """One event type."""

    read: int = 0
    old: Outcomes = field(default_factory=Outcomes)
    new: Outcomes = field(default_factory=Outcomes)
    newly_fail: Newly = field(default_factory=Newly)
    newly_pass: Newly = field(default_factory=Newly)

    def add(self, other: "TypeTally") -> None:
        """Add what another task counted."""
        self.read += other.read
        self.old.add(other.old)
        self.new.add(other.new)
        self.newly_fail.add(other.newly_fail)
        self.newly_pass.add(other.newly_pass)


@dataclass(slots=True, kw_only=True)
class TaskTally:
    """The counts of one task.  `failure`: the reason why the task stopped early.

    `untried`: by destination, the reason why the outcome there is unknown.  `unread`: ranges that Kafka does
    not return, with reasons.
    """

    types: dict[str, TypeTally] = field(default_factory=dict)
    read: int = 0
    filtered: int = 0
    untried: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    failure: str = ""

    def of_type(self, name: str) -> TypeTally:
        """Return the counts of an event type."""
        if name not in self.types and len(self.types) >= _MAX_TYPES:
            name = OTHER_TYPES
        return self.types.setdefault(name, TypeTally())

    def add(self, other: "TaskTally") -> None:
        """Add the counts of another task."""
        for name, each in other.types.items():
            self.of_type(name).add(each)
        self.read += other.read
        self.filtered += other.filtered
        self.untried |= other.untried
        self.unread += other.unread
        self.failure = self.failure or other.failure


def total(tallies: Iterable[TaskTally]) -> TaskTally:
    """Return the sum of all tasks' counts."""
    out = TaskTally()
    for each in tallies:
        out.add(each)
    return out


def count(counted: Counter[Reason], more: Counter[Reason]) -> None:
    """Add `more` to `counted`, which has at most `_MAX_REASONS` distinct reasons."""
    for reason, events in more.items():
        is_distinct = reason in counted or len(counted) < _MAX_REASONS
        counted[reason if is_distinct else _OTHER_REASONS] += events


def by_frequency(counted: Counter[Reason]) -> Iterator[tuple[Reason, int]]:
    """Yield reasons with their numbers of events, the largest first, in a deterministic order."""
    return iter(sorted(counted.items(), key=lambda item: (-item[1], item[0])))
