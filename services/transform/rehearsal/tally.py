"""The counts of a rehearsal: outcomes, failures by cause, times, and differences from the live version."""

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

#: Maximum receipts with an event for each failure and each difference, and maximum of different ones.
SAMPLES: Final = 3
_MAX_CAUSES: Final = 100
_NS: Final = 1000


class Cause(NamedTuple):
    """The cause of a failure, without values of events."""

    code: str
    exception: str
    function: str
    line: int | None
    #: The output and the fault, for a bad output.
    detail: str = ""

    def __str__(self) -> str:
        """Return the cause as text for people."""
        place = f" at line {self.line}" if self.line is not None else ""
        place += f" in {self.function}()" if self.function else ""
        return f"{self.code}: {self.exception}{place}" if self.exception else f"{self.code}: {self.detail}"


class Sample(NamedTuple):
    """An event: its receipt, and its shape without values."""

    receipt: str
    event: Any


@dataclass(slots=True)
class Group:
    """Events with the same failure or difference."""

    events: int = 0
    samples: list[Sample] = field(default_factory=list)


class Groups:
    """Groups by their keys; events of further keys than the maximum are counted together."""

    def __init__(self) -> None:
        self.by_key: dict[Any, Group] = {}
        self.others = 0

    def add(self, key: Any, receipt: str, event: Any) -> None:
        """Count an event; `event` is called for its shape if that is a sample."""
        group = self.by_key.get(key)
        if group is None:
            if len(self.by_key) >= _MAX_CAUSES:
                self.others += 1
                return
            group = self.by_key[key] = Group()
        group.events += 1
        if len(group.samples) < SAMPLES:
            group.samples.append(Sample(receipt, event()))

    def by_frequency(self) -> list[tuple[Any, Group]]:
        """Return the groups, the largest first."""
        return sorted(self.by_key.items(), key=lambda item: (-item[1].events, str(item[0])))


@dataclass(slots=True)
class Tally:
    """All counts of a rehearsal."""

    read: int = 0
    #: Records that are no events of the type, as the transform would skip them.
    filtered: int = 0
    emitted: int = 0
    dropped: int = 0
    parked: int = 0
    #: Events that are parked, and are not by the deployed version.
    newly_parked: int = 0
    outputs: Counter[str] = field(default_factory=Counter)
    failures: Groups = field(default_factory=Groups)
    differences: Groups = field(default_factory=Groups)
    #: Events whose outcome or outputs differ from the deployed version's.
    differing: int = 0
    deaths: int = 0
    peak_memory: int = 0
    #: Nanoseconds of each event.
    times: "array[int]" = field(default_factory=lambda: array("Q"))
    #: Reasons why a part of the window was not tried.
    unchecked: list[str] = field(default_factory=list)

    @property
    def events(self) -> int:
        """Return the number of events with an outcome."""
        return self.emitted + self.dropped + self.parked

    def microseconds(self, share: float) -> float:
        """Return the time in microseconds that this share of the events did not exceed; 0 without events."""
        if not self.times:
            return 0.0
        ordered = sorted(self.times)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] / _NS
