"""Long outages: state stored for a down database grows with its waiting events, not with other traffic."""

import asyncio
import re
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from services.ops.audit.run import Request, audit
from services.writer.park.diverted_topic import HEADER
from shared import wire
from shared.kafka_security import Brokers
from tests.fixtures.inline import Inline, KilledError, Places
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import CONTEXT, event, eventually, landed, ledger_of, make_topics, records, rows

_PARTITIONS = 99
_ROUNDS = 4


class Outage:
    """Two databases, of which one gets the events of one topic of the two."""

    def __init__(self, scene: Scene, other: Other, places: Places) -> None:
        self.scene = scene
        self.other = other
        self.places = places
        self.quiet = f"{scene.name}_quiet"
        self.topic = wire.topic_of(self.quiet)
        self.sent = 0
        make_topics(scene.bootstrap, scene.topic)
        make_topics(scene.bootstrap, self.topic, partitions=_PARTITIONS)

    def writer(self, *, wait: bool = True) -> Inline:
        topics = rf"events\.{self.scene.name}.*"
        writer: Inline = self.scene.writer_into(self.other, topics=topics, wait=wait)
        return writer

    def round(self) -> None:
        """One event of every partition, in as few batches as the writer makes of them."""
        held = self.places.hold_at("writer.before_group_commit")
        self.scene.send(1)
        held.wait()
        self._produce()
        self.scene.send(1)
        held.go_on()
        eventually(self.is_landed)

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.scene.bootstrap, "acks": "all"})
        for partition in range(_PARTITIONS):
            value = event(f"{self.quiet}-{self.sent}", self.quiet)
            producer.produce(self.topic, value, partition=partition, headers=CONTEXT)
            self.sent += 1
        assert producer.flush(30) == 0

    def is_landed(self) -> bool:
        """Return whether the healthy database has all events, and the writer has continued."""
        there = landed(self.scene.dsn, self.quiet), self.scene.landed()
        return there == (self.sent, self.scene.accepted) and self.scene.group() == self.scene.settled()

    def has_drained(self) -> bool:
        """Return whether the other database has its events, and the ledger of the healthy one."""
        positions = [ledger_of(dsn, self.topic) for dsn in (self.other.dsn, self.scene.dsn)]
        return landed(self.other.dsn, self.scene.name) == self.scene.accepted and positions[0] == positions[1]

    def kept(self) -> list[dict[str, Any]]:
        """The records on `onramp.system_errors` for the other database that are no events."""
        found = [r.headers[HEADER] for r in records(self.scene.bootstrap, wire.SYSTEM_ERRORS)]
        heads = [(orjson.loads(head), len(head)) for head in found]
        ours = [h | {"bytes": n} for h, n in heads if h["database"] == self.other.name]
        return [head for head in ours if head["kind"] != "event"]

    def batches(self) -> int:
        """How many of the writer's batches had anything of the quiet topic."""
        found = records(self.scene.bootstrap, wire.SETTLED)
        plans = [r.value or b"" for r in found if (r.key or b"").startswith(b"plan/")]
        return sum(self.topic.encode() in plan for plan in plans)

    def audited(self) -> None:
        databases = {self.scene.database: self.scene.dsn, self.other.name: self.other.dsn}
        topics = rf"{re.escape(self.scene.topic)}(_quiet)?"
        report = asyncio.run(audit(Request(Brokers(self.scene.bootstrap), databases, topics, deep=True)))
        assert (report.findings, report.unsettled) == ([], 0), (report.findings, report.unsettled)


@pytest.fixture
def outage(inline: Scene, other: Other, places: Places) -> Outage:
    return Outage(inline, other, places)


def test_a_partition_without_events_costs_a_database_that_is_out_nothing_of_its_own(
    outage: Outage,
) -> None:
    writer = outage.writer()
    outage.round()
    eventually(outage.has_drained)
    passed = outage.batches()
    outage.other.close()
    for _ in range(_ROUNDS):
        outage.round()
    kept, batches = outage.kept(), outage.batches() - passed
    assert sum(k["kind"] == "empty" for k in kept) <= batches < len(kept) < _PARTITIONS
    outage.other.open()
    eventually(outage.has_drained)
    eventually(lambda: set(writer.states.values()) == {"landing"})
    moved = "SELECT count(DISTINCT xmin::text)::int FROM onramp.ledger WHERE topic = %s"
    assert rows(outage.other.dsn, moved, outage.topic) <= [(3,)]  # together, not one after the other
    outage.round()  # live traffic takes over again
    eventually(outage.has_drained)
    outage.audited()


def test_ranges_without_events_for_a_down_database_are_known_after_restart_and_crash(outage: Outage) -> None:
    writer = outage.writer()
    outage.round()
    eventually(outage.has_drained)
    outage.other.close()
    outage.round()
    writer.stop()
    writer = outage.writer()
    outage.round()
    writer.stop()
    outage.other.open()
    outage.audited()  # while it waits
    outage.other.close()
    writer = outage.writer()
    outage.places.kill_at("writer.between_divert_and_marker")
    outage.scene.send(1)
    assert isinstance(writer.ended(), KilledError)
    writer = outage.writer()
    outage.round()
    writer.stop()
    outage.places.kill_at("writer.mid_drain")
    outage.other.open()
    writer = outage.writer(wait=False)
    assert isinstance(writer.ended(), KilledError)
    writer = outage.writer()
    eventually(outage.has_drained)
    eventually(lambda: set(writer.states.values()) == {"landing"})
    outage.audited()


def test_events_land_in_order_between_ranges_that_have_none(outage: Outage) -> None:
    """A batch of filtered records is a range without events, of a partition that has events."""
    outage.writer()
    outage.round()
    eventually(outage.has_drained)
    outage.other.close()
    for foreign in range(1, 4):
        outage.scene.send(1)
        eventually(outage.is_landed)
        outage.scene.produce(b"not for us", headers=[])
        # Offsets that agree may be those from before the record: then the next event joins its batch.
        settled = outage.scene.accepted + foreign
        eventually(lambda settled=settled: sum(outage.scene.group().values()) == settled)  # type: ignore[misc]
    assert [k["kind"] for k in outage.kept()].count("empty") == 3
    outage.other.open()
    eventually(outage.has_drained)
    outage.audited()
