"""Rows of a megabyte do not fill Kafka Connect's heap."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from services.cdc.agent import names
from tests.fixtures.sources import Captured, flows
from tests.fixtures.writer import eventually

#: Together more than half of the worker's heap, which has what is read, what is queued and what is sent.
MEGABYTES = 150


@pytest.mark.full
def test_a_snapshot_of_rows_of_a_megabyte_ends_no_worker(shop: Captured) -> None:
    series = f"generate_series(2, {MEGABYTES}) i"
    shop.execute(f"INSERT INTO app.orders (id, note) SELECT i, repeat('x', 1 << 20) FROM {series}")  # noqa: S608
    worker = shop.connect.pid
    reconciler = shop.new_reconciler()
    flows(reconciler)
    eventually(lambda: reconciler.reconcile().state == "streaming" and _ends(shop) == MEGABYTES, 120)
    shop.connect.check()
    assert shop.connect.pid == worker
    reconciler.close()


def _ends(shop: Captured) -> int:
    consumer = Consumer({"bootstrap.servers": shop.bootstrap, "group.id": "large"})
    try:
        topic = names.topic(shop.name, "app", "orders")
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)[1])
    finally:
        consumer.close()
