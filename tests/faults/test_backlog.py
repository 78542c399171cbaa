"""A large backlog, on Kafka or in databases, does not increase the memory of the writer."""

import pytest

from tests.fixtures.scenes import Scene
from tests.fixtures.writer import event, eventually, make_topics, produce

pytestmark = pytest.mark.full

PARTITIONS = 100
EVENT_BYTES = 30_000
#: About the least that Spark starts with.
HEAP = "512m"


def test_a_backlog_over_many_partitions_fits_a_heap_that_cannot_hold_it(scene: Scene) -> None:
    """A reader that holds something for each partition would follow their number."""
    make_topics(scene.bootstrap, scene.topic, partitions=PARTITIONS)
    each = 140
    for partition in range(PARTITIONS):
        values = [event(f"{partition}-{n}", scene.name, pad="x" * EVENT_BYTES) for n in range(each)]
        produce(scene.bootstrap, scene.topic, values, partition=partition)
    writer = scene.writer(driver_memory=HEAP, batch_events=2_000)
    eventually(lambda: len(scene.settled()) == PARTITIONS, 120)
    writer.check()
