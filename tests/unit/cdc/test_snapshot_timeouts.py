"""Snapshot timeouts: a table that waits behind another re-snapshot is not treated as failed."""

from dataclasses import dataclass, field

from services.cdc.change_detection.snapshot_timeouts import SnapshotTimeouts

A, B = ("app.a", 0), ("app.b", 0)


@dataclass
class Source:
    """Two requested tables, the end of the log, and the offset up to which Kafka has it."""

    now: float = 0.0
    log_end: int = 1
    confirmed: int = 1
    overdue: SnapshotTimeouts = field(init=False)

    def __post_init__(self) -> None:
        self.overdue = SnapshotTimeouts(lambda: self.now)

    def failed(self, *tables: tuple[str, int]) -> list[tuple[str, int]]:
        """Return which are overdue a second later, while others write."""
        self.now, self.log_end = self.now + 1, self.log_end + 1
        return [at for at in tables if self._is_overdue(at)]

    def _is_overdue(self, at: tuple[str, int]) -> bool:
        return self.overdue.has_timed_out(
            at, log_end=self.log_end, confirmed=self.confirmed, landed=0, topic_end=lambda: 0
        )

    def goes_on(self) -> None:
        self.confirmed = self.log_end


def test_queued_snapshot_is_not_failed_when_the_connector_streams_between_two_snapshots() -> None:
    source = Source()
    for _ in range(30):
        assert source.failed(A, B) == []
    source.goes_on()  # the first has all been sent, and lands a moment later
    for _ in range(3):
        assert source.failed(A, B) == []
    source.overdue.is_done(A)
    for _ in range(30):
        assert source.failed(B) == []


def test_failed_snapshots_are_reported_once_after_long_streaming() -> None:
    source = Source()
    told = []
    for _ in range(60):
        source.goes_on()
        told.append(source.failed(A, B))
    assert told.index([A, B]) in range(15, 30)
    assert told.count([A, B]) == 1
