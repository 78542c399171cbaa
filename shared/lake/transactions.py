"""Transaction identifiers of the lake's commits: the position of each Kafka partition in a table's log."""

from typing import Final, NamedTuple

#: Property of a table: the Kafka cluster whose Onramp writes the table.
OWNER: Final = "onramp.owner"
_PREFIX: Final = "onramp"
_LANDED: Final = "landed"
_DROPPED: Final = "dropped"
#: Identifier whose version is the first day, in days since 1970, of which `keep_days` has dropped no row.
DROPPED_BEFORE: Final = f"{_PREFIX}/{_DROPPED}"


class TablePosition(NamedTuple):
    """The offset that a table continues at in a partition of one topic generation, and its rows so far."""

    next_offset: int
    landed: int


def position_id(topic_id: str, partition: int) -> str:
    """Return the identifier whose version is the next offset of the partition."""
    return f"{_PREFIX}/{topic_id}/{partition}"


def landed_id(topic_id: str, partition: int) -> str:
    """Return the identifier whose version is the number of rows of the partition."""
    return f"{_PREFIX}/{topic_id}/{partition}/{_LANDED}"


def dropped_id(topic: str, partition: int) -> str:
    """Return the identifier whose version is the number of the partition's rows that `keep_days` has dropped.

    It counts the rows of all generations of the topic: rows do not name their generation.
    """
    return f"{_PREFIX}/{_DROPPED}/{topic}/{partition}"
