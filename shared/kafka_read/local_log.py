"""Requests the start of the part of a log that is on the leader's own disk (KIP-405, tiered storage).

Earlier records come from a remote store.  If the store is too slow, the leader returns an empty response, as
if there were no records.  An empty response is reliable only for the part on the leader's own disk.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import Final

from aiokafka.client import AIOKafkaClient

from shared.kafka_read.list_offsets import EARLIEST_LOCAL, LocalOffsetsRequest
from shared.kafka_read.offsets import Partition

_ANY_EPOCH: Final = -1
_EVERYWHERE: Final = 0


async def local_starts(
    client: AIOKafkaClient, node: int, partitions: Collection[Partition]
) -> dict[Partition, int]:
    """Return the first offset of each partition on the disk of `node`; partitions with errors are missing.

    Raise aiokafka's errors.
    """
    topics: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for p in partitions:
        topics[p.topic].append((p.number, _ANY_EPOCH, EARLIEST_LOCAL))
    try:
        answer = await client.send(node, LocalOffsetsRequest(list(topics.items())))
    except NotImplementedError:  # Kafka before 3.6, which has no remote store
        return dict.fromkeys(partitions, _EVERYWHERE)
    return {
        Partition(topic, number): offset
        for topic, numbers, _ in answer.topics
        for number, error, _, offset, *_ in numbers
        if not error
    }
