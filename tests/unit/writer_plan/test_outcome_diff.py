"""Which events newly fail and which newly land, for any destinations."""

import numpy as np
import pytest

from services.writer.plan.outcome_diff import EventOutcomes, compare
from services.writer.plan.reasons import Reason

WHY = Reason("data_rejected", "/payload/n", "it is no number")


def side(
    destinations: int, *parked: str, refused: bool = False, untried: tuple[str, ...] = ()
) -> EventOutcomes:
    """One event under one set of rules."""
    judged = EventOutcomes(destinations=np.array([destinations]), refused={0: [WHY]} if refused else {})
    for destination in parked:
        judged.park(0, destination, WHY)
    for destination in untried:
        judged.leave([0], destination)
    return judged


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (side(1), side(1), ""),
        (side(1), side(1, refused=True), "fails"),
        (side(1), side(1, "a"), "fails"),
        (side(1, refused=True), side(1), "passes"),
        (side(1, "a"), side(1), "passes"),
        # It failed before, elsewhere or for another reason: nothing is new.
        (side(1, refused=True), side(1, "a"), ""),
        (side(1, "a"), side(1, refused=True), ""),
        (side(1, "a"), side(1, "a"), ""),
        (side(2, "a"), side(2, "a"), ""),
        # One of two destinations.
        (side(2), side(2, "a"), "fails"),
        (side(2, "a"), side(2, "b"), "fails"),
        (side(2, "a"), side(2, "a", "b"), "fails"),
        (side(2, "a"), side(2), "passes"),
        (side(2, "a", "b"), side(2, "a"), "passes"),
        (side(1), side(2, "b"), "fails"),  # a destination that comes, and parks
        (side(2, "a"), side(1), "passes"),  # a destination that goes
        # What was not tried proves nothing.
        (side(1, untried=("a",)), side(1, "a"), ""),
        (side(1, "a"), side(1, untried=("a",)), ""),
        (side(2, untried=("a",)), side(2, "a"), ""),
        (side(2, untried=("a",)), side(2, "b", untried=("a",)), "fails"),
        (side(1, untried=("a",)), side(1, refused=True), ""),
    ],
)
def test_an_event_newly_fails_or_passes_where_it_did_not_before(
    old: EventOutcomes, new: EventOutcomes, verdict: str
) -> None:
    changed = compare(old, new)
    assert ("fails" if changed.newly_fail else "") + ("passes" if changed.newly_pass else "") == verdict


def test_event_refused_by_the_gateway_fails_there_and_does_not_land() -> None:
    judged = side(2, "a", refused=True)
    assert judged.reasons(0) == [WHY]
    assert not judged.lands(0)
    assert judged.fails_at(0) == {"gateway"}
