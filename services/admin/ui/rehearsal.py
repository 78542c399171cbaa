"""The outcome of a rehearsal: how many events would land or be processed, how many still fail, and why."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from services.admin.ui.charts import Part
from shared.transform_replay import DROPPED, EMITTED

RUNNING: Final = frozenset({"running", "cancelling"})
_THERE: Final = frozenset({"duplicate", "landed_earlier"})


class Outcome(NamedTuple):
    """Numbers of events by outcome, and the causes of those that still fail.

    Events that a transform parked are emitted or dropped; all others land, or are in their table already.
    """

    landed: int
    there: int
    emitted: int
    dropped: int
    failed: int
    rest: int
    causes: Sequence[Mapping[str, Any]]
    transform: str | None

    @property
    def replayed(self) -> int:
        """Return the events that a replay would not leave parked."""
        return self.landed + self.there + self.emitted + self.dropped

    @property
    def sentence(self) -> str:
        """Return what a replay would do."""
        if self.transform is not None:
            return f"{self.emitted:,} of them would be emitted, and {self.dropped:,} dropped."
        return f"{self.landed:,} of them would land."

    @property
    def parts(self) -> Sequence[Part]:
        """Return the parts of a bar, and the lines of its legend."""
        of_table = [Part("would land", self.landed, "land"), Part("there already", self.there, "there")]
        emitted = Part("would be emitted", self.emitted, "land")
        of_transform = [emitted, Part("would be dropped", self.dropped, "there")]
        replayed = of_table if self.transform is None else of_transform
        found = [*replayed, Part("still fail", self.failed, "err")]
        return [*found, Part("not tried yet", self.rest, "flight")] if self.rest else found


def outcome_of(job: Mapping[str, Any], transform: str | None) -> Outcome:
    """Return the outcome of a group's rehearsal as far as it is; `transform`: it has parked the events."""
    results = job["results"]

    def count(*outcomes: str) -> int:
        return sum(each["events"] for each in results if each["outcome"] in outcomes)

    replayed = {"landed", EMITTED, DROPPED} | _THERE
    causes = [each for each in results if each["outcome"] not in replayed]
    failed = sum(each["events"] for each in causes)
    return Outcome(
        landed=count("landed"),
        there=count(*_THERE),
        emitted=count(EMITTED),
        dropped=count(DROPPED),
        failed=failed,
        rest=max(job["counted"] - count(*replayed) - failed, 0),
        causes=causes,
        transform=transform,
    )
