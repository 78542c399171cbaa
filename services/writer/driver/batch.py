"""One batch, top to bottom: plan, read, land or divert (and relay what was parked), mark, settle, commit."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from services.writer.driver.parts import Parts, check_fenced, mark, phase
from services.writer.kafka.producer import is_foreseen
from services.writer.model.offsets import Range, total
from services.writer.model.routes import Routes
from services.writer.partitions.plan_log import Totals
from services.writer.partitions.set_aside import Fault, in_halves, kind_of, up_to_fault, why
from services.writer.postgres.database import Database
from services.writer.postgres.database_threads import failures
from services.writer.postgres.pool import transaction
from services.writer.settle import ledger
from services.writer.settle.work_order import TaskReport, WorkOrder
from shared import failpoints
from shared.errors import InfrastructureError

log = logging.getLogger(__name__)

#: Kafka answers, or nothing of a batch that failed is tried again.
_KAFKA_SECONDS: Final = 8.0


async def write_batch(parts: Parts, ranges: Sequence[Range], routes: Routes) -> None:
    """Settle or divert `ranges` everywhere and commit their ends as the group's offsets.

    Raises `InfrastructureError` when nothing of it may count: the same ranges are planned
    again, and what was settled of them is skipped then.
    """
    await _plan(parts, ranges, routes)
    try:
        await _write(parts, ranges, routes)
    except Exception as e:
        if is_foreseen(e) or not await asyncio.to_thread(parts.spark.is_alive):
            raise
        log.error(  # noqa: TRY400 - its text may have values of events
            "a batch failed for one of its records, as it seems, and is done again in halves",
            extra={"reason": kind_of(e)},
        )
        await _write_apart(parts, ranges, routes)


async def _write(parts: Parts, ranges: Sequence[Range], routes: Routes) -> None:
    arrivals = await _read(parts, ranges)
    order, lines = await _land(parts, ranges, routes, arrivals)
    await mark(parts, order, lines)
    await _settle(parts, order, lines)
    failpoints.reach("writer.before_group_commit")
    await parts.cluster.commit({r.partition: r.end for r in ranges})
    parts.partitions.advance(ranges)
    parts.status.count_batch(lines)


async def _write_apart(parts: Parts, ranges: Sequence[Range], routes: Routes) -> None:
    """Settle what can be settled of `ranges`, and set aside what fails."""

    async def again(some: Sequence[Range]) -> None:
        async with asyncio.timeout(_KAFKA_SECONDS):
            await check_fenced(parts)  # an outage would be waited for in each half
        await _write(parts, some, routes)

    async def piece(some: Sequence[Range]) -> None:
        async with asyncio.timeout(_KAFKA_SECONDS):
            await _plan(parts, some, routes)  # whoever repeats it must repeat the same
        await _write(parts, some, routes)

    faults = await in_halves(ranges, again)
    await parts.partitions.record(
        e for f in faults for e in parts.plan_log.set_aside_entries(parts.epoch, f.range, routes)
    )
    found = [await up_to_fault(f, piece, known=parts.strikes.knows(f.range)) for f in faults]
    _set_aside(parts, ranges, [f for f in found if f])


def _set_aside(parts: Parts, ranges: Sequence[Range], left: Sequence[Fault]) -> None:
    """The others go on.  Raises where nothing passes: the loop begins again first, with all that is its."""
    passed = any(parts.partitions.positions[r.partition].next_offset > r.start for r in ranges)
    again = all(parts.strikes.knows(f.range) for f in left)
    parts.strikes.count(left)
    if not passed and not again:
        raise left[0].error
    for fault in left:
        p = fault.range.partition
        parts.partitions.set_aside(p, *why(fault), parts.strikes.again_at(p))


@phase("plan")
async def _plan(parts: Parts, ranges: Sequence[Range], routes: Routes) -> None:
    """Write the plan before the range's first transaction, then see that no newer writer is there."""
    await parts.partitions.record(parts.plan_log.plan_entries(parts.epoch, ranges, routes))
    await check_fenced(parts)


@phase("read")
async def _read(parts: Parts, ranges: Sequence[Range]) -> pa.RecordBatch | None:
    """The records of a small batch; None: Spark reads them, in as many tasks as it takes."""
    return await parts.cluster.reader.read(ranges) if total(ranges) <= parts.small_batch else None


async def _land(
    parts: Parts, ranges: Sequence[Range], routes: Routes, arrivals: pa.RecordBatch | None
) -> tuple[WorkOrder, list[TaskReport]]:
    """Land in the databases that are up, divert for the others, until each did one or the other.

    What was parked is relayed after each attempt: the next one skips what this one settled.
    """
    while True:
        parts.databases.require_available()
        order = parts.order(
            ranges, routes, landing=parts.databases.landing(), diverted=parts.databases.diverted()
        )
        with parts.status.phase("land"):
            lines = await asyncio.to_thread(parts.spark.run, order, arrivals)
        parts.rate_limiter.count(lines)
        parts.partitions.sizes.count(lines)
        parts.status.update_steps(lines)
        for name in {line.database for line in lines if line.waiting}:
            parts.databases.held(name)
        await _relay_parked(parts, order, lines)
        failed = {line.database: line.error for line in lines if line.error}
        if not failed:
            failed = await _settle_unseen(parts, order, lines)
        for name, error in failed.items():
            if not name:
                raise error
            parts.databases.failed(name, error)
        if not failed:
            return order, lines


@phase("advance")
async def _settle_unseen(
    _: Parts, order: WorkOrder, lines: Sequence[TaskReport]
) -> dict[str, InfrastructureError]:
    """Advance ranges of which no record arrived (transaction markers, compaction); returns what failed."""
    seen = {line.range_of for line in lines}
    unseen = [r for p, r in order.ranges.items() if p not in seen]
    return await failures(order.landing if unseen else (), lambda d: _advance(order, d, unseen))


def _advance(order: WorkOrder, database: Database, ranges: Sequence[Range]) -> None:
    with transaction(database, "driver") as conn:
        at = ledger.lock(conn, ranges, order.epoch)
        fresh = [r for r in ranges if at[r.partition] < r.end]
        ledger.advance(conn, fresh, order.epoch, order.routes.digest)


@phase("settle")
async def _settle(parts: Parts, order: WorkOrder, lines: Sequence[TaskReport]) -> None:
    """Count what no database counts, before the group's offsets pass it."""
    entries = [
        entry
        for line in lines
        if not line.database
        for entry in parts.plan_log.totals_entries(
            parts.epoch,
            order.ranges[line.range_of],
            Totals(0, line.filtered, line.unroutable, line.refused),
        )
    ]
    await parts.partitions.record(entries)


@phase("relay")
async def _relay_parked(parts: Parts, order: WorkOrder, lines: Sequence[TaskReport]) -> None:
    parts.status.count_parked(sum(line.parked for line in lines))
    parked = {line.database for line in lines if line.parked}
    await parts.databases.relay([d for d in order.landing if d.name in parked])
