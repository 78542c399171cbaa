"""Replay: what is missing in a halted database is diverted again from its own topics, and drains.

A range that the database has settled is skipped when it drains, so a replay that is begun
twice, or of too much, lands nothing twice.
"""

import asyncio

from services.writer import halts
from services.writer.batch import Parts, mark, see_newest
from services.writer.orders import WorkOrder
from services.writer.routes import Routes


async def replay(parts: Parts, name: str, routes: Routes, most: int) -> None:
    """Divert what is missing in `name`, at most `most` offsets of a partition at once; then it drains.

    Raises `InfrastructureError`: it is begun again.
    """
    gaps = await asyncio.to_thread(parts.databases.gaps, name)
    begins = await parts.positions.begins([gap.partition for gap in gaps])
    for gap in gaps:
        if gap.start < begins[gap.partition]:
            topic, number = gap.partition
            parts.databases.not_replayed(
                name,
                f"{topic}/{number}: Kafka has deleted [{gap.start}, {begins[gap.partition]}): bring the data "
                "back, or do without",
            )
            return
    await see_newest(parts)
    await parts.view.record(parts.settled.name(routes))
    for piece in [piece for gap in gaps for piece in gap.pieces(most)]:
        order = WorkOrder(
            parts.epoch, {piece.partition: piece}, (), (name,), routes, parts.bootstrap, parts.pausing
        )
        lines = await asyncio.to_thread(parts.spark.run, order)
        for line in lines:
            if line.error:
                raise line.error
        await mark(parts, order, lines)
    await parts.databases.resolved(name, halts.REPLAY)
