"""The lag of a partition, and the open transaction of another producer that may cause it."""

from collections import defaultdict
from collections.abc import Mapping
from time import monotonic, time
from typing import Final, NamedTuple

from shared import wire
from shared.figures import WriterType, bounded
from shared.kafka_read.offsets import Partition

#: Most producers commit within seconds; by default Kafka ends a transaction after a minute.
TOO_LONG_SECONDS: Final = 30.0
#: Readings are five seconds apart: after three of them one is overdue.
_OVERDUE_SECONDS: Final = 15.0


def ages_at(read: float) -> float:
    """Return the time (Unix seconds) up to which the ages of the reading at `read` are computed.

    The time is the reading's own, or else flowing events would look five seconds old.  For an overdue
    reading it is now, or else a writer that cannot reach Kafka would show an old lag.
    """
    now = time()
    return now if now - read > _OVERDUE_SECONDS else min(read, now)


class Lag(NamedTuple):
    """The number of offsets that are not settled, and the time of the first (Unix seconds), if known."""

    events: int
    since: float | None

    def seconds(self, now: float) -> float | None:
        """Return the oldest event's age at `now`; 0 if all are settled, None if the age is unknown."""
        if not self.events:
            return 0.0
        return None if self.since is None else max(now - self.since, 0.0)


class OpenTransaction(NamedTuple):
    """A partition's last stable offset, and the time of its first reading (monotonic seconds)."""

    offset: int
    since: float

    def seconds(self) -> float:
        """Return the seconds since the transaction was first read."""
        return monotonic() - self.since

    def is_long(self) -> bool:
        """Return whether an operator should inspect the transaction."""
        return self.seconds() >= TOO_LONG_SECONDS

    def describe(self, p: Partition) -> str:
        """Return a sentence for operators: the effect of the transaction, and the command that ends it."""
        return (
            f"a transaction that another producer left open at offset {self.offset} blocks reading the later "
            "records: wait until the producer's transaction.timeout.ms is over, or end it by "
            f"kafka-transactions.sh --bootstrap-server BROKER abort --topic {p.topic} --partition {p.number} "
            f"--start-offset {self.offset}"
        )


def types_of(lag: Mapping[Partition, Lag], now: float) -> dict[str, WriterType]:
    """Return the lag by event type, without tracers; by topic, where the topic is not named after a type."""
    prefix = wire.topic_of("")
    by_topic: dict[str, list[Lag]] = defaultdict(list)
    for partition, each in lag.items():
        if partition.topic != wire.topic_of(wire.PROBE_EVENT):
            by_topic[partition.topic.removeprefix(prefix)].append(each)
    labels = bounded(sorted(by_topic))
    by_type: dict[str, list[Lag]] = defaultdict(list)
    for name, of in by_topic.items():
        by_type[labels[name]] += of
    return {
        name: WriterType(
            sum(each.events for each in of),
            max((age for each in of if (age := each.seconds(now)) is not None), default=None),
        )
        for name, of in by_type.items()
    }
