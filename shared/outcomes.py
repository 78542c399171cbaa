"""The outcome of an (event, destination), and of an event without a destination."""

from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of an event, counted in the transaction that makes it true."""

    LANDED = "landed"
    DUPLICATE = "duplicate"
    PARKED = "parked"
    WAITING = "waiting"
    # by a replay, in addition to `parked`, which never decreases
    REPLAYED = "replayed"
    REPLAYED_DUPLICATE = "replayed_duplicate"
    # without a destination
    FILTERED = "filtered"
    UNROUTABLE = "unroutable"
