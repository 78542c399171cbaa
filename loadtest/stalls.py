"""Stalls: the longest time in which rows were due and none landed."""

from typing import Any

import numpy as np

from loadtest.client_claims import Floats
from loadtest.measure import Rows


def longest_stall(rows: Rows | None, max_poll_gap: float) -> dict[str, Any] | None:
    """Return the longest stall of due rows, and of accepted rows.

    `max_poll_gap`: the longest time between two polls; a shorter stall may be due to the polling itself.
    Rows that were never seen are left out: such a run is not sound.
    """
    if rows is None or not np.isfinite(rows.visible).any():
        return None
    known = np.isfinite(rows.visible)
    began = float(rows.intended.min())
    due, at = _longest(rows.intended[known], rows.visible[known])
    accepted, _ = _longest(rows.accepted[known], rows.visible[known])
    return {
        "due_s": round(due, 3),
        "accepted_s": round(accepted, 3),
        "from_second": round(at - began, 1),
        "longest_between_looks_s": round(max_poll_gap, 3),
    }


def _longest(waited_from: Floats, visible: Floats) -> tuple[float, float]:
    """Return its length and its start: the previous row, or the time at which the first row was expected."""
    moments, at = np.unique(visible, return_inverse=True)
    first_waited = np.full(len(moments), np.inf)
    np.minimum.at(first_waited, at, waited_from)
    # Events that land at a moment or later were waited for until then.
    first_waited = np.minimum.accumulate(first_waited[::-1])[::-1]
    began = np.maximum(first_waited, np.concatenate([[-np.inf], moments[:-1]]))
    longest = int(np.argmax(moments - began))
    return max(float(moments[longest] - began[longest]), 0.0), float(began[longest])
