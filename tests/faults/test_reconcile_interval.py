"""Reconcile interval: periodic checks run under constant load, and parked events are relayed at once."""

from contextlib import closing

import psycopg2
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from shared import wire
from tests.fixtures.inline import Inline, Places
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import envelope, event, eventually, execute, landed, make_topics, produce

_PLACE = "writer.before_group_commit"
_NEVER = 3600


class Load:
    """A second topic with constant load, so that the writer is never idle."""

    def __init__(self, scene: Scene, places: Places) -> None:
        self._scene = scene
        self._places = places
        self.name = f"{scene.name}_beside"
        make_topics(scene.bootstrap, f"events.{self.name}")
        self._sent = 0

    def begin(self) -> None:
        self._again()

    def _again(self) -> None:
        self._places.at(_PLACE, self._again)
        produce(self._scene.bootstrap, f"events.{self.name}", [event(f"l-{self._sent}", self.name)])
        self._sent += 1

    def goes_on(self) -> None:
        before = landed(self._scene.dsn, self.name)
        eventually(lambda: landed(self._scene.dsn, self.name) > before + 2)


@pytest.fixture
def load(inline: Scene, places: Places) -> Load:
    return Load(inline, places)


@pytest.fixture
def writer(inline: Scene, load: Load) -> Inline:
    """A writer that has landed five events of the scene's and has no pause from now on."""
    make_topics(inline.bootstrap, inline.topic)
    produce(inline.bootstrap, inline.topic, [event(f"e-{n}", inline.name) for n in range(5)])
    writer: Inline = inline.writer(topics=rf"events\.{inline.name}.*")
    eventually(lambda: inline.landed() == 5)
    eventually(lambda: inline.group() == {0: 5})
    load.begin()
    load.goes_on()
    return writer


def test_a_ledger_that_went_back_is_found_under_load(inline: Scene, writer: Inline) -> None:
    execute(inline.dsn, "UPDATE onramp.ledger SET next_offset = 2 WHERE next_offset = 5")
    eventually(lambda: writer.states[inline.database] == "halted")


def test_ledgers_that_are_right_halt_nothing_under_load(writer: Inline, load: Load) -> None:
    load.goes_on()
    assert set(writer.states.values()) == {"landing"}


def test_an_offset_that_somebody_rewound_is_put_back_under_load(
    inline: Scene, writer: Inline, load: Load
) -> None:
    admin = AdminClient({"bootstrap.servers": inline.bootstrap})
    rewound = ConsumerGroupTopicPartitions(wire.WRITER_GROUP, [TopicPartition(inline.topic, 0, 1)])
    for future in admin.alter_consumer_group_offsets([rewound]).values():
        future.result(20)
    eventually(lambda: inline.group() == {0: 5})
    load.goes_on()
    assert set(writer.states.values()) == {"landing"}


def _bad(scene: Scene) -> bytes:
    """No database takes it."""
    return envelope("bad-1", scene.name, b'{"a":"\\u0000"}')


def test_event_parked_by_a_drain_is_relayed_at_once(inline: Scene, other: Other, places: Places) -> None:
    writer = inline.writer_into(other, reconcile_seconds=_NEVER)
    eventually(lambda: set(writer.states.values()) == {"landing"})
    other.close()
    value = _bad(inline)
    inline.produce(value)
    eventually(lambda: len(inline.parked(value)) == 1)  # what the database that is up has parked
    drain = places.hold_at("writer.mid_drain")  # at its end all that is in the outbox leaves in any case
    other.open()
    drain.wait()
    try:
        assert len(inline.parked(value)) == 2
    finally:
        drain.go_on()


def test_event_parked_by_a_release_is_relayed_at_once(inline: Scene) -> None:
    inline.writer(reconcile_seconds=_NEVER, lock_timeout_ms=200)
    inline.produce(event("good-1", inline.name))
    eventually(lambda: inline.landed() == 1)
    value = _bad(inline)
    with closing(psycopg2.connect(inline.dsn)) as owner, owner.cursor() as cursor:
        cursor.execute(f"LOCK TABLE events.{inline.name}")
        inline.produce(value)
        eventually(lambda: inline.totals().get("waiting") == 1)
        assert inline.parked(value) == []
    eventually(lambda: len(inline.parked(value)) == 1)
