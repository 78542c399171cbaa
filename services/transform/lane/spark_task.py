"""The body of a lane run's Spark task: the flow with the function's process of this Spark worker."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from services.transform.function.lookups import LookupTable
from services.transform.function.runner_cache import runner_of
from services.transform.function.transform_code import TransformCode
from services.transform.lane.order import LaneOrder, LaneReport
from services.transform.lane.task import run


class Shared(Protocol):
    """A table that Spark sends to each worker once."""

    @property
    def value(self) -> LookupTable:
        """Return the table."""


def run_lane(
    order: LaneOrder, code: TransformCode, lookups: Mapping[str, Shared], _: Iterable[int]
) -> Iterator[LaneReport]:
    """Run one lane in this process and yield its report."""
    tables = {name: table.value for name, table in lookups.items()}
    yield asyncio.run(run(order, runner_of(code, tables)))
