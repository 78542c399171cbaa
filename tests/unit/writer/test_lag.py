"""Lag readings: values reused from earlier readings, and values reported as unknown."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from services.writer.driver import lag_reader as reader
from services.writer.driver.lag_reader import LagReader
from services.writer.driver.loop import Loop
from services.writer.observe import lag
from services.writer.observe.lag import Lag
from services.writer.observe.status import Status
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from shared.kafka_read.leaders import StableOffset
from shared.kafka_read.offsets import Partition

A, B = Partition("events.a", 0), Partition("events.b", 0)


class _Ground:
    """Kafka as a reader sees it; missing partitions are not reported."""

    def __init__(self) -> None:
        self.settled = {A: 5, B: 5}
        self.ends = {A: 5, B: 9}
        self.stable: dict[Partition, int] = {}
        self.timestamps = {B: 1000.0}
        self.looked_up: list[dict[Partition, int]] = []
        self.status = Status()
        partitions = SimpleNamespace(next_offsets=lambda: dict(self.settled))
        parts: Any = SimpleNamespace(cluster=self, partitions=partitions, status=self.status)
        self._reader = LagReader(parts)

    async def end_offsets(self, partitions: dict[Partition, int]) -> dict[Partition, int]:
        return {p: self.ends[p] for p in partitions if p in self.ends}

    async def last_stable_offsets(
        self, partitions: dict[Partition, int], *, patient: bool
    ) -> dict[Partition, StableOffset]:
        assert not patient
        return {p: StableOffset(self.stable.get(p, self.ends[p]), 0) for p in partitions if p in self.ends}

    async def times(self, offsets: dict[Partition, int]) -> dict[Partition, float]:
        self.looked_up.append(offsets)
        return {p: self.timestamps[p] for p in offsets if p in self.timestamps}

    def read(self) -> dict[Partition, Lag]:
        asyncio.run(self._reader.read())
        return dict(self.status._lag)


def test_event_without_a_lookup_has_no_age_and_a_known_age_is_not_read_again() -> None:
    ground = _Ground()
    ground.ends[A] = 6
    assert ground.read() == {A: Lag(1, None), B: Lag(4, 1000.0)}
    page = ground.status.page().decode()
    assert 'lag_seconds{partition="0",topic="events.b"}' in page
    assert 'lag_seconds{partition="0",topic="events.a"}' not in page
    ground.timestamps = {A: 2000.0}
    assert ground.read() == {A: Lag(1, 2000.0), B: Lag(4, 1000.0)}
    assert ground.looked_up == [{A: 5, B: 5}, {A: 5}]


def test_an_event_that_claims_to_be_of_2100_is_late_since_it_was_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ground = _Ground()
    ground.timestamps = {B: 4_102_444_800.0}
    monkeypatch.setattr(reader, "time", lambda: 2000.0)
    assert ground.read()[B].seconds(2060.0) == 60
    assert ground.read()[B].seconds(1000.0) == 0  # the clock was set back


def test_partition_of_a_silent_leader_retains_its_last_end_offset() -> None:
    ground = _Ground()
    del ground.ends[A]
    assert ground.read() == {B: Lag(4, 1000.0)}
    ground.ends, ground.timestamps = {}, {}
    ground.settled[B] = 7
    assert ground.read() == {B: Lag(2, None)}, "the first event is another one now"
    del ground.settled[B]
    assert ground.read() == {}


def test_kafka_answers_as_long_as_any_leader_does() -> None:
    ground = _Ground()
    del ground.ends[A]
    ground.read()
    assert "\nonramp_writer_kafka_reachable 1.0\n" in ground.status.page().decode()
    ground.ends = {}
    ground.read()
    assert "\nonramp_writer_kafka_reachable 0.0\n" in ground.status.page().decode()
    ground.settled, ground.ends = {}, {reader._ALWAYS: 1}  # no topic of events is there yet
    assert ground.read() == {}
    assert "\nonramp_writer_kafka_reachable 1.0\n" in ground.status.page().decode()


def test_ages_that_cannot_be_read_hide_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    async def times(*_: object) -> dict[Partition, float]:
        raise TimeoutError

    monkeypatch.setattr(_Ground, "times", times)
    assert _Ground().read() == {A: Lag(0, None), B: Lag(4, None)}


def test_a_transaction_is_long_when_the_stable_offset_stands_still(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    monkeypatch.setattr(lag, "monotonic", lambda: now)
    monkeypatch.setattr("services.writer.driver.lag_reader.monotonic", lambda: now)
    ground = _Ground()
    for ground.stable[B] in (5, 6, 6):  # it moved once: that was a short one
        ground.read()
        assert not ground.status.open_transactions()
        now += lag.TOO_LONG_SECONDS * 0.6
    with caplog.at_level(logging.WARNING):
        ground.read()
        del ground.ends[B]  # a silent leader ends no transaction
        ground.read()
    assert list(ground.status.open_transactions()) == ["events.b/0"]
    assert len(caplog.records) == 1
    assert 'transaction_seconds{partition="0",topic="events.b"} 36.0' in ground.status.page().decode()
    ground.ends[B] = ground.stable[B] = 9
    ground.read()
    assert not ground.status.open_transactions()


def test_status_shows_a_database_that_the_error_ending_the_session_marked_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, shown = Loop.__new__(Loop), list[str]()

    async def end(*_: object) -> None:
        shown.append("a batch put it out")
        raise InfrastructureError(DATABASE_UNAVAILABLE, "no database is up")

    async def refresh(_: Loop) -> None:
        """Without a registry."""

    monkeypatch.setattr(Loop, "_refresh", refresh)
    monkeypatch.setattr(Loop, "_turns", end)
    monkeypatch.setattr(Loop, "_update_status", lambda _: shown.append("its state"))
    loop._collector = SimpleNamespace(start=lambda: None)  # type: ignore[assignment]
    with pytest.raises(InfrastructureError):
        asyncio.run(loop.run())
    assert shown == ["a batch put it out", "its state"]


def test_a_writer_that_stands_by_shows_no_lag_of_another() -> None:
    ground = _Ground()
    ground.stable[B] = 5
    ground.read()
    ground.status.update_standby("onramp")
    page = ground.status.page().decode()
    assert "onramp_writer_lag_events{" not in page
    assert "onramp_writer_open_transaction_seconds{" not in page
