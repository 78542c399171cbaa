"""How far a partition is behind, and the open transaction of another producer that may be the reason."""

from time import monotonic, time
from typing import Final, NamedTuple

from services.writer.model.offsets import Partition

#: Most producers commit within seconds; Kafka ends a transaction after a minute unless told otherwise.
TOO_LONG_SECONDS: Final = 30.0
#: Readings are five seconds apart: after three of them one is overdue.
_OVERDUE_SECONDS: Final = 15.0


def ages_at(read: float) -> float:
    """Return the time (Unix seconds) of which ages are told that were read at `read`.

    It is the reading's own, or what flows would look five seconds old; a reading that is overdue
    ages on, or who cannot ask Kafka would show the lag of better times.
    """
    now = time()
    return now if now - read > _OVERDUE_SECONDS else min(read, now)


class Lag(NamedTuple):
    """How many offsets are not settled, and the time of the first one (Unix seconds) where it is known."""

    events: int
    since: float | None

    def seconds(self, now: float) -> float | None:
        """Return the oldest event's age at `now`; 0 when all is settled, None when it was not looked up."""
        if not self.events:
            return 0.0
        return None if self.since is None else max(now - self.since, 0.0)


class OpenTransaction(NamedTuple):
    """The offset at which a partition's last stable offset stands, and since when (monotonic seconds)."""

    offset: int
    since: float

    def seconds(self) -> float:
        """Return for how long it has been seen there."""
        return monotonic() - self.since

    def is_long(self) -> bool:
        """Whether an operator should look at it."""
        return self.seconds() >= TOO_LONG_SECONDS

    def describe(self, p: Partition) -> str:
        """Return what it keeps from being read, and how to end it."""
        return (
            f"a transaction that another producer left open at offset {self.offset} keeps what is behind it "
            "from being read: wait until the producer's transaction.timeout.ms is over, or end it by "
            f"kafka-transactions.sh --bootstrap-server BROKER abort --topic {p.topic} --partition {p.number} "
            f"--start-offset {self.offset}"
        )
