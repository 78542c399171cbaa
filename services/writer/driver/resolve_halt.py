"""Resolves a halted database as the operator decided: refill or skip the missing events.

A refill diverts the missing events again from their own topics, and they drain (the model's rule
`refill_first`).  A drain skips ranges that the database has settled, so a refill that starts twice,
or refills too much, lands no event twice.  A skip moves the ledger to the start of the waiting events.
If Kafka has lost waiting events, a new marker counts the remaining ones, and they drain.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from services.writer.batching.byte_sizes import ByteSizes
from services.writer.databases import halts
from services.writer.databases.halts import Gap
from services.writer.driver.context import Parts, check_fenced, mark_each
from services.writer.model.routes import Routes
from services.writer.postgres.database_threads import in_own_thread
from services.writer.settle.work_order import TaskReport
from shared.errors import LEDGER_GAP, InfrastructureError
from shared.kafka_read.offsets import Range


async def resolve(parts: Parts, name: str, how: str, routes: Routes, max_offsets: int) -> None:
    """Refill (at most `max_offsets` offsets of a partition at once) or skip the events missing in `name`.

    After a failure the operator's decision is read and carried out again.  Raises
    `InfrastructureError` (FENCED) when a newer writer exists.
    """
    try:
        await _resolve(parts, name, how, routes, max_offsets)
    except InfrastructureError as e:
        parts.databases.resolution_failed(name, e)


async def _resolve(parts: Parts, name: str, how: str, routes: Routes, max_offsets: int) -> None:
    gaps = await in_own_thread(parts.databases.gaps, name)
    if how == halts.SKIP:
        await _skip(parts, name, gaps, routes)
    else:
        await _check_not_deleted(parts, gaps)
        await _refill(parts, name, gaps, max_offsets, routes)
    await parts.databases.resolved(name, how)


async def _check_not_deleted(parts: Parts, gaps: list[Gap]) -> None:
    """Check that Kafka still has all of `gaps`.  Raises `InfrastructureError`, which the halt shows."""
    begins = await parts.cluster.beginning_offsets([gap.partition for gap in gaps])
    for p, start in ((gap.partition, gap.start) for gap in gaps):
        if p not in begins:
            raise InfrastructureError(
                LEDGER_GAP,
                f"{p}: cannot check whether Kafka still has offset {start}: no leader answers; repeat the "
                "decision when the broker is back",
            )
        if start < begins[p]:
            raise InfrastructureError(
                LEDGER_GAP,
                f"{p}: Kafka has deleted offsets [{start}, {begins[p]}): restore the data, or skip them",
            )


async def _refill(parts: Parts, name: str, gaps: list[Gap], max_offsets: int, routes: Routes) -> None:
    await check_fenced(parts)
    await parts.partitions.record(parts.plan_log.routes_entries(routes))
    others = tuple(n for n in parts.databases.with_unconfigured(routes.unconfigured()) if n != name)
    for piece in _pieces(gaps, max_offsets, parts.partitions.sizes):
        order = parts.order([piece], routes, diverted=(name,), elsewhere=others)
        reports = await asyncio.to_thread(parts.spark.run, order)
        parts.partitions.sizes.count(reports)
        for report in reports:
            if report.error:
                raise report.error
        await mark_each(parts, order, reports)


def _pieces(gaps: list[Gap], max_offsets: int, sizes: ByteSizes) -> Iterator[Range]:
    """Yield `gaps` as ranges that fit into a batch, estimated by the sizes of earlier ranges.

    A marker's range is replaced whole: it is as large as the batch that the marker closed.
    """
    for gap in gaps:
        if gap.marked:
            yield gap.range
            continue
        for piece in gap.pieces(max_offsets):
            yield from _bounded(piece, sizes)


def _bounded(piece: Range, sizes: ByteSizes) -> Iterator[Range]:
    start = piece.start
    while start < piece.end:
        [part] = sizes.cut([replace(piece, start=start)])
        yield part
        start = part.end


async def _skip(parts: Parts, name: str, gaps: list[Gap], routes: Routes) -> None:
    await check_fenced(parts)
    lost = await parts.databases.skip(name, gaps)
    await parts.partitions.record(parts.plan_log.routes_entries(routes))
    for marker in lost:
        known = parts.plan_log.routes.get(marker.digest, routes)
        left = TaskReport(
            *marker.range.partition, database=name, diverted=marker.count, diverted_from=marker.first
        )
        await mark_each(parts, parts.order([marker.range], known, diverted=(name,)), [left])
