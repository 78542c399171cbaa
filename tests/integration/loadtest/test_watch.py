"""The watch reports a row when it is visible to others: after the commit, never before."""

import secrets
import time

import psycopg2
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from loadtest.target import Target, admin
from loadtest.watch import Watch
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import eventually

ADVANCE = (
    "INSERT INTO onramp.ledger (topic_id, topic, partition, next_offset, epoch) "
    "VALUES ('00000000-0000-0000-0000-000000000001', %s, 0, %s, 1) "
    "ON CONFLICT (topic_id, partition) DO UPDATE SET next_offset = excluded.next_offset"
)


def wait_for_looks(watch: Watch, more: int) -> None:
    until = watch.polls + more
    while watch.polls < until:
        time.sleep(0.005)


def test_an_offset_is_seen_after_its_commit_and_the_lag_is_kafkas_end_less_the_ledger(
    kafka: HasBootstrap, migrated: Database
) -> None:
    topic = f"events.watch_{secrets.token_hex(3)}"
    client = admin(kafka.bootstrap)
    client.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    conn = psycopg2.connect(migrated.dsn)
    with Watch(Target(url="", bootstrap=kafka.bootstrap, dsn=migrated.dsn), topic, 1) as watch:
        with conn, conn.cursor() as cursor:
            cursor.execute(ADVANCE, (topic, 7))
            wait_for_looks(watch, 3)
            assert watch.progress == {}  # written, and nobody else's to see
            before = time.monotonic()
        wait_for_looks(watch, 2)
        ((at, offset),) = watch.progress[0]
        assert (offset, watch.settled) == (7, 7)
        assert at >= before
        assert watch.wait_for_lag_zero(patience=60) == 0  # the topic is empty
        eventually(lambda: bool(watch.samples))
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        for _ in range(9):
            producer.produce(topic, b"x")
        producer.flush()
        assert watch.wait_for_lag_zero(patience=0) == 2  # nobody moves the ledger
    assert watch.samples[0]["lag"] <= 0
    conn.close()
