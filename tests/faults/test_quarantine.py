"""Batches with unexpected errors: a range that fails alone is quarantined, and other ranges land."""

import orjson
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from services.cli.app import app
from services.writer.partitions import quarantine
from shared import wire
from shared.kafka_read.offsets import Partition
from tests.fixtures.inline import Places
from tests.fixtures.second_database import Other
from tests.fixtures.two_topics import POISON, Bug, Two, ids
from tests.fixtures.writer import delete_records, event, eventually, landed, produce, rows


def test_partition_that_fails_alone_is_quarantined_after_the_loop_restarts(two: Two, bug: Bug) -> None:
    writer = two.writer()
    two.the_other_lands()
    bug.at("read")
    two.send(POISON)
    assert "fails at offset 0 " in eventually(lambda: two.why(writer))
    two.the_other_lands()


def test_failing_record_waits_until_another_topic_lands_and_is_then_parked(two: Two, bug: Bug) -> None:
    bug.at("sort")
    two.send(POISON)
    writer = two.writer()
    assert "fails at offset 0 " in eventually(lambda: two.why(writer))
    assert two.parked() == []
    two.the_other_lands()
    [kept] = eventually(two.parked)
    assert kept.error["code"] == "internal_sort"
    eventually(lambda: not writer.refused)
    two.scene.audited()


def test_a_topic_whose_records_all_fail_takes_nothing_from_another(two: Two, bug: Bug) -> None:
    bug.at("sort")
    two.send(*(f"{POISON}-{n}" for n in range(8)))
    name = f"{two.scene.name}_beside"
    produce(two.scene.bootstrap, two.beside, [event(i, name) for i in (*ids(0, 4), f"{POISON}-b")])
    writer = two.writer()
    eventually(lambda: landed(two.scene.dsn, name) == 4)
    assert "fails at offset 5 " in eventually(lambda: two.why(writer))
    eventually(lambda: [r.error["code"] for r in two.parked(two.beside)] == ["internal_sort"])
    assert len(two.parked()) == 5
    assert set(writer.refused) == {Partition(two.topic, 0)}
    bug.fix()
    eventually(lambda: two.landed() == {f"{POISON}-{n}" for n in (5, 6, 7)})
    two.scene.audited()


def test_quarantined_range_is_finished_by_a_successor_under_its_original_routes(
    two: Two, other: Other, bug: Bug, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "_RETRY_SECONDS", (600.0,))  # else its last plan may be of another try
    writer = two.writer(other)
    two.the_other_lands()
    bug.at("read")
    _fails_in_company(two, places)
    eventually(lambda: two.why(writer))
    two.the_other_lands()  # its plan is in place of the one before
    writer.stop()
    assert two.topic not in two.scene.last_planned()
    bug.fix()
    own = two.scene.route()  # its events go to the scene's own database alone from now on
    databases = orjson.dumps({other.name: other.dsn}).decode()
    two.scene.writer(topics=two.topics, registry=own, databases=databases)
    eventually(lambda: two.landed() == two.landed(other.dsn) == {POISON})
    two.scene.audited(other)


def test_a_person_passes_over_the_record_and_the_rest_lands(two: Two, bug: Bug) -> None:
    bug.at("read")
    two.send(*ids(0, 3), POISON, *ids(3, 3))
    writer = two.writer()
    two.the_other_lands()
    eventually(lambda: "fails at offset 3 " in two.why(writer))
    delete_records(two.scene.bootstrap, two.topic, 0, 4)
    eventually(lambda: "Kafka deleted [3, 4)" in two.why(writer))
    _accept(two)
    eventually(lambda: two.landed() == set(ids(0, 6)))
    eventually(lambda: not writer.refused)


def test_plan_with_unknown_routes_halts_its_partition_until_an_operator_accepts(two: Two) -> None:
    first = two.writer()
    two.send("first")
    eventually(lambda: two.landed() == {"first"})
    first.stop()
    ((topic_id,),) = rows(
        two.scene.dsn, "SELECT DISTINCT topic_id::text FROM onramp.ledger WHERE topic = %s", two.topic
    )
    plan = {"digest": "none", "ranges": [[topic_id, two.topic, 0, 1, 3]], "process": "p", "begun_at": 0.0}
    _put(two, "plan/0", orjson.dumps(plan))
    two.send("second", "third")
    writer = two.writer()
    assert "routes none" in eventually(lambda: two.why(writer))
    two.the_other_lands()
    assert two.landed() == {"first"}
    _accept(two)
    eventually(lambda: two.landed() == {"first", "second", "third"})


def _fails_in_company(two: Two, places: Places) -> None:
    """In one batch with an event that lands: a failing range gets a new session and a new plan."""
    held = places.hold_at("writer.before_group_commit")
    produce(two.scene.bootstrap, two.beside, [event("before", f"{two.scene.name}_beside")])
    held.wait()
    two.send(POISON)
    produce(two.scene.bootstrap, two.beside, [event("beside", f"{two.scene.name}_beside")])
    held.go_on()


def _put(two: Two, key: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": two.scene.bootstrap})
    producer.produce(wire.SETTLED, key=key, value=value)
    assert producer.flush(20) == 0


def _accept(two: Two) -> None:
    where = ["--kafka", two.scene.bootstrap, "--dsn", two.scene.dsn]
    word = ["partitions", "resolve", f"{two.topic}/0", "accept", *where]
    eventually(lambda: CliRunner().invoke(app, word).exit_code == 0)
