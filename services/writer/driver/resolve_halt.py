"""What a person's word does to a halted database, once its gaps are known.

A replay diverts what is missing again from its own topics, and it drains.  A range that the
database has settled is skipped when it drains, so a replay that is begun twice, or of too
much, lands nothing twice.  A skip moves the ledger on to where what waits begins, and where
Kafka has lost events that wait, a new marker counts those that are left, and they drain.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from services.writer.driver.parts import Parts, check_fenced, mark_each
from services.writer.model.offsets import Range
from services.writer.model.routes import Routes
from services.writer.plan.byte_sizes import ByteSizes
from services.writer.postgres.database_threads import in_own_thread
from services.writer.recover import database_halts
from services.writer.recover.database_halts import Gap
from services.writer.settle.work_order import TaskReport
from shared.errors import LEDGER_GAP, InfrastructureError


async def resolve(parts: Parts, name: str, how: str, routes: Routes, most: int) -> None:
    """Replay (at most `most` offsets of a partition at once) or skip what is missing in `name`.

    When it fails, the person's word is asked for again and it is begun anew.  Raises
    `InfrastructureError` when a newer writer is there.
    """
    try:
        await _resolve(parts, name, how, routes, most)
    except InfrastructureError as e:
        parts.databases.resolution_failed(name, e)


async def _resolve(parts: Parts, name: str, how: str, routes: Routes, most: int) -> None:
    gaps = await in_own_thread(parts.databases.gaps, name)
    if how == database_halts.SKIP:
        await _skip(parts, name, gaps, routes)
    else:
        await _see_deleted(parts, gaps)
        await _replay(parts, name, gaps, most, routes)
    await parts.databases.resolved(name, how)


async def _see_deleted(parts: Parts, gaps: list[Gap]) -> None:
    """Raises `InfrastructureError` when Kafka does not have all of `gaps`: the halt goes on and says so."""
    begins = await parts.cluster.beginning_offsets([gap.partition for gap in gaps])
    for p, start in ((gap.partition, gap.start) for gap in gaps):
        if p not in begins:
            raise InfrastructureError(
                LEDGER_GAP,
                f"{p}: no leader says whether Kafka still has {start}: say it again when its broker is back",
            )
        if start < begins[p]:
            raise InfrastructureError(
                LEDGER_GAP,
                f"{p}: Kafka has deleted [{start}, {begins[p]}): bring the data back, or do without",
            )


async def _replay(parts: Parts, name: str, gaps: list[Gap], most: int, routes: Routes) -> None:
    await check_fenced(parts)
    await parts.partitions.record(parts.plan_log.routes_entries(routes))
    others = tuple(n for n in parts.databases.names if n != name)
    for piece in _pieces(gaps, most, parts.partitions.sizes):
        order = parts.order([piece], routes, diverted=(name,), elsewhere=others)
        lines = await asyncio.to_thread(parts.spark.run, order)
        parts.partitions.sizes.count(lines)
        for line in lines:
            if line.error:
                raise line.error
        await mark_each(parts, order, lines)


def _pieces(gaps: list[Gap], most: int, sizes: ByteSizes) -> Iterator[Range]:
    """`gaps` in ranges that are as large as a batch may be: each by what the ones before taught.

    A marker is replaced whole: it is as large as the batch that it closes.
    """
    for gap in gaps:
        if gap.marked:
            yield gap.range
            continue
        for piece in gap.pieces(most):
            yield from _bounded(piece, sizes)


def _bounded(piece: Range, sizes: ByteSizes) -> Iterator[Range]:
    at = piece.start
    while at < piece.end:
        [part] = sizes.cut([replace(piece, start=at)])
        yield part
        at = part.end


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
