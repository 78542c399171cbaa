"""Events larger than Onramp's own topics accept are stored in the outbox and reported; others land."""

import logging
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from services.writer.park import outbox
from services.writer.partitions import quarantine
from shared import wire
from shared.kafka_read.offsets import Partition
from tests.faults.test_own_topics import set_topic
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.two_topics import Two
from tests.fixtures.writer import CONTEXT, envelope, event, eventually

#: More than the 16 MiB that Onramp's own topics take, less than the scene's.
LARGE, LIMIT = 17 << 20, 20 << 20


@pytest.fixture
def two(alone: Scene, monkeypatch: pytest.MonkeyPatch) -> Two:
    """A Kafka for these tests alone, because other tests read Onramp's own topics completely."""
    monkeypatch.setattr(quarantine, "_RETRY_SECONDS", (0.5, 1.0))
    monkeypatch.setattr(outbox, "_RETRY_SECONDS", 0.5)
    admin = AdminClient({"bootstrap.servers": alone.bootstrap})
    new = NewTopic(alone.topic, 1, 1, config={"max.message.bytes": str(LIMIT)})
    for future in admin.create_topics([new]).values():
        future.result(30)
    return Two(alone)


@pytest.fixture
def let_it_fit(alone: Scene) -> Callable[[str], None]:
    """Raise the limit of one of Onramp's own topics, as an operator would."""
    return lambda topic: set_topic(alone.bootstrap, topic, max_message_bytes=str(LIMIT + (1 << 20)))


def _send_large(two: Two, *values: bytes) -> None:
    """As a client may whose topic takes so much."""
    producer = Producer({"bootstrap.servers": two.scene.bootstrap, "message.max.bytes": LIMIT})
    failed: list[object] = []
    for value in values:
        producer.produce(
            two.topic, value, headers=CONTEXT, on_delivery=lambda e, _: failed.append(e) if e else None
        )
    assert producer.flush(60) == 0
    assert not failed, failed


def _of(first: int, n: int) -> list[str]:
    return [f"e-{i}" for i in range(first, first + n)]


def _are_parked(two: Two, *values: bytes) -> bool:
    return {r.value for r in two.parked()} == set(values)  # a repeat has the same key


@pytest.mark.full
def test_an_unroutable_event_that_is_too_large_is_kept_in_a_database_and_the_others_land(
    two: Two, let_it_fit: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    large, small = b"x" * LARGE, b"no json"
    two.send(*_of(0, 3))
    _send_large(two, large, small)
    two.send(*_of(3, 3))
    two.writer()
    eventually(lambda: two.landed() == set(_of(0, 6)))
    two.the_other_lands()
    eventually(lambda: _are_parked(two, small))
    two.scene.audited()
    eventually(lambda: f"{two.topic}/0/3/" in _said(caplog))
    let_it_fit(wire.USER_ERRORS)
    eventually(lambda: _are_parked(two, large, small))
    two.scene.audited()


def test_parked_events_that_are_too_large_stay_in_the_outbox_and_the_others_leave_it(
    two: Two, let_it_fit: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    name = two.scene.name
    small = [envelope(f"s-{i}", name, b'{"a":"\\u0000"}') for i in range(2)]
    large = [envelope(f"l-{i}", name, b'{"a":"\\u0000%b"}' % (b"x" * LARGE)) for i in range(2)]
    two.send(*_of(0, 3))
    _send_large(two, small[0], *large, small[1])
    two.send(*_of(3, 3))
    writer = two.writer(metrics_seconds=0.5)
    eventually(lambda: two.landed() == set(_of(0, 6)))
    two.the_other_lands()
    eventually(lambda: _are_parked(two, *small))
    eventually(lambda: f"{two.topic}/0/4/" in _said(caplog))
    assert "max.message.bytes" in _said(caplog)
    assert writer.states[two.scene.database] == "landing"
    eventually(lambda: writer.warnings.get(two.scene.database, "").startswith("2 parked events"))
    assert "max.message.bytes" in writer.warnings[two.scene.database]
    two.scene.audited()
    let_it_fit(wire.USER_ERRORS)
    eventually(lambda: _are_parked(two, *small, *large))
    eventually(lambda: not writer.warnings)
    assert two.scene.ask("SELECT count(*) FROM onramp.outbox") == [(0,)]
    two.scene.audited()


def _said(caplog: pytest.LogCaptureFixture) -> str:
    found = [r for r in caplog.records if getattr(r, "code", "") == "record_too_large"]
    assert {r.levelno for r in found} <= {logging.ERROR}
    return "\n".join(str(vars(r)) for r in found)


@pytest.mark.full
def test_a_diverted_event_that_is_too_large_holds_its_partition_and_no_other(
    two: Two, other: Other, let_it_fit: Callable[[str], None]
) -> None:
    writer = two.writer(other)
    two.send("first")
    eventually(lambda: two.landed(other.dsn) == {"first"})
    other.close()
    two.send(*_of(0, 4))
    _send_large(two, event("large", two.scene.name, a="x" * LARGE))
    two.send(*_of(4, 4))
    why = eventually(lambda: writer.refused.get(Partition(two.topic, 0), ""))
    assert "offset 5 " in why
    assert wire.SYSTEM_ERRORS in why
    assert "max.message.bytes" in why
    eventually(lambda: two.landed() == {"first", *_of(0, 4)})
    two.the_other_lands()
    let_it_fit(wire.SYSTEM_ERRORS)
    eventually(lambda: two.landed() == {"first", "large", *_of(0, 8)})
    other.open()
    eventually(lambda: two.landed(other.dsn) == {"first", "large", *_of(0, 8)})
    two.scene.audited(other)
