"""One batch, top to bottom: plan, land or divert (and relay parked events), mark, settle, commit."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from services.writer.driver.context import Parts, check_fenced, mark, phase, undecided
from services.writer.kafka.producer import is_expected
from services.writer.model.routes import Routes
from services.writer.partitions.plan_log import Totals
from services.writer.partitions.quarantine import (
    Fault,
    describe,
    halt_reason,
    in_halves,
    up_to_fault,
)
from services.writer.postgres.database import Database
from services.writer.postgres.database_threads import failures
from services.writer.postgres.pool import transaction
from services.writer.settle import ledger
from services.writer.settle.work_order import TaskReport, WorkOrder
from shared import failpoints
from shared.errors import InfrastructureError
from shared.kafka_read.offsets import Range

log = logging.getLogger(__name__)

#: Seconds for Kafka to answer; after that the parts of a failed batch are not tried.
_KAFKA_SECONDS: Final = 8.0


async def write_batch(parts: Parts, ranges: Sequence[Range], routes: Routes) -> None:
    """Settle or divert `ranges` for every database and commit their ends as the group's offsets.

    Invariant: the plan is recorded before the first transaction (`plan_pinned`), the markers follow
    the acknowledged records (`records_first`), and the group's offsets follow both (`settle_first`).
    So a writer that repeats the batch repeats the same ranges under the same routes.

    Raises `InfrastructureError` when the batch must be repeated: the same ranges are planned again,
    and ranges that a database has settled are skipped (`compare`).
    """
    await _plan(parts, ranges, routes)
    try:
        await _write(parts, ranges, routes)
    except Exception as e:
        if is_expected(e) or not await asyncio.to_thread(parts.spark.is_alive):
            raise
        log.error(  # noqa: TRY400 - the error's text may contain values of events
            "a batch failed, probably for one of its records; repeating it in halves",
            extra={"reason": describe(e)},
        )
        await _write_apart(parts, ranges, routes)


async def _write(parts: Parts, ranges: Sequence[Range], routes: Routes) -> None:
    order, reports = await _land(parts, ranges, routes)
    await mark(parts, order, reports)
    await _settle(parts, order, reports)
    failpoints.reach("writer.before_group_commit")
    await parts.cluster.commit({r.partition: r.end for r in ranges})
    parts.partitions.advance(ranges)
    parts.status.count_batch(reports)


async def _write_apart(parts: Parts, ranges: Sequence[Range], routes: Routes) -> None:
    """Settle as much of `ranges` as possible, and quarantine the partitions that fail."""

    async def settle_again(part: Sequence[Range]) -> None:
        async with asyncio.timeout(_KAFKA_SECONDS):
            await check_fenced(parts)  # else each half would wait for the same outage
        await _write(parts, part, routes)

    async def settle_piece(part: Sequence[Range]) -> None:
        async with asyncio.timeout(_KAFKA_SECONDS):
            await _plan(parts, part, routes)  # a successor must repeat exactly this piece
        await _write(parts, part, routes)

    faults = await in_halves(ranges, settle_again)
    await parts.partitions.record(
        e for f in faults for e in parts.plan_log.set_aside_entries(parts.epoch, f.range, routes)
    )
    first_faults = [await up_to_fault(f, settle_piece, known=parts.strikes.knows(f.range)) for f in faults]
    await parts.partitions.record(parts.plan_log.survived_entries(parts.epoch))
    _set_aside(parts, ranges, [f for f in first_faults if f])


def _set_aside(parts: Parts, ranges: Sequence[Range], faults: Sequence[Fault]) -> None:
    """Quarantine the partitions of `faults`.

    Raises the first error when no range passed and the error is new: a new session is tried first.
    """
    passed = any(parts.partitions.positions[r.partition].next_offset > r.start for r in ranges)
    settle_again = all(parts.strikes.knows(f.range) for f in faults)
    parts.strikes.count(faults)
    if not passed and not settle_again:
        raise faults[0].error
    for fault in faults:
        partition = fault.range.partition
        parts.partitions.set_aside(partition, *halt_reason(fault), parts.strikes.retry_at(partition))


@phase("plan")
async def _plan(parts: Parts, ranges: Sequence[Range], routes: Routes) -> None:
    """Record the plan before the ranges' first transaction, then check that no newer writer exists.

    The model's rules `plan_pinned` and `plan_checked`.
    """
    await parts.partitions.record(parts.plan_log.plan_entries(parts.epoch, ranges, routes))
    await check_fenced(parts)


async def _land(parts: Parts, ranges: Sequence[Range], routes: Routes) -> tuple[WorkOrder, list[TaskReport]]:
    """Land in the databases that are up and divert for the others; repeat until no database fails.

    Returns the last order and its reports.  Parked events are relayed after each attempt, because
    the next attempt skips settled ranges.  Raises `InfrastructureError` when no database is up.
    """
    overrun = parts.rate_limiter.overrun(ranges)
    while True:
        parts.databases.require_available()
        landing, diverted = parts.databases.split(overrun, routes.unconfigured())
        order = parts.order(ranges, routes, landing=landing, diverted=diverted)
        with parts.status.phase("land"), parts.status.committed.landing():
            reports = await asyncio.to_thread(parts.spark.run, order)
            parts.status.count_landed(reports)
        parts.rate_limiter.count(reports)
        parts.partitions.sizes.count(reports)
        parts.partitions.seconds.count(reports)
        parts.status.update_steps(reports)
        for name in {report.database for report in reports if report.waiting}:
            parts.databases.mark_waiting(name)
        await _relay_parked(parts, order, reports)
        failed = {report.database: report.error for report in reports if report.error}
        if not failed:
            failed = await _settle_empty(parts, order, reports)
        for name, error in failed.items():
            if not name:
                raise error
            parts.databases.failed(name, error)
        if not failed:
            return order, reports


@phase("advance")
async def _settle_empty(
    _: Parts, order: WorkOrder, reports: Sequence[TaskReport]
) -> dict[str, InfrastructureError]:
    """Advance ranges without any record (transaction markers, compaction); return errors by database."""
    with_records = {report.range_of for report in reports}
    empty = [r for p, r in order.ranges.items() if p not in with_records]
    return await failures(order.landing if empty else (), lambda d: _advance(order, d, empty))


def _advance(order: WorkOrder, database: Database, ranges: Sequence[Range]) -> None:
    with transaction(database, "driver") as conn:
        next_offsets = ledger.lock(conn, ranges, order.epoch)
        unsettled = [r for r in ranges if next_offsets[r.partition] < r.end]
        ledger.advance(conn, unsettled, order.epoch, order.routes.digest)


@phase("settle")
async def _settle(parts: Parts, order: WorkOrder, reports: Sequence[TaskReport]) -> None:
    """Record the totals that no database counts, before the group's offsets are committed."""
    without_records = {p: TaskReport(*p) for p in order.ranges}
    by_range = without_records | {report.range_of: report for report in reports if not report.database}
    entries = [
        entry
        for p, report in by_range.items()
        for entry in parts.plan_log.totals_entries(
            parts.epoch,
            order.ranges[p],
            Totals(
                0,
                report.filtered,
                report.unroutable,
                report.refused,
                len(order.ranges[p]) - report.read,
            ),
        )
    ]
    topics = {report.topic for report in reports if report.filtered or report.unroutable or report.refused}
    parts.status.update_undecided(undecided(parts, topics))  # else new totals would count as old ones
    await parts.partitions.record(entries)
    parts.status.update_undecided(undecided(parts, topics))


@phase("relay")
async def _relay_parked(parts: Parts, order: WorkOrder, reports: Sequence[TaskReport]) -> None:
    parts.status.count_parked(sum(report.parked for report in reports))
    parked = {report.database for report in reports if report.parked}
    await parts.databases.relay([d for d in order.landing if d.name in parked])
