"""The flow of a lane run: fence, refuse an old epoch, read positions; then read, run the function, commit.

The function runs with no transaction open.  One transaction has the outputs, the parked records, the totals
and the positions of a batch, so each event has exactly one outcome, however often a run is repeated.  Any
error ends the run; the next one begins at the committed positions.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from aiokafka.errors import KafkaError

from services.transform.function.results import FunctionResult
from services.transform.lane.kafka_positions import PositionReader
from services.transform.lane.kafka_transaction import LaneProducer
from services.transform.lane.order import LaneOrder, LaneReport
from services.transform.lane.outcomes import Outcomes, log_records, totals_records
from services.transform.lane.outputs import OutputRecords
from services.transform.lane.source import Batch, Source
from services.transform.lane.timed_function import Function, TimedFunction
from shared import failpoints
from shared.errors import KAFKA_UNAVAILABLE, TRANSFORM_POSITION_LOST, InfrastructureError
from shared.kafka_read.decompress import CorruptBatchError
from shared.kafka_read.fetch import Fetcher, OutOfRangeError, RangeUnreadableError
from shared.kafka_read.offsets import Partition
from shared.transform_totals import Position

log = logging.getLogger(__name__)

#: Seconds of the function in one transaction, and of the checks of its outputs: a longer batch is cut.
BATCH_SECONDS: Final = 5.0
#: Seconds between two batches with few events.  A transaction costs 9 ms of CPU in task and broker: without a
#: pause, each transform with 100 events a second would use most of a core.
_PACE_SECONDS: Final = 0.04
_FEW_EVENTS: Final = 500
#: Seconds after which a run checks that its source topics were not recreated.
_TOPIC_IDS_SECONDS: Final = 5.0


async def run(order: LaneOrder, function: Function) -> LaneReport:
    """Run one lane until it is idle or its budget is over; errors of Kafka are in the report."""
    report = LaneReport(order.name, order.lane)
    async with AsyncExitStack() as stack:
        producer = LaneProducer.of(order)
        stack.push_async_callback(producer.stop)
        fetcher = Fetcher(order.brokers)
        stack.push_async_callback(fetcher.stop)
        lane = LaneRun(order, producer, fetcher, report, function)
        try:
            await lane.run()
        except OutOfRangeError as e:
            report.fault, report.detail, report.is_lost = TRANSFORM_POSITION_LOST, str(e), True
        except InfrastructureError as e:
            report.fault, report.detail = e.fault, e.detail
        except (RangeUnreadableError, CorruptBatchError, KafkaError, OSError, TimeoutError) as e:
            report.fault, report.detail = KAFKA_UNAVAILABLE, f"{type(e).__name__}: {e}"
    return report


class LaneRun:
    """One run of a lane."""

    def __init__(
        self,
        order: LaneOrder,
        producer: LaneProducer,
        fetcher: Fetcher,
        report: LaneReport,
        function: Function,
    ) -> None:
        self._order = order
        self._producer = producer
        self._fetcher = fetcher
        self._reader = PositionReader(order, producer, fetcher)
        self._report = report
        self._function = function
        self._timed = TimedFunction(function)
        self._outputs = OutputRecords(order)
        self._positions: dict[Partition, Position] = {}
        self._topics_checked = 0.0

    async def run(self) -> None:
        """Run to the end of the budget.  Raise the error that ends the run."""
        ends = time.monotonic() + self._order.budget_seconds
        await self._producer.fence()
        failpoints.reach("transform.fenced")
        await self._fetcher.start()
        await self._reader.refuse_old_epoch()
        await self._take_positions()
        if not self._positions:
            return
        source = Source(self._order, self._fetcher, {p: each.next for p, each in self._positions.items()})
        moved: dict[Partition, int] = {}
        news_at = time.monotonic()
        while time.monotonic() < ends:
            batch = await self._next(source)
            if batch.has_records:
                batch.next = moved | batch.next
                news_at, moved = time.monotonic(), {}
                if not await self._transform(batch):
                    return
                if len(batch.events) < _FEW_EVENTS:
                    await asyncio.sleep(news_at + _PACE_SECONDS - time.monotonic())
            else:  # positions behind markers are committed at the end
                moved |= batch.next
                if time.monotonic() - news_at >= self._order.idle_seconds:
                    break
        if moved:
            await self._transform(Batch(next=moved))

    async def _take_positions(self) -> None:
        """Read the lane's positions; lane 0 commits the first ones of all lanes."""
        found = await self._reader.read()
        if found.missing and self._order.lane == 0:
            first = await self._reader.first(found)
            await self._commit(first)
            found.positions |= {p: each for p, each in first.items() if self._order.has(p)}
        elif found.missing:
            self._report.without_position = len(found.missing)
        self._positions = found.positions
        self._report.positions |= {p: each.next for p, each in self._positions.items()}
        self._topics_checked = time.monotonic()

    async def _next(self, source: Source) -> Batch:
        """Return the next records, and end the run if a topic was recreated."""
        try:
            batch = await source.next()
        except OutOfRangeError as e:
            await self._check_topics()
            if self._order.accept:
                await self._accept(e.partition)
            raise
        if source.unreadable:
            reasons = (f"{p}: {reason}" for p, reason in sorted(source.unreadable.items()))
            self._report.unreadable = "; ".join(reasons)
        if time.monotonic() - self._topics_checked > _TOPIC_IDS_SECONDS:
            await self._check_topics()
        return batch

    async def _accept(self, partition: Partition) -> None:
        """Commit the position at the nearest end of the log, as an operator has accepted; end the run."""
        moved = await self._reader.nearest(partition, self._positions[partition])
        await self._commit({partition: moved})
        raise InfrastructureError(
            KAFKA_UNAVAILABLE, f"{partition} continues at {moved.next}, as an operator has accepted"
        )

    async def _check_topics(self) -> None:
        """Raise `InfrastructureError` if a topic has another UUID than at the start of the run."""
        topic_ids = await self._reader.topic_ids()
        for partition, position in self._positions.items():
            if topic_ids.get(partition.topic) != position.totals.topic_id:
                raise InfrastructureError(
                    KAFKA_UNAVAILABLE, f"topic {partition.topic} was deleted or recreated; reading it anew"
                )
        self._topics_checked = time.monotonic()

    async def _transform(self, batch: Batch) -> bool:
        """Run the function on the events of `batch`, then commit the outcomes; return whether of all events.

        After five deaths of its process, and after some seconds, the outcomes so far are committed, so that
        the driver can pause the transform or run another one, and the run ends: the next one continues.
        """
        results: Sequence[FunctionResult] = []
        if values := [event.value for event in batch.events]:
            before = self._function.cpu_seconds()
            ends = time.monotonic() + BATCH_SECONDS
            results = await asyncio.to_thread(self._timed.run, values, ends)
            self._report.function_seconds += self._function.cpu_seconds() - before
        failpoints.reach("transform.after_function")
        outcomes = Outcomes(self._order, self._outputs, self._positions)
        done = outcomes.add(batch, results, time.monotonic() + BATCH_SECONDS)
        await self._commit(outcomes.positions(done), outcomes)
        self._report.events += len(done.events)
        return done is batch

    async def _commit(self, positions: dict[Partition, Position], outcomes: Outcomes | None = None) -> None:
        """Commit records, totals and positions in one transaction."""
        records = [
            *(outcomes.records if outcomes else ()),
            *totals_records(self._order, positions),
            *log_records(self._order, self._function.take_logs()),
        ]
        await self._producer.commit(records, self._order.group, positions)
        self._positions |= {p: each for p, each in positions.items() if self._order.has(p)}
        self._report.positions |= {p: each.next for p, each in positions.items()}
        self._report.transactions += 1
