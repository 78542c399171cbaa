"""Where tables begin in a partition, also after the loss of `onramp.lake`."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from services.lake.driver.kafka_cluster import Committed
from services.lake.driver.lake_log import Entry, LakeLog
from services.lake.driver.partitions import Partitions
from services.lake.routes.lake_routes import LakeRoute, LakeRoutes
from shared.kafka_read.offsets import Partition
from shared.lake.lake_tables import LakeTable
from shared.lake.lake_topic import PositionKey
from shared.lake.transactions import TablePosition

P = Partition("events.flight", 0)
ROUTES = LakeRoutes((LakeRoute("flight", P.topic, LakeTable("flights")),))
KEY = PositionKey("flights", P.topic, "id", 0)


class Topic:
    """A cluster with one partition of 1,500 events, which keeps the committed entries."""

    def __init__(self) -> None:
        self.producer = self

    async def partitions(self, _: Callable[[str], bool]) -> dict[Partition, str]:
        return {P: "id"}

    async def beginnings(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return dict.fromkeys(partitions, 0)

    async def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return dict.fromkeys(partitions, 1_500)

    async def commit(
        self, entries: Sequence[Entry], offsets: Mapping[Partition, tuple[int, str]] | None = None
    ) -> None:
        """Keep nothing: the caller applies the entries."""


def begun(log: LakeLog, committed: Committed | None, start: str) -> tuple[int, int]:
    """Return the next offset and the table's first one after a refresh."""
    group = {} if committed is None else {P: committed}
    partitions = Partitions(Topic(), log, group)  # type: ignore[arg-type]  # the part that it uses
    asyncio.run(partitions.refresh(ROUTES, {"flight": start}))
    return partitions.next_offsets()[P], log.starts[KEY]


@pytest.mark.parametrize(
    ("committed", "start", "expected"),
    [
        (None, "now", (1_500, 1_500)),
        (None, "earliest", (0, 0)),
        (Committed(1_000, "id"), "now", (1_000, 1_000)),
        (Committed(1_000, "id"), "earliest", (0, 0)),
        (Committed(1_000, "an earlier generation"), "now", (1_500, 1_500)),
        (Committed(2_000, "id"), "now", (2_000, 2_000)),
    ],
)
def test_a_table_continues_after_the_loss_of_the_log(
    committed: Committed | None, start: str, expected: tuple[int, int]
) -> None:
    assert begun(LakeLog(), committed, start) == expected


def test_a_new_table_with_start_now_begins_at_the_end() -> None:
    log = LakeLog(positions={KEY._replace(table="trains"): TablePosition(1_000, 7)})
    assert begun(log, Committed(1_000, "id"), "now") == (1_000, 1_500)
