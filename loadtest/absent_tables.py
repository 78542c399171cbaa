"""Packets for missing tables during `make bench-latency`, to measure the delay of other packets."""

from collections.abc import Iterator
from itertools import count
from typing import Final

from confluent_kafka import Producer

from loadtest.target import Target, way_to
from shared import wire

#: No event name that is measured: its topic has packets alone.
TOPIC: Final = wire.topic_of("absent_tables")
#: Seconds from one burst to the next.
EVERY_SECONDS: Final = 10.0
_PACKET: Final = (
    '{{"pipeline_context":{{"destinations":[{{"type":"postgres","vanity":"{database}","schema":"public",'
    '"table":"absent_{n}"}}]}},"data":{{"n":{n}}}}}'
)


class Bursts:
    """Sends packets, each with another table, all at once and past the gateway."""

    def __init__(self, target: Target, tables: int) -> None:
        """`tables`: packets of a burst."""
        self._producer = Producer({**way_to(target.bootstrap), "linger.ms": 20, "log_level": 3})
        self._packets = packets(target.database)
        self._tables = tables
        self.sent = 0

    def send(self) -> None:
        """Send a burst, and wait until Kafka has it."""
        for _ in range(self._tables):
            headers = [(wire.HEADER_CONTEXT, wire.CONTEXT_BYTES)]
            self._producer.produce(TOPIC, next(self._packets).encode(), headers=headers, partition=0)
        self._producer.flush()
        self.sent += self._tables


def packets(database: str) -> Iterator[str]:
    """Yield packets without end; no two name the same table."""
    return (_PACKET.format(database=database, n=n) for n in count())
