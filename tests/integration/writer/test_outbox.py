"""PARK: a parked event is in the outbox or on the topic, never in neither."""

import secrets
from contextlib import closing

import psycopg2
import pytest

from services.writer.observe import database_stats
from services.writer.park import outbox
from shared import failpoints, wire
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.writer import Bench, Kept, arrivals, database_of, envelope, event, make_topics, records


@pytest.fixture
def topic(kafka: HasBootstrap) -> HasBootstrap:
    make_topics(kafka.bootstrap, wire.USER_ERRORS, partitions=2)
    return kafka


@pytest.fixture
def bad() -> list[bytes]:
    """Events that Postgres refuses, of this test alone: the topic is shared."""
    return [envelope(f"{secrets.token_hex(4)}-{i}", payload=b'{"a":"\\u0000"}') for i in range(3)]


def _kept(kafka: HasBootstrap, values: list[bytes]) -> list[Kept]:
    return [r for r in records(kafka.bootstrap, wire.USER_ERRORS) if r.value in values]


def _waiting(bench: Bench) -> int:
    return int(bench.one("SELECT count(*) FROM onramp.outbox"))


def test_parked_events_are_published_to_the_topic_and_removed_from_the_outbox(
    bench: Bench, topic: HasBootstrap, bad: list[bytes]
) -> None:
    bench.settle(arrivals([event("good"), *bad]))
    assert outbox.relay(bench.database, Brokers(topic.bootstrap)) == 3
    found = _kept(topic, bad)
    assert len(found) == 3
    assert _waiting(bench) == 0
    assert {(r.value, r.error["offset"], r.error["code"]) for r in found} == {
        (bad[0], 1, "data_rejected"),
        (bad[1], 2, "data_rejected"),
        (bad[2], 3, "data_rejected"),
    }
    assert len({r.key for r in found}) == 3


def test_while_kafka_is_away_it_stays_in_the_outbox(bench: Bench, bad: list[bytes]) -> None:
    bench.settle(arrivals(bad))
    with pytest.raises(InfrastructureError):
        outbox.relay(bench.database, Brokers(bench.bootstrap))  # where nobody listens
    assert _waiting(bench) == 3


def test_outbox_event_count_and_database_size_are_reported(bench: Bench, bad: list[bytes]) -> None:
    assert database_stats.read_sizes(bench.database).outbox == 0
    bench.settle(arrivals([event("good"), *bad]))
    shown = database_stats.read_sizes(bench.database)
    assert shown.outbox == 3
    assert shown.size_bytes == bench.one("SELECT pg_database_size(current_database())") > 1_000_000


def test_totals_are_read_whatever_keeps_the_sizes_from_being_read(bench: Bench) -> None:
    """A lock stands for millions of rows: one reading of both would end with it."""
    bench.settle(arrivals([event("good")]))
    hurried = database_of(bench.dsn, lock_timeout_ms=100)
    with closing(psycopg2.connect(bench.dsn)) as owner, owner.cursor() as cursor:
        cursor.execute("LOCK TABLE onramp.outbox, onramp.waiting")
        assert sum(database_stats.read(hurried).totals.values()) == 1
        with pytest.raises(InfrastructureError):
            database_stats.read_sizes(hurried)


def test_a_relay_that_dies_after_the_publish_repeats_it_under_the_same_keys(
    bench: Bench, topic: HasBootstrap, bad: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.settle(arrivals(bad))

    def die(name: str) -> None:
        assert name == "writer.after_outbox_publish"
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", die)
        with pytest.raises(RuntimeError, match="killed"):
            outbox.relay(bench.database, Brokers(topic.bootstrap))
    assert _waiting(bench) == 3
    outbox.relay(bench.database, Brokers(topic.bootstrap))
    found = _kept(topic, bad)
    assert _waiting(bench) == 0
    assert (len(found), len({r.key for r in found})) == (6, 3)


def test_more_than_a_relay_takes_at_once_leaves_too(
    bench: Bench, topic: HasBootstrap, bad: list[bytes]
) -> None:
    bench.settle(arrivals([bad[0].replace(b'"id":"', b'"id":"%d-' % i) for i in range(1001)]))
    assert outbox.relay(bench.database, Brokers(topic.bootstrap)) == 1001
    assert _waiting(bench) == 0


def test_an_empty_outbox_needs_no_kafka(bench: Bench) -> None:
    assert outbox.relay(bench.database, Brokers(bench.bootstrap)) == 0


def test_event_without_a_destination_is_on_the_topic_before_its_offset_settles(
    bench: Bench, topic: HasBootstrap
) -> None:
    values = [event("good"), b"no json, %b" % secrets.token_hex(4).encode(), None]
    assert bench.settle(arrivals(values)).failures == ("kafka_unavailable",)
    assert bench.ledger() == 0
    Bench(bench.dsn, topic.bootstrap).settle(arrivals(values))
    (kept,) = (r for r in records(topic.bootstrap, wire.USER_ERRORS) if r.value == values[1])
    assert (kept.error["code"], kept.error["offset"]) == ("no_envelope", 1)
    assert bench.ledger() == 3
    assert bench.totals() == {"landed": 1}
