"""Counts the events that a task committed, by table and outcome; a report has them as JSON.

The totals in the databases are permanent but read every few seconds; these counts arrive at once.
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
    """The events that one task committed, except waiting ones, whose number may fall."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str, str]] = Counter()

    def add(self, database: str, tallies: Mapping[Tally, int]) -> None:
        """Add the tallies of one committed transaction in `database`."""
        for tally, n in tallies.items():
            if tally.outcome is not Outcome.WAITING:
                self._counts[database, tally.partition.topic, tally.destination, tally.outcome] += n

    def as_json(self) -> str:
        """Return the counts as JSON for a report."""
        return orjson.dumps([(*key, n) for key, n in self._counts.items()]).decode()


def from_json(text: str) -> Iterator[OutcomeCount]:
    """Return the counts in the text of `as_json`."""
    return (OutcomeCount(*each) for each in orjson.loads(text))
