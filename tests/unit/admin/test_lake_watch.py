"""The lake's tables as the page shows them: from the statuses of the lake service and of compaction."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus

import msgspec
import orjson
import pytest

from services.admin.figures.lake_watch import LakeWatch, lake_status_of, rows_of, topics_of
from services.lake.observe.status import LakeStatus
from shared.lake.status import CompactionStatus, LakeServiceStatus, LakeTopic, LandedTable, MaintainedTable
from shared.page_server import JSON, PageServer
from shared.registry.memory import MemoryRegistry

MAINTAINED = MaintainedTable(rows=340, files=12, small_files=2, bytes=1 << 20, last_compaction_at=1000.0)
REGISTRY = MemoryRegistry(
    {"event_types": {"flight_departed": {"destinations": [{"type": "lake", "table": "flights"}]}}}
)


@contextmanager
def serving(body: bytes) -> Iterator[str]:
    server = PageServer({"/status": lambda: (HTTPStatus.OK, JSON, body)}, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()


def test_rows_have_the_files_of_compaction_and_the_lag_of_their_topic() -> None:
    service = LakeServiceStatus(
        tables={"flights": LandedTable(), "ships": LandedTable(code="lake_table_halted", reason="restored?")},
        topics={"events.flight_departed": LakeTopic(7, 400.0), "events.trains": LakeTopic(1, 2.0)},
    )
    compaction = CompactionStatus({"flights": MAINTAINED, "trains": MaintainedTable(files=1)})
    flights, ships, trains = rows_of(service, compaction, topics_of(REGISTRY.snapshot()))
    assert (flights.rows, flights.files, flights.small_files, flights.lag_events) == (340, 12, 2, 7)
    assert flights.last_compaction_at == datetime.fromtimestamp(1000, UTC)
    assert (ships.files, ships.lag_events, ships.halted) == (None, None, "restored?")
    assert (trains.lag_events, trains.rows) == (1, None)


def test_a_service_that_is_down_keeps_its_tables_and_is_named() -> None:
    lake = LakeStatus().document()
    with (
        serving(lake) as service,
        serving(msgspec.json.encode(CompactionStatus({"flights": MAINTAINED}))) as second,
    ):
        watch = LakeWatch((service, second), REGISTRY.snapshot)
        asyncio.run(watch.read())
        assert watch.reading.down() == ()
        assert [row.table for row in watch.reading.tables] == ["flights"]
    asyncio.run(watch.read())
    names = {part.name for part in watch.reading.down()}
    assert names == {"the lake service", "the compaction of the lake"}
    assert [row.files for row in watch.reading.tables] == [12]


def test_the_lake_status_of_the_lake_service_is_understood() -> None:
    assert isinstance(lake_status_of(LakeStatus().document()), LakeServiceStatus)
    with pytest.raises(msgspec.MsgspecError):
        lake_status_of(orjson.dumps({"tracers": []}))
