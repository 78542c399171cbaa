"""The outcome of an (event, destination), and of an event without a destination."""

from enum import StrEnum


class Outcome(StrEnum):
    """What became of an event.  Counted in the transaction that makes it true."""

    LANDED = "landed"
    DUPLICATE = "duplicate"
    PARKED = "parked"
    WAITING = "waiting"
    # of a replay, beside `parked`, which never shrinks
    REPLAYED = "replayed"
    REPLAYED_DUPLICATE = "replayed_duplicate"
    # without a destination
    FILTERED = "filtered"
    UNROUTABLE = "unroutable"
