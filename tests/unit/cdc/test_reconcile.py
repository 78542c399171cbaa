"""Reconcile drops or stops nothing because of a single reading of a source that changes meanwhile."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from services.cdc.agent.connect_api import ConnectApi, ConnectError, ConnectorStatus
from services.cdc.agent.connector import Rendering, TopicSettings
from services.cdc.agent.reconcile import Reach, SourceReconciler
from services.cdc.agent.source_state import Shown, SourceState, State, StoredState
from services.cdc.change_detection.topic_generation_sql import End
from services.cdc.health.out_of_sync import Gap
from services.cdc.health.slot import Slot
from shared.kafka_security import Brokers
from shared.registry.sources import Source

SOURCE: Final = Source(
    dsn_env="ONRAMP_SOURCE_SHOP", schemas=("app",), publish="shop", wal_alarm="16MB", wal_budget="64MB"
)
SLOT: Final = Slot(
    active=True,
    wal_status="reserved",
    retained_bytes=0,
    confirmed_lsn="0/10",
    pid=1,
    program="Debezium Streaming",
)
FIRST: Final = {"lsn": 1, "snapshot": "INITIAL"}
OVER: Final = {"lsn": 16}


class World(ConnectApi):
    """A source, its connector and its stored state; `events` happen before a reading, by its number."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self.slot_now: Slot | None = None
        self.offset: dict[str, Any] = {}
        self.configured: dict[str, str] | None = None
        self.is_running = True
        self.is_watching = True
        self.is_reachable = True
        self.stored_state = StoredState()
        self.events: dict[int, Callable[[], None]] = {}
        self.done: list[str] = []
        self._readings = 0
        topics = TopicSettings(replication=1, min_insync=1, retention_ms=1)
        rendering = Rendering(brokers=Brokers("127.0.0.1:1"), topics=topics)
        self._reconciler = SourceReconciler(
            "shop",
            SOURCE,
            Reach(database=self, store=self, connect=self, topics=self, rendering=rendering),  # type: ignore[arg-type]
        )

    def see(self) -> Shown:
        """One poll of the agent."""
        return self._reconciler.reconcile()

    def stream(self) -> None:
        """The connector has created its slot, and its first snapshot is complete."""
        self.slot_now, self.offset = SLOT, dict(OVER)

    def lose(self) -> None:
        self.slot_now = None

    def _read(self) -> None:
        self._readings += 1
        if self._readings in self.events:
            self.events.pop(self._readings)()

    # The source.
    parameters: Mapping[str, str] = {}

    def inspect(self) -> SourceState:
        self._read()
        return SourceState(lsn="0/1", tables_lsn="0/1", slot=self.slot_now)

    def slot(self) -> Slot | None:
        self._read()
        return self.slot_now

    def drop_slot(self) -> bool:
        self.slot_now = None
        self.done.append("slot dropped")
        return True

    def commit(self) -> None:
        pass

    def has_rows(self, _: int) -> bool:
        return False

    # What is kept of it.
    def watch(self) -> bool:
        return self.is_watching

    def read(self) -> StoredState:
        return self.stored_state

    def show(self, shown: Shown) -> None:
        slot = shown.source_state.slot if shown.source_state else None
        self.stored_state = replace(
            self.stored_state, had_slot=self.stored_state.had_slot or bool(slot and slot.confirmed)
        )

    def mark_out_of_sync(self, gap: Gap) -> None:
        now = datetime.now(UTC)
        self.stored_state = replace(
            self.stored_state,
            out_of_sync_at=now,
            out_of_sync_why=gap.why,
            resync_requested_at=now if gap.starts_again else None,
        )

    def heal(self, _: Any) -> None:
        self.stored_state = StoredState(tables=self.stored_state.tables)
        self.done.append("emptied")

    def history(self) -> dict[Any, Any]:
        return {}

    def save_tables(self, tables: Any, resnapshots: Any) -> None:
        self.stored_state = replace(self.stored_state, tables=tables, resnapshots=resnapshots)

    def save_streams(self, *, streams: bool, **_: object) -> None:
        self.stored_state = replace(self.stored_state, streams=streams)

    # Kafka Connect.
    def config(self, _: str) -> dict[str, str] | None:
        self._read()
        return self.configured

    def put_config(self, name: str, config: dict[str, str]) -> None:
        self.configured = {**config, "name": name}

    def status(self, _: str) -> ConnectorStatus | None:
        self._read()
        if self.configured is None:
            return None
        running = ConnectorStatus(connector="RUNNING", tasks=("RUNNING",))
        return running if self.is_running else ConnectorStatus(connector="STOPPED", tasks=())

    def stop(self, _: str) -> None:
        self.is_running = False
        self.done.append("connector stopped")

    def resume(self, _: str) -> None:
        self.is_running = True

    def offsets(self, _: str) -> list[Any]:
        self._read()
        if not self.is_reachable:
            raise ConnectError("Kafka Connect does not answer")
        return [{"offset": self.offset}] if self.offset else []

    def delete_offsets(self, _: str) -> None:
        self.offset = {}

    # Topics.
    def make_signals(self, _: str) -> None:
        pass

    def enforce_settings(self, _: str) -> list[str]:
        return []

    def ends(self, _: str, tables: Any) -> dict[Any, End]:
        return dict.fromkeys(tables, End())


def flowing() -> World:
    world = World()
    world.see()
    world.stream()
    world.see()
    assert world.see().state is State.STREAMING
    assert world.stored_state.streams
    world.done.clear()
    return world


@pytest.mark.parametrize("moment", range(1, 20))
@pytest.mark.parametrize("offset", [FIRST, OVER])
def test_slot_created_between_two_readings_is_not_treated_as_lost(
    offset: dict[str, Any], moment: int
) -> None:
    world = World()

    def begin() -> None:
        world.slot_now, world.offset = SLOT, dict(offset)

    world.events = {moment: begin}
    shown = [world.see() for _ in range(6)]
    assert not world.events
    assert {each.state for each in shown} <= {State.STARTING, State.STREAMING}
    assert "slot dropped" not in world.done
    assert "connector stopped" not in world.done


@pytest.mark.parametrize("moment", range(1, 20))
def test_a_slot_that_is_dropped_between_two_readings_is_a_gap(moment: int) -> None:
    world = flowing()
    world.events = {world._readings + moment: world.lose}
    states = [world.see().state for _ in range(8)]
    assert states[-1] is State.OUT_OF_SYNC
    assert world.stored_state.out_of_sync_why == "its slot is gone"


def test_a_slot_that_was_dropped_and_made_again_is_a_gap() -> None:
    world = flowing()
    world.lose()
    world.events = {world._readings + 2: world.stream}
    assert world.see().state is State.OUT_OF_SYNC
    assert world.stored_state.out_of_sync_why == "its slot was dropped, and another one was made"


@pytest.mark.parametrize("offset", [{}, FIRST])
def test_a_first_snapshot_whose_slot_is_gone_starts_again(offset: dict[str, Any]) -> None:
    world = World()
    world.see()
    world.slot_now, world.offset = SLOT, dict(offset)
    world.see()
    world.done.clear()
    world.lose()
    states = [world.see().state for _ in range(3)]
    assert State.STARTING in states
    assert (world.stored_state.out_of_sync_at, world.offset, world.is_running) == (None, {}, True)
    assert world.done == ["connector stopped", "slot dropped", "slot dropped", "emptied"]
    world.stream()
    assert [world.see().state for _ in range(3)] == [State.STREAMING] * 3


def test_offsets_that_a_stopped_task_writes_late_are_of_the_snapshot_before() -> None:
    world = flowing()
    world.lose()
    world.see()
    world.stored_state = replace(world.stored_state, resync_requested_at=datetime.now(UTC))
    assert world.see().state is State.STARTING
    world.offset = dict(OVER)
    for _ in range(4):
        world.see()
    assert (world.stored_state.out_of_sync_at, world.offset) == (None, {})


def test_a_slot_whose_making_failed_was_none() -> None:
    world = World()
    world.see()
    world.slot_now = replace(SLOT, confirmed_lsn="0/0")
    world.see()
    world.lose()
    assert [world.see().state for _ in range(2)] == [State.STARTING] * 2
    assert world.done == ["emptied"]  # before the first snapshot


@pytest.mark.parametrize(
    "wrong",
    [
        {"wal_status": "lost"},
        {"retained_bytes": 64 << 20},
        {"confirmed_lsn": "0/FF", "active": False, "pid": None, "program": ""},
    ],
)
def test_slot_is_dropped_only_after_a_bad_reading_is_confirmed(wrong: dict[str, Any]) -> None:
    world = flowing()
    world.slot_now = replace(SLOT, active=False, pid=None, program="")
    world.see()
    world.see()
    is_, world.slot_now = world.slot_now, replace(SLOT, **wrong)

    def back() -> None:
        world.slot_now = is_

    world.events = {world._readings + 2 + ("confirmed_lsn" in wrong): back}
    assert world.see().state is not State.OUT_OF_SYNC
    assert not world.events
    assert world.done == []
    world.slot_now = replace(SLOT, **wrong)
    assert world.see().state is State.OUT_OF_SYNC
    assert world.done == ["connector stopped", "slot dropped"]


def test_a_kafka_connect_that_is_unreachable_does_not_say_that_another_program_read() -> None:
    world = flowing()
    world.slot_now = replace(SLOT, active=False, pid=None, program="")
    world.see()
    world.slot_now = replace(world.slot_now, confirmed_lsn="0/FF")
    world.is_reachable = False
    assert world.see().state is State.UNREACHABLE
    assert world.done == []
    world.is_reachable = True
    assert world.see().state is State.OUT_OF_SYNC


def test_an_agent_whose_turn_is_over_drops_no_slot() -> None:
    world = flowing()
    world.lose()
    world.see()
    world.done.clear()
    world.stream()  # of the next agent's resync
    world.events = {world._readings + 2: lambda: setattr(world, "is_watching", False)}
    world.see()
    assert world.slot_now == SLOT
    assert world.done == []
