"""The journey of an event names its row in the lake, or the reason why there is none."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from services.admin.api.lake_journeys import LakeJourneys
from services.lake.compaction.delta_drop import drop
from services.ops.audit.lake import Lake
from services.ops.findings import Source
from services.ops.journey.lake import with_lake
from services.ops.journey.subject import Receipt
from services.ops.journey.timeline import Journey, Kind, Passage, Step
from shared.lake.delta_files import Partition
from shared.lake.storage import Storage
from shared.registry.entries import Snapshot
from shared.registry.memory import MemoryRegistry
from tests.fixtures.delta_tables import FIRST_DAY, TOPIC, append, silent_storage, small_files

LANDED = Step(
    Kind.LANDED, "landed in onramp.events.flight_departed", destination="onramp.events.flight_departed"
)


def without_lake(offset: int, name: str = "flight_departed") -> Journey:
    passage = Passage(
        receipt=Receipt(Source(TOPIC, 0), offset),
        id="a",
        event_name=name,
        steps=(LANDED,),
        outcomes=(LANDED,),
    )
    return Journey(subject="a", passages=(passage,))


def registry() -> Snapshot:
    types = {"flight_departed": {"destinations": [{"type": "lake", "table": "flights"}]}}
    return MemoryRegistry({"event_types": types}).snapshot()


def journey(folder: Path, offset: int, name: str = "flight_departed") -> Journey:
    return with_lake(without_lake(offset, name), Lake(Storage(url=str(folder)), registry()))


def test_a_row_in_the_lake_is_an_outcome_with_its_query(tmp_path: Path) -> None:
    small_files(str(tmp_path / "flights"), 2)
    found = journey(tmp_path, 7)
    assert found.sentence == ("a (flight_departed) landed in lake.flights and onramp.events.flight_departed.")
    assert (found.steps[-1].sql or "").startswith("SELECT * FROM flights WHERE _topic =")
    assert (found.steps[-1].sql or "").endswith("_partition = 0 AND _offset = 7")


@pytest.mark.parametrize(("offset", "kind"), [(12, Kind.NOT_SETTLED), (4, Kind.ABSENT)])
def test_an_event_without_a_row_waits_or_is_absent(tmp_path: Path, offset: int, kind: Kind) -> None:
    uri = str(tmp_path / "flights")
    append(uri, 0, 10)
    DeltaTable(uri).delete("_offset = 4")
    found = journey(tmp_path, offset)
    assert [step.kind for step in found.steps] == [Kind.LANDED, kind]


def test_a_dropped_date_is_a_possible_reason(tmp_path: Path) -> None:
    uri = str(tmp_path / "flights")
    table = small_files(uri, 1, days=[FIRST_DAY, None])
    drop(table, Partition("_date", FIRST_DAY.isoformat()))
    assert "dropped by keep_days" in journey(tmp_path, 0).steps[-1].text


def test_a_type_without_a_table_and_a_table_that_cannot_be_read(tmp_path: Path) -> None:
    assert journey(tmp_path, 0).steps == (LANDED,)
    small_files(str(tmp_path / "flights"), 2)
    (tmp_path / "flights" / "_delta_log" / f"{1:020}.json").write_text("{", "utf-8")
    found = journey(tmp_path, 0)
    assert found.steps == (LANDED,)
    assert "whether the event is in lake.flights is unknown" in found.doubts[0]


def test_an_event_is_not_searched_in_another_types_table(tmp_path: Path) -> None:
    small_files(str(tmp_path / "flights"), 2)
    assert journey(tmp_path, 7, "flights").steps == (LANDED,)


def test_the_admin_service_adds_the_lake(tmp_path: Path) -> None:
    small_files(str(tmp_path / "flights"), 2)
    lake = LakeJourneys(Storage(url=str(tmp_path)), registry)
    found = lake.add_to(without_lake(7))
    assert [step.destination for step in found.steps] == [LANDED.destination, "lake.flights"]
    unread = LakeJourneys(Storage(url=str(tmp_path)), lambda: None).add_to(without_lake(7))
    assert (unread.steps, unread.doubts) == ((LANDED,), ())


def test_a_folder_without_tables_adds_nothing_and_is_not_read(tmp_path: Path) -> None:
    def unread() -> Snapshot:
        raise AssertionError("the registry is read for tables alone")

    journey = without_lake(7)
    assert LakeJourneys(Storage(url=str(tmp_path)), unread).add_to(journey) is journey


def test_a_storage_that_hangs_is_named_and_delays_no_journey() -> None:
    with silent_storage() as storage:
        lake = LakeJourneys(storage, registry, 0.05)
        for _ in range(6):  # more than threads that may hang
            found = lake.add_to(without_lake(7))
            assert found.steps == (LANDED,)
            assert "the storage of the lake did not answer in 0.05 s" in found.doubts[0]
