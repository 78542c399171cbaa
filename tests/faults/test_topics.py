"""Topics that are deleted, recreated, extended or truncated under the writer; other topics continue."""

from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from typer.testing import CliRunner

from services.cli.app import app
from shared import wire
from tests.fixtures.inline import Inline, Places
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import (
    delete_records,
    delete_topic,
    event,
    eventually,
    landed,
    make_topics,
    produce,
)


class Neighbour:
    """Another topic of the same writer, that nothing happens to."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._name = f"{scene.name}_beside"
        self._sent = 0
        make_topics(scene.bootstrap, f"events.{self._name}")

    def goes_on(self) -> None:
        value = event(f"beside-{self._sent}", self._name)
        produce(self._scene.bootstrap, f"events.{self._name}", [value])
        self._sent += 1
        eventually(lambda: landed(self._scene.dsn, self._name) == self._sent)


@pytest.fixture
def beside(inline: Scene) -> Neighbour:
    return Neighbour(inline)


@pytest.fixture
def writer(inline: Scene, beside: Neighbour) -> Iterator[Inline]:
    """A writer of both topics that has landed six events of the scene's."""
    writer = inline.writer(topics=rf"events\.{inline.name}.*")
    _produce(inline, 0, 6)
    beside.goes_on()
    yield writer
    assert writer.exit in (None, 0), "whatever happens to a topic, the writer stays"


def _produce(scene: Scene, first: int, count: int, partition: int = 0, *, lands: bool = True) -> None:
    make_topics(scene.bootstrap, scene.topic)
    values = [event(f"e-{n}", scene.name, n=n) for n in range(first, first + count)]
    produce(scene.bootstrap, scene.topic, values, partition=partition)
    if lands:
        eventually(lambda: scene.landed() == first + count)


def _halted(writer: Inline) -> str:
    """Why a partition is halted."""
    return eventually(lambda: next(iter(writer.refused.values()), ""))


def test_a_deleted_topic_halts_its_partitions_and_no_other(
    inline: Scene, writer: Inline, beside: Neighbour
) -> None:
    delete_topic(inline.bootstrap, inline.topic)
    assert "deleted while the writer stood at 6" in _halted(writer)
    beside.goes_on()
    assert inline.landed() == 6


def test_a_topic_made_anew_is_never_read_from_the_offset_of_the_old(
    inline: Scene, beside: Neighbour, caplog: pytest.LogCaptureFixture
) -> None:
    _produce(inline, 0, 6, lands=False)
    both = rf"events\.{inline.name}.*"
    writer = inline.writer(topics=both, discover_ms=3_600_000)  # it is seen before every plan
    eventually(lambda: inline.landed() == 6)
    delete_topic(inline.bootstrap, inline.topic)
    _produce(inline, 6, 9, lands=False)  # offsets 0 to 8; the writer stands at 6
    assert "while the writer stood at 6" in _halted(writer)
    beside.goes_on()
    assert inline.landed() == 6
    writer.stop()
    assert _advised(caplog) == {"restart: a topic that has this name then is read from its start"}
    inline.writer(topics=both)  # Kafka forgot the group's offset with the topic
    eventually(lambda: inline.landed() == 15)
    beside.goes_on()


def _advised(caplog: pytest.LogCaptureFixture) -> set[str]:
    """Return the remedies that the log prints for halted partitions."""
    return {r.mend for r in caplog.records if r.message == "a partition is halted"}  # type: ignore[attr-defined]


def test_an_offset_of_the_old_topic_that_the_group_still_has_halts_until_it_is_deleted(
    inline: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    writer = inline.writer()
    _produce(inline, 0, 6)
    writer.stop()
    delete_topic(inline.bootstrap, inline.topic)
    _produce(inline, 6, 3, lands=False)
    admin = AdminClient({"bootstrap.servers": inline.bootstrap})
    late = ConsumerGroupTopicPartitions(wire.WRITER_GROUP, [TopicPartition(inline.topic, 0, 2)])
    for future in admin.alter_consumer_group_offsets([late]).values():
        future.result(20)
    halted = inline.writer(wait=False)
    assert "its offsets start at 0 again" in _halted(halted)
    halted.stop()
    assert "delete the group's offset of it" in "".join(_advised(caplog))
    for deleted in admin.delete_consumer_groups([wire.WRITER_GROUP]).values():
        deleted.result(20)
    inline.writer()
    eventually(lambda: inline.landed() == 9)


def test_waiting_events_land_after_their_topic_is_deleted_and_recreated(inline: Scene, other: Other) -> None:
    other.close()
    writer = inline.writer_into(other)
    _produce(inline, 0, 6)
    eventually(lambda: inline.group() == {0: 6})
    writer.stop()
    delete_topic(inline.bootstrap, inline.topic)
    _produce(inline, 6, 20, lands=False)
    again = inline.writer_into(other)
    eventually(lambda: inline.landed() == 26)
    other.open()
    eventually(lambda: again.states[other.name] == "landing")
    assert landed(other.dsn, inline.name) == 26


def test_new_partitions_are_read_from_offset_zero_and_logged(
    inline: Scene, writer: Inline, beside: Neighbour, caplog: pytest.LogCaptureFixture
) -> None:
    admin = AdminClient({"bootstrap.servers": inline.bootstrap})
    for future in admin.create_partitions([NewPartitions(inline.topic, 3)]).values():
        future.result(20)
    _produce(inline, 6, 4, partition=2)
    _produce(inline, 10, 4, partition=0)
    assert inline.query("SELECT min(_offset) FROM TABLE WHERE _partition = 2") == [(0,)]
    (said,) = (r for r in caplog.records if "gained partitions" in r.message)
    assert (said.topic, said.new) == (inline.topic, [1, 2])
    assert writer.refused == {}
    beside.goes_on()
    inline.audited()


def test_events_that_kafka_deletes_before_they_settle_halt_their_partition(
    inline: Scene, writer: Inline, beside: Neighbour
) -> None:
    writer.stop()
    _produce(inline, 6, 6, lands=False)
    delete_records(inline.bootstrap, inline.topic, 0, 10)
    again = inline.writer(topics=rf"events\.{inline.name}.*")
    assert "Kafka deleted [6, 10)" in _halted(again)
    beside.goes_on()
    assert inline.landed() == 6


def test_the_same_under_a_writer_that_runs(
    inline: Scene, writer: Inline, beside: Neighbour, places: Places
) -> None:
    held = places.hold_at("writer.before_group_commit")
    _produce(inline, 6, 1)
    held.wait()
    _produce(inline, 7, 5, lands=False)
    delete_records(inline.bootstrap, inline.topic, 0, 10)
    held.go_on()
    assert "Kafka deleted [7, 10)" in _halted(writer)
    beside.goes_on()
    assert inline.landed() == 7


def test_a_person_lets_a_partition_go_on_behind_what_kafka_deleted(
    inline: Scene, writer: Inline, beside: Neighbour, other: Other
) -> None:
    writer.stop()
    _produce(inline, 6, 6, lands=False)
    delete_records(inline.bootstrap, inline.topic, 0, 10)
    both = rf"events\.{inline.name}.*"
    again = inline.writer_into(other, topics=both)  # a database that is new is no reason to halt it
    assert "Kafka deleted [6, 10)" in _halted(again)
    partition = f"{inline.topic}/0"
    word = ["partitions", "resolve", partition, "accept", "--kafka", inline.bootstrap, "--dsn", inline.dsn]
    eventually(lambda: CliRunner().invoke(app, word).exit_code == 0)
    eventually(lambda: inline.landed() == 8)  # the two that Kafka still has
    _produce(inline, 12, 3, lands=False)
    eventually(lambda: inline.landed() == 11)
    eventually(lambda: set(again.states.values()) == {"landing"})
    eventually(lambda: landed(other.dsn, inline.name) == 5)
    again.stop()
    once_more = inline.writer_into(other, topics=both)
    _produce(inline, 15, 1, lands=False)
    eventually(lambda: inline.landed() == 12)
    eventually(lambda: set(once_more.states.values()) == {"landing"})
    assert once_more.refused == {}
    beside.goes_on()
