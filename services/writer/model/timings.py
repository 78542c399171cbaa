"""Measures a task's work by step and table; the task reports it to the driver as JSON, for the metrics."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import orjson

from shared.path_steps import Step


class Done(NamedTuple):
    """Rows that went through a step, and its seconds.  `topic` is empty if the rows are of several topics."""

    step: str
    topic: str
    database: str
    table: str
    rows: int
    seconds: float


class StepTimings:
    """Collects the measurements of one task."""

    def __init__(self) -> None:
        self._done: list[Done] = []

    @contextmanager
    def timed(
        self, step: Step, topics: set[str], rows: int, *, database: str = "", table: str = ""
    ) -> Iterator[None]:
        """Measure the block as work of `step`, unless it raises."""
        start = time.perf_counter()
        yield
        (topic,) = topics if len(topics) == 1 else ("",)
        self._done.append(Done(step, topic, database, table, rows, time.perf_counter() - start))

    @contextmanager
    def timed_by_topic(self, step: Step, rows: Mapping[str, int]) -> Iterator[None]:
        """Measure the block as work of `step` on `rows` of each topic; its time is divided by row counts."""
        start = time.perf_counter()
        yield
        seconds_a_row = (time.perf_counter() - start) / max(sum(rows.values()), 1)
        self._done += [Done(step, topic, "", "", n, n * seconds_a_row) for topic, n in rows.items()]

    @contextmanager
    def timed_together(
        self, step: Step, database: str, rows: Mapping[tuple[str, str], int]
    ) -> Iterator[None]:
        """Measure the block as work of `step` on `rows` by topic and table, unless it raises."""
        start = time.perf_counter()
        yield
        seconds_a_row = (time.perf_counter() - start) / max(sum(rows.values()), 1)
        for (topic, table), n in rows.items():
            self._done.append(Done(step, topic, database, table, n, n * seconds_a_row))

    def as_json(self) -> str:
        """Serialize the measurements for a report."""
        return orjson.dumps([tuple(done) for done in self._done]).decode()


def done(text: str) -> Iterator[Done]:
    """Parse the text of `as_json`."""
    return (Done(*each) for each in orjson.loads(text))
