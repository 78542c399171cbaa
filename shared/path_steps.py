"""The steps of an event's path, for failures, metrics, logs and the parked store."""

from enum import StrEnum


class Step(StrEnum):
    """A step of an event's path, set before the step runs so that a failure has the right one."""

    # gateway
    RECEIVE = "receive"
    DECODE = "decode"
    CHECK = "check"
    ROUTE = "route"
    SEND = "send"
    # writer
    READ = "read"
    FILTER = "filter"
    SORT = "sort"
    PERSIST = "persist"
    # transforms
    TRANSFORM = "transform"
    # parked store
    PARK = "park"
    REPLAY = "replay"
