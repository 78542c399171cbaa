"""The watch shows why a source cannot be followed, and is not ready before the registry is read."""

import logging
from collections.abc import Iterator

import orjson
import pytest

from services.cdc.agent.metrics import AgentMetrics
from services.cdc.agent.reconcile import SourceReconciler
from services.cdc.agent.source_state import Shown, State
from services.cdc.agent.watch import Watch
from shared.registry.log import MemoryLog
from shared.registry.log_registry import LogRegistry
from shared.registry.memory import MemoryRegistry
from shared.registry.sources import Source
from tests.fixtures.writer import eventually

SHOP = {"dsn_env": "ONRAMP_SOURCE_NOBODY", "schemas": ["app"], "publish": "shop"}


def never(name: str, _source: Source, _dsn: str) -> SourceReconciler:
    raise AssertionError(f"{name} is looked at")


@pytest.mark.parametrize(
    ("changed", "env", "told"),
    [
        ({}, "", "ONRAMP_SOURCE_NOBODY is not set"),
        ({"database": "other"}, "postgresql://u@h/d", "no database other is configured"),
    ],
)
def test_a_source_that_cannot_be_followed_says_why_and_the_agent_is_not_ready(
    changed: dict[str, str], env: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONRAMP_SOURCE_NOBODY", env)
    registry = MemoryRegistry({"sources": {"shop": {**SHOP, **changed}}})
    watch = Watch(registry, {}, never, AgentMetrics(), poll_seconds=1)
    assert not watch.is_ready
    watch.follow()
    assert told in watch.states()["shop"]["reason"]
    assert not watch.is_ready
    registry.put({"sources": {}})
    registry.refresh()
    watch.follow()
    eventually(lambda: watch.is_ready)
    assert watch.states() == {}


def test_a_database_that_is_out_is_asked_later_which_sources_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRAMP_SOURCE_NOBODY", "postgresql://u@h/d")
    registry = MemoryRegistry({"sources": {"shop": SHOP}})
    registry.put({"sources": {}})
    registry.refresh()
    watch = Watch(registry, {"away": "postgresql://x@127.0.0.1:1/x"}, never, AgentMetrics(), poll_seconds=1)
    watch.follow()
    monkeypatch.setattr("services.cdc.agent.watch.sources_in", lambda _: {"shop": "ONRAMP_SOURCE_NOBODY"})
    with pytest.raises(AssertionError, match="shop is looked at"):
        watch.follow()


class Steady:
    """A source that flows, and can be removed."""

    removed = 0

    def reconcile(self) -> Shown:
        return Shown(state=State.STREAMING)

    def remove(self) -> bool:
        self.removed += 1
        return True

    def close(self) -> None:
        pass


def change(log: MemoryLog, after: int, **more: object) -> int:
    """Append a change set that follows the one at `after`; returns its offset."""
    document = {"format": 1, "after": after, "actor": "a", "time": "2026-01-01T00:00:00Z"}
    return log.append(orjson.dumps(document | more))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Watch, LogRegistry, MemoryLog, Steady]]:
    """An agent that watches over `shop`, its registry and that one's log."""
    monkeypatch.setenv("ONRAMP_SOURCE_NOBODY", "postgresql://u@h/d")
    monkeypatch.setattr("services.cdc.agent.watch.sources_in", lambda _: {"shop": "ONRAMP_SOURCE_NOBODY"})
    log, steady = MemoryLog(), Steady()
    change(log, -1, put={"sources": {"shop": SHOP}, "event_types": {"e": {}}})
    registry = LogRegistry(log)
    registry.refresh()
    watch = Watch(registry, {"onramp": ""}, lambda *_: steady, AgentMetrics(), poll_seconds=0.001)  # type: ignore[arg-type, return-value]
    watch.follow()
    yield watch, registry, log, steady
    watch.stop()
    watch.run()


def test_a_source_that_a_lost_registry_does_not_name_is_not_removed(
    watched: tuple[Watch, LogRegistry, MemoryLog, Steady],
) -> None:
    watch, registry, log, steady = watched
    log.records.clear()  # the topic was deleted, and somebody made it again
    for put in ({}, {"event_types": {"e": {}}}):
        if put:
            change(log, -1, put=put)
        registry.refresh()
        watch.follow()
        assert watch.states()["shop"]["reason"] == ""
    change(log, 0, put={"sources": {"store": SHOP}})
    registry.refresh()
    watch.follow()
    assert "no change removed it" in watch.states()["shop"]["reason"]
    assert not watch.is_ready
    assert steady.removed == 0
    change(log, 1, put={"sources": {"shop": SHOP}}, delete={"sources": ["store"]})
    registry.refresh()
    watch.follow()
    eventually(lambda: watch.is_ready)
    assert "shop" in watch.states()
    change(log, 2, delete={"sources": ["shop"]})
    registry.refresh()
    watch.follow()
    eventually(lambda: steady.removed == 2)
    eventually(lambda: watch.follow() or not watch.states())


def test_an_agent_that_starts_with_a_lost_registry_removes_nothing(
    watched: tuple[Watch, LogRegistry, MemoryLog, Steady],
) -> None:
    steady, log = watched[3], MemoryLog()
    registry = LogRegistry(log)
    registry.refresh()
    watch = Watch(registry, {"onramp": ""}, lambda *_: steady, AgentMetrics(), poll_seconds=0.001)  # type: ignore[arg-type, return-value]
    for _ in range(2):
        watch.follow()
        assert "no change removed it" in watch.states()["shop"]["reason"]
    assert steady.removed == 0
    change(log, -1, put={"sources": {"shop": SHOP}})
    change(log, 0, delete={"sources": ["shop"]})
    registry.refresh()
    watch.follow()
    eventually(lambda: steady.removed)
    eventually(lambda: watch.follow() or not watch.states())
    watch.stop()
    watch.run()


class Growing:
    """A source that does not answer, for longer at each poll, until it does."""

    def __init__(self) -> None:
        self.looks = 0

    def reconcile(self) -> Shown:
        self.looks += 1
        if self.looks > 20:
            return Shown(state=State.STREAMING)
        return Shown(state=State.STREAMING, reason=f"silent for {self.looks} s; it holds {self.looks / 8} GB")

    def close(self) -> None:
        pass


def test_growing_figures_of_an_unchanged_state_are_not_logged_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ONRAMP_SOURCE_NOBODY", "postgresql://u@h/d")
    caplog.set_level(logging.INFO)
    registry = MemoryRegistry({"sources": {"shop": SHOP}})
    growing = Growing()
    databases = {"onramp": "postgresql://x@127.0.0.1:1/x"}
    watch = Watch(registry, databases, lambda *_: growing, AgentMetrics(), poll_seconds=0.001)  # type: ignore[arg-type, return-value]
    watch.follow()
    eventually(lambda: growing.looks > 20)
    watch.stop()
    watch.run()  # what follows sources ends with it
    said = [record.reason for record in caplog.records if "state of a source changed" in record.message]  # type: ignore[attr-defined]
    assert said == ["silent for 1 s; it holds 0.125 GB", ""]


def test_amid_a_first_snapshot_there_is_no_age_of_before() -> None:
    metrics = AgentMetrics()

    def age() -> float | None:
        return metrics.registry.get_sample_value("onramp_source_heartbeat_age_seconds", {"source": "shop"})

    metrics.show("shop", Shown(state=State.OUT_OF_SYNC, heartbeat_age_s=400.0), 1)
    assert age() == 400.0
    metrics.show("shop", Shown(state=State.STARTING), 1)
    assert age() is None


def test_a_source_with_another_dsn_is_polled_by_that(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def make(_name: str, _source: Source, dsn: str) -> SourceReconciler:
        made.append(dsn)
        return Growing()  # type: ignore[return-value]

    def follows(dsn: str) -> bool:
        watch.follow()
        return made[-1:] == [dsn]

    registry = MemoryRegistry({"sources": {"shop": SHOP}})
    watch = Watch(
        registry, {"onramp": "postgresql://x@127.0.0.1:1/x"}, make, AgentMetrics(), poll_seconds=0.001
    )
    for password in ("first", "second"):
        dsn = f"postgresql://u:{password}@h/d"
        monkeypatch.setenv("ONRAMP_SOURCE_NOBODY", dsn)
        eventually(lambda: follows(dsn))  # noqa: B023 - called within the turn
    monkeypatch.delenv("ONRAMP_SOURCE_NOBODY")
    watch.follow()  # a variable that is gone ends no capture
    assert len(made) == 2
    watch.stop()
    watch.run()
