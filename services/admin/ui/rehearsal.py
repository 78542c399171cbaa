"""The outcome of a rehearsal: how many events would land, are there already, or still fail, and why."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from services.admin.ui.charts import Part

RUNNING: Final = frozenset({"running", "cancelling"})
_LANDED: Final = frozenset({"landed"})
_THERE: Final = frozenset({"duplicate", "landed_earlier"})


class Outcome(NamedTuple):
    """Numbers of events by outcome, and the causes of those that still fail."""

    landed: int
    there: int
    failed: int
    rest: int
    causes: Sequence[Mapping[str, Any]]

    @property
    def parts(self) -> Sequence[Part]:
        """Return the parts of a bar."""
        found = [
            Part("would land", self.landed, "land"),
            Part("there already", self.there, "there"),
            Part("still fail", self.failed, "err"),
        ]
        return [*found, Part("not tried yet", self.rest, "flight")] if self.rest else found


def outcome_of(job: Mapping[str, Any]) -> Outcome:
    """Return the outcome of a rehearsal as far as it is."""
    results = job["results"]
    landed = sum(each["events"] for each in results if each["outcome"] in _LANDED)
    there = sum(each["events"] for each in results if each["outcome"] in _THERE)
    causes = [each for each in results if each["outcome"] not in _LANDED | _THERE]
    failed = sum(each["events"] for each in causes)
    return Outcome(landed, there, failed, max(job["counted"] - landed - there - failed, 0), causes)
