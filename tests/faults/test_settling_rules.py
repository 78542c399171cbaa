"""Rules of settling in the driver: plan, pins, totals, group offsets, epochs, baselines."""

import orjson
import pytest
from confluent_kafka import Producer

from shared import wire
from tests.faults.conftest import Ground
from tests.fixtures.inline import KilledError, Places
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import CONTEXT, delete_records, event, eventually, landed, make_topics, records


@pytest.mark.parametrize(
    "place",
    ["writer.after_copy", "writer.before_commit", "writer.after_commit", "writer.before_group_commit"],
)
def test_group_offsets_move_only_over_what_is_settled(inline: Scene, places: Places, place: str) -> None:
    inline.send(20)
    places.kill_at(place)
    assert isinstance(inline.writer(wait=False).ended(), KilledError)
    assert inline.group() == {}
    assert inline.landed() == (0 if place in ("writer.after_copy", "writer.before_commit") else 20)
    inline.writer()
    inline.all_landed_once()
    inline.audited()


def test_a_plan_is_on_kafka_before_the_first_row(inline: Scene, places: Places) -> None:
    inline.send(20)
    seen: list[int] = []

    def look() -> None:
        found = [r for r in records(inline.bootstrap, wire.SETTLED) if (r.key or b"").startswith(b"plan/")]
        seen.append(sum(inline.topic.encode() in (r.value or b"") for r in found))

    places.at("writer.after_copy", look)
    inline.writer()
    inline.all_landed_once()
    assert seen == [1]


def test_a_range_is_finished_under_the_routes_that_it_began_with(
    inline: Scene, places: Places, other: Other
) -> None:
    """A range that is committed in one database only, whose route to the other one is then removed."""
    first = inline.writer_into(other)
    eventually(lambda: set(first.states.values()) == {"landing"})
    # While one event's batch is held the others gather: the next batch has them all.
    held = places.hold_at("writer.before_group_commit")
    inline.send(1)
    held.wait()
    places.kill_at("writer.after_commit")
    inline.send(30)
    held.go_on()
    assert isinstance(first.ended(), KilledError)
    assert (inline.landed(), landed(other.dsn, inline.name)) == (31, 1)
    databases = orjson.dumps({other.name: other.dsn}).decode()
    inline.writer(registry=inline.route(), databases=databases)
    inline.all_landed_once()
    eventually(lambda: landed(other.dsn, inline.name) == 31)  # it may wait until it is drained
    inline.send(5)
    inline.all_landed_once()
    assert landed(other.dsn, inline.name) == 31


def test_events_without_a_destination_are_counted_before_the_group_passes_them(
    inline: Scene, places: Places
) -> None:
    inline.send(5)
    inline.produce(b"no json", b"nor this")
    inline.produce(b"not for us", headers=[])
    places.kill_at("writer.before_group_commit")
    assert isinstance(inline.writer(wait=False).ended(), KilledError)
    inline.writer()
    eventually(lambda: inline.group() == inline.settled())
    lines = inline.audited().lines
    assert (sum(n.unroutable for n in lines), sum(n.filtered for n in lines)) == (2, 1)


def test_a_repeat_counts_events_without_a_destination_once(inline: Scene, places: Places) -> None:
    inline.produce(b"no json", *[event(f"e-{i}", inline.name) for i in range(3)])
    inline.accepted += 3
    for _ in range(3):
        places.kill_at("writer.before_group_commit")
        assert isinstance(inline.writer(wait=False).ended(), KilledError)
    inline.writer()
    inline.all_landed_once()
    assert sum(line.unroutable for line in inline.audited().lines) == 1


def test_an_older_writer_finds_its_successor_before_it_parks_anything(inline: Scene) -> None:
    """Records without a destination are sent before a ledger is read: only the plan prevents repeats."""
    inline.send(1)
    older = inline.writer(
        discover_ms=3_600_000, reconcile_seconds=3600
    )  # it will not look until it has a batch
    inline.all_landed_once()
    newer = inline.writer()
    unroutable = b"no json " + inline.name.encode()
    inline.produce(unroutable)
    assert older.ended() == 3
    eventually(lambda: inline.group() == inline.settled() and inline.parked(unroutable))
    assert len(inline.parked(unroutable)) == 1
    assert newer.exit is None


def test_a_successor_puts_its_epoch_on_the_ledger_before_it_has_a_batch(inline: Scene) -> None:
    inline.send(20)
    older = inline.writer()
    inline.all_landed_once()
    newer = inline.writer()
    epochs = [e for (e,) in inline.ask("SELECT epoch FROM onramp.ledger WHERE topic = %s", inline.topic)]
    assert epochs
    assert set(epochs) == {newer.job._epoch}
    assert older.ended() == 3


def test_a_range_without_a_single_record_is_advanced(ground: Ground, inline: Scene) -> None:
    """Aborted transactions leave offsets of which no record ever arrives."""
    make_topics(inline.bootstrap, inline.topic)
    producer = Producer({"bootstrap.servers": ground.kafka.bootstrap, "transactional.id": inline.name})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(inline.topic, value=event("never", inline.name), headers=CONTEXT)
    producer.flush(20)
    producer.abort_transaction(20)
    inline.writer()
    eventually(lambda: inline.group() == {0: 2} == inline.settled())
    inline.send(5)
    inline.all_landed_once()
    assert inline.query("SELECT 1 FROM TABLE WHERE _id = 'never'") == []


def test_a_database_that_first_appears_begins_where_its_baseline_says(inline: Scene, other: Other) -> None:
    inline.produce(*[event(f"gone-{i}", inline.name) for i in range(3)])
    delete_records(inline.bootstrap, inline.topic, 0, 3)  # the baseline is no longer 0
    other.close()
    first = inline.writer_into(other)
    inline.send(10)
    inline.all_landed_once()
    inline.send(10)
    inline.all_landed_once()
    first.stop()
    other.open()
    inline.writer_into(other)
    eventually(lambda: landed(other.dsn, inline.name) == 20)
    inline.audited(other)
