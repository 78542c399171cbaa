"""Where every accepted event is: each part is measured, and a difference is shown and never hidden."""

from datetime import UTC, datetime
from typing import Any

from services.admin.figures.locations import Collected, Locations, Positions, Stored, locations_of
from services.ops.audit.settled_log import SettledLog, Totals
from services.ops.current_totals_sql import DatabaseTotals
from services.ops.findings import Generation, Source
from shared import wire

AT = datetime(2026, 1, 1, tzinfo=UTC)
SOURCE = Source("events.a", 0)
NOW = Generation("id", SOURCE)
ERRORS = Source(wire.USER_ERRORS, 0)


def settled(filtered: int = 0, refused: int = 0, generation: Generation = NOW, start: int = 0) -> SettledLog:
    log, key = SettledLog(), (generation.topic_id, generation.source.partition)
    log.baselines[key] = {"db": start}
    log.totals[key] = Totals(0, filtered, refused, refused)
    return log


def totals(next_offset: int, **outcomes: int) -> DatabaseTotals:
    return DatabaseTotals({NOW: next_offset}, {(NOW, "events.a", name): n for name, n in outcomes.items()})


def locations(end: int, *databases: DatabaseTotals, log: SettledLog | None = None, **more: Any) -> Locations:
    spans = {SOURCE: (0, end), **more.pop("spans", {})}
    given: dict[str, Any] = {
        "databases": {f"db{n}": each for n, each in enumerate(databases)},
        "settled": log or settled(),
        "positions": Positions(group=more.pop("group", {}), spans=spans),
        "stored": Stored(states=more.pop("states", {})),
        "waiting_kafka": more.pop("waiting_kafka", {}),
    }
    return locations_of(Collected(**(given | more)), AT)


def sum_of(found: Locations) -> int:
    parts = [found.landed, found.duplicates, found.in_flight, found.waiting, found.parked, found.discarded]
    return sum(part or 0 for part in [*parts, found.filtered])


def test_each_part_is_measured_and_their_sum_is_what_was_accepted() -> None:
    stored = Stored(
        states={"open": 3, "replaying": 1, "discarded": 2, "replayed": 4, "replayed_duplicate": 1}
    )
    database = totals(100, landed=70, duplicate=5, parked=12, waiting=10, replayed=4, replayed_duplicate=1)
    found = locations(
        130, database, log=settled(filtered=2, refused=1), stored=stored, spans={ERRORS: (0, 2)}
    )
    assert (found.accepted, found.in_flight) == (130, 30)
    assert (found.landed, found.duplicates, found.waiting) == (74, 6, 10)
    assert (found.open, found.replaying, found.not_stored, found.discarded) == (3, 1, 2, 2)
    assert (found.difference, found.further) == (0, 0)
    assert sum_of(found) == found.accepted


def test_a_lost_event_is_a_difference_and_is_not_in_flight() -> None:
    found = locations(130, totals(100, landed=99))
    assert (found.accepted, found.in_flight, found.landed, found.difference) == (130, 30, 99, 1)
    assert sum_of(found) + 1 == found.accepted


def test_an_event_that_was_counted_twice_is_a_difference_too() -> None:
    assert locations(100, totals(100, landed=101)).difference == -1


def test_events_that_kafka_deleted_before_they_settled_are_a_difference() -> None:
    found = locations(130, totals(100, landed=100), spans={SOURCE: (110, 130)})
    assert (found.accepted, found.in_flight, found.difference) == (130, 20, 10)


def test_a_parked_event_that_was_not_stored_anywhere_is_a_difference() -> None:
    assert locations(10, totals(10, landed=8, parked=2), states={"open": 1}).difference == 1
    in_outbox = totals(10, landed=8, parked=2)._replace(outbox=1)
    assert locations(10, in_outbox, states={"open": 1}).difference == 0


def test_events_for_a_database_that_is_out_wait_on_kafka() -> None:
    found = locations(130, totals(60, landed=60), group={SOURCE: 100}, waiting_kafka={"db0": 40})
    assert (found.in_flight, found.waiting, found.difference) == (30, 40, 0)


def test_waiting_count_without_a_writer_is_unknown_and_reported() -> None:
    found = locations(130, totals(60, landed=60), group={SOURCE: 100}, waiting_kafka=None)
    assert (found.waiting, found.difference) == (None, 40)
    assert any("no writer answers" in problem for problem in found.problems)


def test_an_event_with_two_tables_has_a_further_delivery() -> None:
    both = {(NOW, "events.a", "landed"): 100, (NOW, "public.a", "landed"): 100}
    found = locations(100, DatabaseTotals({NOW: 100}, both))
    assert (found.accepted, found.further, found.landed, found.difference) == (100, 100, 200, 0)
    assert sum_of(found) == (found.accepted or 0) + found.further


def test_event_landed_in_a_database_and_waiting_for_another_is_no_difference() -> None:
    other = DatabaseTotals({NOW: 50}, {(NOW, "events.a", "landed"): 50})
    found = locations(100, totals(100, landed=100), other, group={SOURCE: 100}, waiting_kafka={"db1": 50})
    assert (found.further, found.waiting, found.difference) == (100, 50, 0)


def test_a_topic_that_no_database_knows_yet_is_in_flight() -> None:
    new = Source("events.new", 0)
    found = locations(10, totals(10, landed=10), spans={new: (0, 7), Source("events._probe", 0): (0, 0)})
    assert (found.accepted, found.in_flight, found.difference) == (17, 7, 0)


def test_the_log_before_a_topic_was_created_again_counts_as_well() -> None:
    before = Generation("old", SOURCE)
    log = SettledLog()
    log.baselines = {("old", 0): {"db0": 0}, ("id", 0): {"db0": 0}}
    counts = {(before, "events.a", "landed"): 500, (NOW, "events.a", "landed"): 10}
    found = locations(12, DatabaseTotals({before: 500, NOW: 10}, counts), log=log)
    assert (found.accepted, found.landed, found.in_flight, found.difference) == (512, 510, 2, 0)


def test_changes_of_sources_are_not_accepted_events() -> None:
    topic = Source(f"{wire.CHANGE_TOPIC_PREFIX}shop-public-t", 0)
    of_changes = Generation("cdc", topic)
    database = DatabaseTotals(
        {NOW: 10, of_changes: 99},
        {
            (NOW, "events.a", "landed"): 10,
            (of_changes, "events.t", "landed"): 90,
            (of_changes, "events.t", "parked"): 9,
        },
    )
    stored = Stored(states={"open": 9}, of_changes={"open": 9})
    found = locations(10, database, stored=stored, spans={topic: (0, 99)})
    assert (found.accepted, found.landed, found.parked, found.difference) == (10, 10, 0, 0)


def test_database_without_any_reading_is_reported() -> None:
    found = locations(10, unread=("other",), databases={})
    assert "database other has not answered" in found.problems[0]
