"""Figures of each database are read separately: one that hangs delays no other and has no made-up figures."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from services.writer.driver import collector as module
from services.writer.driver.collector import StatsCollector
from services.writer.observe.database_stats import DatabaseSizes, DatabaseStats
from services.writer.observe.status import Status
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from tests.unit.writer.test_metrics import page

_OFTEN = 0.001


class _Ground:
    """Two databases, and a collector that reads them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.up = ["quick", "silent"]
        self.answers = threading.Event()
        self.readings: Counter[str] = Counter()
        self.sizes_end = threading.Event()
        self.sizes_end.set()
        self.sizings: Counter[str] = Counter()
        self.without_sizes: set[str] = set()
        self.failing: set[str] = set()
        self.doubted: list[str] = []
        self.staged: set[str] = set()
        self.seen: list[str] = []
        self.status = Status()
        monkeypatch.setattr(module.database_stats, "read", self._read)
        monkeypatch.setattr(module.database_stats, "read_sizes", self._read_sizes)
        monkeypatch.setattr(module.database_stats, "is_staged", self._is_staged)
        monkeypatch.setattr(module, "undecided", lambda _: {})
        databases = SimpleNamespace(
            up=lambda: [SimpleNamespace(name=name) for name in self.up],
            doubt=self.doubted.append,
            replays=SimpleNamespace(mark_staged=self.seen.append),
        )
        parts: Any = SimpleNamespace(status=self.status, databases=databases)
        self.collector = StatsCollector(parts, _OFTEN)
        monkeypatch.setattr(self.collector, "_read_lag", self._nothing)
        monkeypatch.setattr(self.collector, "_read_retentions", self._nothing)

    def _read(self, database: Any) -> DatabaseStats:
        self.readings[database.name] += 1
        if database.name in self.failing:
            raise InfrastructureError(DATABASE_UNAVAILABLE, "it is gone")
        if database.name == "silent":
            assert self.answers.wait(120)
        totals = {("events.a", "events.a", "landed"): self.readings[database.name]}
        return DatabaseStats(totals, {}, {"idle": 1})

    def _read_sizes(self, database: Any) -> DatabaseSizes:
        self.sizings[database.name] += 1
        if database.name in self.without_sizes:
            raise InfrastructureError(DATABASE_UNAVAILABLE, "it took too long")
        assert self.sizes_end.wait(120)
        return DatabaseSizes(outbox=self.sizings[database.name])

    def _is_staged(self, database: Any) -> bool:
        if database.name in self.failing:
            raise InfrastructureError(DATABASE_UNAVAILABLE, "it is gone")
        if database.name == "silent":
            assert self.answers.wait(120)
        return database.name in self.staged

    async def _nothing(self) -> None: ...

    def landed(self, name: str) -> float:
        labels = f'database="{name}",event_type="a",outcome="landed"'
        series = f'onramp_writer_events_total{{{labels},step="persist",table="events.a",topic="events.a"}}'
        return page(self.status).get(series, -1.0)

    def sessions(self, name: str) -> float | None:
        return page(self.status).get(f'onramp_writer_connections{{database="{name}",state="idle"}}')

    def outbox(self, name: str) -> float | None:
        return page(self.status).get(f'onramp_writer_outbox_events{{database="{name}"}}')

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110 - a thread makes it true
                await asyncio.sleep(_OFTEN)

    def run(self, test: Callable[[], Any]) -> None:
        async def collected() -> None:
            self.collector.start()
            try:
                await test()
            finally:
                self.answers.set()
                self.sizes_end.set()
                await self.collector.stop()

        asyncio.run(collected())


@pytest.fixture
def ground(monkeypatch: pytest.MonkeyPatch) -> _Ground:
    return _Ground(monkeypatch)


def test_a_database_that_hangs_holds_up_no_other_ones_totals(ground: _Ground) -> None:
    async def hung() -> None:
        await ground.until(lambda: ground.landed("quick") >= 3)
        assert (ground.landed("silent"), ground.readings["silent"]) == (-1, 1)
        assert (ground.sessions("quick"), ground.sessions("silent")) == (1, None)
        ground.answers.set()
        await ground.until(lambda: ground.landed("silent") >= 2)
        await ground.until(lambda: ground.sessions("silent") == 1)

    ground.run(hung)


def test_sessions_of_a_database_that_begins_to_hang_are_not_known(ground: _Ground) -> None:
    async def begins() -> None:
        ground.answers.set()
        await ground.until(lambda: ground.sessions("silent") == 1)
        ground.answers.clear()
        await ground.until(lambda: ground.sessions("silent") is None)
        assert ground.sessions("quick") == 1

    ground.run(begins)


def test_a_database_that_fails_is_doubted_and_one_that_is_out_is_not_read(ground: _Ground) -> None:
    async def fails() -> None:
        ground.answers.set()
        await ground.until(lambda: ground.sessions("quick") == 1)
        ground.failing.add("quick")
        await ground.until(lambda: ground.doubted != [] and ground.sessions("quick") is None)
        assert set(ground.doubted) == {"quick"}
        ground.failing.clear()
        ground.up.remove("silent")
        await ground.until(lambda: ground.sessions("silent") is None and ground.sessions("quick") == 1)

    ground.run(fails)


def test_staged_replays_are_found_in_each_database_while_another_database_hangs(ground: _Ground) -> None:
    async def staged() -> None:
        await ground.until(lambda: ground.landed("quick") >= 2)
        assert ground.seen == []
        ground.failing.add("quick")
        await ground.until(lambda: ground.doubted != [])
        ground.failing.clear()
        ground.staged.add("quick")
        await ground.until(lambda: ground.seen.count("quick") >= 2)
        ground.staged = {"silent"}
        ground.answers.set()
        await ground.until(lambda: "silent" in ground.seen)

    ground.run(staged)


def test_sizes_that_take_long_or_fail_hold_up_no_totals_and_doubt_no_database(ground: _Ground) -> None:
    async def takes_long() -> None:
        ground.answers.set()
        ground.sizes_end.clear()
        ground.without_sizes.add("silent")
        await ground.until(lambda: ground.landed("quick") >= 5 and ground.landed("silent") >= 5)
        assert (ground.sizings["quick"], ground.outbox("quick"), ground.outbox("silent")) == (1, None, None)
        ground.sizes_end.set()
        ground.without_sizes.clear()
        await ground.until(lambda: ground.outbox("quick") is not None and ground.outbox("silent") is not None)
        assert ground.doubted == []

    ground.run(takes_long)


def test_slow_size_reading_is_not_repeated_before_a_proportional_pause(
    ground: _Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(module, "monotonic", lambda: now)

    async def seldom() -> None:
        nonlocal now
        ground.up.remove("silent")
        ground.sizes_end.clear()
        await ground.until(lambda: ground.sizings["quick"] == 1)
        now = 3.0
        ground.sizes_end.set()
        await ground.until(lambda: ground.outbox("quick") == 1)
        now = 59.0  # it took 3 s from 0 on
        readings = ground.readings["quick"]
        await ground.until(lambda: ground.readings["quick"] > readings + 2)
        assert ground.sizings["quick"] == 1
        now = 60.0
        await ground.until(lambda: ground.sizings["quick"] > 1)

    ground.run(seldom)
