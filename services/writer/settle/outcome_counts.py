"""Counts what a task committed, by table and outcome; the driver gets it in a report, as JSON.

The totals that the databases keep are true for ever; these are here at once.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import orjson

from services.writer.settle.ledger import Tally
from shared.outcomes import Outcome


class OutcomeCount(NamedTuple):
    """Events of one topic that one table gave the same outcome."""

    database: str
    topic: str
    table: str
    outcome: str
    events: int


class OutcomeCounts:
    """What one task committed.  What waits is no total that only grows, and is left out."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str, str]] = Counter()

    def add(self, database: str, tallies: Mapping[Tally, int]) -> None:
        """Add what one transaction in `database` committed."""
        for tally, n in tallies.items():
            if tally.outcome is not Outcome.WAITING:
                self._counts[database, tally.partition.topic, tally.destination, tally.outcome] += n

    def as_json(self) -> str:
        """Serialize the counts for a report."""
        return orjson.dumps([(*key, n) for key, n in self._counts.items()]).decode()


def from_json(text: str) -> Iterator[OutcomeCount]:
    """Parse the text of `as_json`."""
    return (OutcomeCount(*each) for each in orjson.loads(text))
