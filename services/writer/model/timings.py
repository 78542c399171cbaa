"""What a task did, by step and table, for the metrics: on its way to the driver as JSON in a report."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import orjson

from shared.steps import Step


class Done(NamedTuple):
    """Rows that went through a step, and how long that took.  `topic` is empty when they are of several."""

    step: str
    topic: str
    database: str
    table: str
    rows: int
    seconds: float


class StepTimings:
    """What one task did."""

    def __init__(self) -> None:
        self._done: list[Done] = []

    @contextmanager
    def timed(
        self, step: Step, topics: set[str], rows: int, *, database: str = "", table: str = ""
    ) -> Iterator[None]:
        """Note the block as work of `step`, unless it fails."""
        begin = time.perf_counter()
        yield
        (topic,) = topics if len(topics) == 1 else ("",)
        self._done.append(Done(step, topic, database, table, rows, time.perf_counter() - begin))

    @contextmanager
    def timed_by_topic(self, step: Step, rows: Mapping[str, int]) -> Iterator[None]:
        """Note the block as work of `step` on `rows` of each topic, which share its time by their number."""
        begin = time.perf_counter()
        yield
        of_a_row = (time.perf_counter() - begin) / max(sum(rows.values()), 1)
        self._done += [Done(step, topic, "", "", n, n * of_a_row) for topic, n in rows.items()]

    def as_json(self) -> str:
        """For a report."""
        return orjson.dumps([tuple(done) for done in self._done]).decode()


def done(text: str) -> Iterator[Done]:
    """What `as_json` says."""
    return (Done(*each) for each in orjson.loads(text))
