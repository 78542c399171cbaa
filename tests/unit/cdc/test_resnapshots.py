"""Requests for re-snapshots: sent once the connector can receive them, and once for each table."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import orjson
import pytest

from services.cdc.agent.resnapshots import Resnapshots
from services.cdc.agent.source_sql import SourceError
from services.cdc.agent.source_state import Column, Resnapshot, SourceState, Table
from services.cdc.agent.source_state_sql import StoredState
from services.cdc.change_detection import snapshot_timeouts
from services.cdc.change_detection.resnapshots_sql import RequestedSnapshot
from services.cdc.change_detection.snapshot_marker import PREFIX
from services.cdc.change_detection.table_fingerprint import RowsStamp
from services.cdc.change_detection.topic_generation_sql import End
from services.cdc.health.slot import Slot
from tests.fixtures.changes import message

_TOPIC: Final = str(UUID(int=9))
_TABLE: Final = Table(
    oid=1,
    schema="app",
    name="t",
    columns=(Column("id", "integer", not_null=True, generated=False),),
    rows_stamp=RowsStamp(oid=1, columns={}),
    key=("id",),
)


class Agent:
    """The agent's environment: offsets, the slot's reader, stored state, and landed changes."""

    def __init__(self) -> None:
        self.stored_state = StoredState(
            tables={"app.t": _TABLE.rows_stamp}, resnapshots={"app.t": Resnapshot(why="another type")}
        )
        self.slot = Slot(active=True, wal_status="reserved", retained_bytes=0, confirmed_lsn="0/1", pid=1)
        self.tables_lsn = "0/1"
        self.ended = self.begun = 0
        self.offset: dict[str, Any] = {"lsn": 1}
        self.asked: list[list[str]] = []
        self.conditions: list[Sequence[Any]] = []
        self.has_landed = False
        self.table = _TABLE
        #: Messages in the source's log, and what is kept of them.
        self.log: list[bytes] = []
        self.stored_requests: list[RequestedSnapshot] = []
        self.told: dict[str, bool] = {}
        self.has_rows = True
        self.emptied: list[Any] = []
        self.is_trimmed = False
        #: Tables beside it, those that are closed to the role, and up to where its topic has landed.
        self.more: tuple[Table, ...] = ()
        self.closed: set[int] = set()
        self.landed: int | None = None
        self.topic_end, self.topic = 7, _TOPIC
        self.streams = self.missing_once = False
        self.snapshots_ends: Any = None
        self._resnapshots = Resnapshots(
            "shop",
            store=self,  # type: ignore[arg-type]
            connect=self,  # type: ignore[arg-type]
            topics=self,  # type: ignore[arg-type]
            has_rows=self.ask_for_rows,
        )

    def reconcile(self, *, moves: bool = True) -> int:
        """Return the number of requests so far."""
        source_state = SourceState(
            lsn="0/1",
            tables_lsn=self.tables_lsn,
            ended=self.ended,
            begun=self.begun,
            tables=(self.table, *self.more),
            slot=self.slot,
        )
        self._resnapshots.reconcile(source_state, self.stored_state)
        self.offset = {**self.offset, "lsn": self.offset["lsn"] + moves}
        return len(self.asked)

    @property
    def reasons(self) -> list[str]:
        return self._resnapshots.reasons

    def begins_anew(self, reader: int) -> None:
        self.slot = replace(self.slot, pid=reader)

    def save_streams(self, *, streams: bool, ends: Any) -> None:
        self.streams, self.snapshots_ends = streams, ends

    def history(self) -> dict[tuple[str, str], Any]:
        return {("app", "t"): ()}

    def has_forgotten(self) -> bool:
        return self._resnapshots.has_forgotten(self.slot, streams=self.streams)

    def configured(self) -> None:
        self._resnapshots.note_configured(self.slot)

    def offsets(self, _: str) -> list[Any]:
        if self.missing_once:
            self.missing_once = False
            return []
        return [{"offset": self.offset}] if self.offset else []

    def save_tables(self, tables: Any, resnapshots: Any) -> None:
        self.stored_state = StoredState(tables=tables, resnapshots=resnapshots)

    def has_snapshots_end(self, _: Any, start: int) -> tuple[bool, int]:
        return self.has_landed, start if self.landed is None else self.landed

    def ask_for_rows(self, oid: int) -> bool:
        if oid in self.closed:
            raise SourceError("cannot query the source: SQLSTATE 42501")
        return self.has_rows

    def save_requests(self, asked: Any) -> None:
        self.stored_requests += asked

    def save_markers(self, told: Any) -> None:
        self.told |= {str(each.token): each.has_rows for each in told}

    def had_rows(self, token: str) -> bool | None:
        return self.told.get(token)

    def empty(self, table: Any, start: int, token: str) -> bool:
        self.emptied.append((table, start, token))
        return not self.is_trimmed

    def messages_end(self, _: str) -> int:
        return len(self.log)

    def messages(self, _: str, start: int) -> tuple[list[bytes], int]:
        return self.log[start:], len(self.log)

    def ends(self, _: str, tables: Any) -> dict[Any, End]:
        return dict.fromkeys(tables, End(self.topic_end, self.topic))

    def read_again(self, _: str, conditions: Mapping[str, Any]) -> None:
        self.asked.append(list(conditions))
        self.conditions.append([each for each in conditions.values() if each])


def test_snapshot_is_not_requested_before_the_connector_makes_progress() -> None:
    agent = Agent()
    assert [agent.reconcile(moves=False) for _ in range(3)] == [0, 0, 0]
    agent.reconcile()
    assert agent.reconcile() == 1
    assert agent.stored_state.resnapshots == {
        "app.t": Resnapshot(why="another type", is_requested=True, reader="1@", start=7)
    }


def test_snapshot_is_not_requested_before_kafka_has_all_earlier_changes() -> None:
    agent = Agent()
    agent.stored_state = StoredState(tables={"app.t": RowsStamp(oid=0, columns={})}, resnapshots={})
    agent.topic_end = 0
    agent.tables_lsn = "0/10"
    assert [agent.reconcile() for _ in range(3)] == [0, 0, 0]
    assert agent.stored_state.resnapshots == {
        "app.t": Resnapshot(why="it is new here and has rows", after=16)
    }
    # The log grows: it is for what was seen then that is waited.
    agent.tables_lsn = "0/99"
    agent.slot = replace(agent.slot, confirmed_lsn="0/F")
    assert agent.reconcile() == 0
    agent.slot = replace(agent.slot, confirmed_lsn="0/10")
    assert [agent.reconcile() for _ in range(2)] == [0, 1]
    assert agent.stored_state.resnapshots["app.t"].is_requested


def test_snapshot_is_requested_once_from_each_successive_slot_reader() -> None:
    agent = Agent()
    assert [agent.reconcile() for _ in range(4)] == [0, 1, 1, 1]
    agent.begins_anew(2)
    assert agent.reconcile(moves=False) == 1
    # It looked for its place in the log: another process reads now.
    agent.begins_anew(3)
    assert [agent.reconcile() for _ in range(4)] == [1, 2, 2, 2]


def test_snapshot_that_has_landed_is_not_requested_again() -> None:
    agent = Agent()
    assert [agent.reconcile() for _ in range(2)] == [0, 1]
    agent.has_landed = True
    agent.reconcile()
    assert agent.stored_state.resnapshots == {}
    agent.begins_anew(2)
    assert [agent.reconcile() for _ in range(3)] == [1, 1, 1]


def test_amid_a_snapshot_no_other_is_asked_for() -> None:
    agent = Agent()
    agent.offset["snapshot"] = "INITIAL"
    assert [agent.reconcile() for _ in range(3)] == [0, 0, 0]
    # What an offset says of one that was cut off stays until another is done.
    agent.offset["snapshot"] = "BLOCKING"
    assert agent.reconcile() == 1
    agent.stored_state = StoredState(
        tables=agent.stored_state.tables,
        resnapshots={
            **agent.stored_state.resnapshots,
            "app.t": replace(agent.stored_state.resnapshots["app.t"], is_requested=False),
        },
    )
    assert [agent.reconcile() for _ in range(3)] == [1, 1, 1]
    del agent.offset["snapshot"]
    assert agent.reconcile() == 2


def _tells(token: str, *, rows: bool = True) -> bytes:
    document = {"token": token, "snapshot": "700:900:750", "lsn": "0/FF", "rows": rows}
    return message(PREFIX, orjson.dumps(document))


@pytest.fixture
def keyless() -> Agent:
    """An agent that was requested to re-snapshot a table without a key."""
    agent = Agent()
    agent.table = replace(_TABLE, key=None)
    agent.log = [message("onramp", b"")]
    assert [agent.reconcile() for _ in range(2)] == [0, 1]
    return agent


def test_snapshot_of_a_table_with_a_key_has_no_snapshot_marker() -> None:
    agent = Agent()
    assert [agent.reconcile() for _ in range(2)] == [0, 1]
    assert (agent.conditions, agent.stored_requests) == ([[]], [])


def test_keyless_resnapshot_completes_once_its_own_snapshot_marker_is_read(keyless: Agent) -> None:
    [[condition]], [asked] = keyless.conditions, keyless.stored_requests
    assert (condition["data-collection"], asked.start) == ('"app"."t"', 7)
    assert f"'{asked.token}'" in condition["filter"]
    resnapshot = keyless.stored_state.resnapshots["app.t"]
    assert (resnapshot.token, resnapshot.messages) == (asked.token, 1)

    keyless.has_landed = True
    keyless.log += [_tells(str(UUID(int=1)))]  # another one's
    keyless.reconcile()
    assert [*keyless.stored_state.resnapshots] == ["app.t"]
    keyless.log += [_tells(asked.token)]
    keyless.reconcile()
    assert keyless.stored_state.resnapshots == {}


def test_next_slot_reader_uses_another_token(keyless: Agent) -> None:
    keyless.begins_anew(2)
    assert [keyless.reconcile() for _ in range(3)] == [1, 2, 2]
    first, second = (asked.token for asked in keyless.stored_requests)
    keyless.has_landed = True
    keyless.log += [_tells(first)]
    keyless.reconcile()
    assert keyless.stored_state.resnapshots["app.t"].token == second != first


def test_after_a_restart_messages_of_what_was_asked_for_before_are_heard_too(keyless: Agent) -> None:
    keyless.log += [message("onramp", b"")]
    keyless.begins_anew(2)
    assert [keyless.reconcile() for _ in range(3)] == [1, 2, 2]
    assert keyless.stored_state.resnapshots["app.t"].messages == 1


def test_malformed_messages_are_skipped_and_the_snapshot_marker_is_still_read(keyless: Agent) -> None:
    token = keyless.stored_requests[0].token
    good = {"token": token, "snapshot": "1:1:", "lsn": "0/1", "rows": True}
    bad = [
        {},
        {k: v for k, v in good.items() if k != "rows"},
        good | {"token": None},
        good | {"token": "x"},
        good | {"snapshot": "1:2"},
        good | {"lsn": "'"},
    ]
    keyless.log += [b"null", b"[]", b"{", message(PREFIX, b"\xff"), message(PREFIX, b"7")]
    keyless.log += [message(PREFIX, orjson.dumps(each)) for each in bad]
    keyless.log += [b'{"message":{"prefix":"onramp.snapshot","content":7}}']
    keyless.reconcile()
    assert keyless.told == {}
    keyless.log += [_tells(token)]
    keyless.reconcile()
    assert keyless.told == {token: True}


def test_resnapshot_of_an_empty_table_completes_after_two_polls_without_rows() -> None:
    agent = Agent()
    assert [agent.reconcile() for _ in range(2)] == [0, 1]
    agent.has_rows = False
    agent.reconcile()
    agent.has_rows = True
    agent.reconcile()
    agent.has_rows = False
    agent.reconcile()
    assert agent.emptied == []  # two looks have to agree
    agent.reconcile()
    assert (agent.stored_state.resnapshots, agent.emptied) == ({}, [(("app", "t"), 7, "")])


def test_without_a_key_it_is_the_snapshot_that_had_no_rows(keyless: Agent) -> None:
    keyless.has_rows = False  # not then: what was there is deleted by changes
    keyless.reconcile()
    assert keyless.emptied == []
    keyless.has_rows = True  # nor those that came since
    token = keyless.stored_requests[0].token
    keyless.log += [_tells(token, rows=False)]
    keyless.reconcile()
    assert (keyless.stored_state.resnapshots, keyless.emptied) == ({}, [(("app", "t"), 7, token)])


def test_a_snapshot_that_has_failed_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_timeouts, "_SECONDS", 0.0)
    agent = Agent()
    agent.tables_lsn = "0/99"
    assert [agent.reconcile() for _ in range(3)] == [0, 1, 1]
    # It stands still in the log while it is taken, however long that is.
    assert [agent.reconcile() for _ in range(5)] == [1] * 5
    agent.slot = replace(agent.slot, confirmed_lsn=agent.tables_lsn)
    # What it sent has not all landed yet.
    agent.landed = 6
    assert [agent.reconcile() for _ in range(3)] == [1] * 3
    agent.landed = 7
    assert agent.reconcile() == 2
    assert agent.stored_state.resnapshots["app.t"].why == "its snapshot has failed (another type)"


def test_a_table_that_cannot_be_asked_keeps_no_other_waiting() -> None:
    agent = Agent()
    closed = replace(_TABLE, oid=2, name="closed", rows_stamp=RowsStamp(oid=2, columns={}))
    agent.more, agent.closed, agent.topic_end = (closed,), {2}, 0
    assert [agent.reconcile() for _ in range(3)] == [0, 1, 1]
    assert agent.asked == [["app.t"]]
    assert [*(agent.stored_state.tables or {})] == ["app.t"]  # it is looked at again
    agent.closed = set()
    assert agent.reconcile() == 2
    assert agent.asked[1] == ["app.closed"]


def test_locked_table_is_not_treated_as_empty() -> None:
    agent = Agent()
    assert [agent.reconcile() for _ in range(2)] == [0, 1]
    agent.closed = {1}
    agent.reconcile()
    assert ([*agent.stored_state.resnapshots], agent.emptied) == (["app.t"], [])


def test_keyless_snapshot_that_failed_before_its_marker_is_requested_again(
    keyless: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_timeouts, "_SECONDS", 0.0)
    keyless.tables_lsn = "0/99"
    keyless.slot = replace(keyless.slot, confirmed_lsn="0/99")
    keyless.topic_end = 9  # changes of the stream
    assert [keyless.reconcile() for _ in range(3)] == [1] * 3
    keyless.landed = 9
    assert keyless.reconcile() == 2
    assert keyless.stored_state.resnapshots["app.t"].why.startswith("its snapshot has failed")


def test_an_end_that_landed_before_its_message_is_found_once_that_has_come(keyless: Agent) -> None:
    keyless.has_landed, keyless.landed = True, 9
    keyless.reconcile()
    assert [*keyless.stored_state.resnapshots] == ["app.t"]
    keyless.has_landed = False  # behind it there is no other
    keyless.log += [_tells(keyless.stored_requests[0].token)]
    keyless.reconcile()
    assert (keyless.stored_state.resnapshots, keyless.emptied) == ({}, [])


def test_a_table_that_comes_back_without_its_rows_is_emptied() -> None:
    agent = Agent()
    agent.stored_state = StoredState(tables={}, resnapshots={})
    agent.has_rows = False
    assert [agent.reconcile() for _ in range(4)] == [0, 1, 1, 1]
    assert (agent.stored_state.resnapshots, agent.emptied) == ({}, [(("app", "t"), 7, "")])


def test_snapshot_is_not_requested_from_a_slot_reader_about_to_be_replaced() -> None:
    agent = Agent()
    agent.configured()
    assert [agent.reconcile() for _ in range(3)] == [0, 0, 0]
    agent.begins_anew(2)
    assert [agent.reconcile() for _ in range(3)] == [0, 1, 1]


def test_a_session_with_the_number_of_one_that_ended_is_another() -> None:
    agent = Agent()
    assert [agent.reconcile() for _ in range(2)] == [0, 1]
    agent.slot = replace(agent.slot, since="2026-01-01")
    assert [agent.reconcile() for _ in range(3)] == [1, 2, 2]


def test_where_what_came_since_is_trimmed_it_is_asked_for_again() -> None:
    agent = Agent()
    assert [agent.reconcile() for _ in range(2)] == [0, 1]
    agent.has_rows, agent.is_trimmed = False, True
    assert [agent.reconcile() for _ in range(2)] == [1, 2]
    agent.is_trimmed = False
    assert [agent.reconcile() for _ in range(2)] == [2, 2]
    assert (agent.stored_state.resnapshots, len(agent.emptied)) == ({}, 2)


def test_snapshot_is_not_requested_before_earlier_open_transactions_have_ended() -> None:
    agent = Agent()
    agent.stored_state = StoredState(tables={"app.t": RowsStamp(oid=0, columns={})}, resnapshots={})
    agent.topic_end, agent.ended, agent.begun = 0, 5, 7
    assert [agent.reconcile() for _ in range(3)] == [0, 0, 0]
    assert agent.reasons == [
        (
            "app.t is re-snapshotted once transactions have ended that were open then: "
            "it is new here and has rows"
        )
    ]
    # Others have begun meanwhile; and what the last one of those did is in the log up to here.
    agent.ended, agent.begun, agent.tables_lsn = 7, 9, "0/10"
    assert [agent.reconcile() for _ in range(2)] == [0, 0]
    assert agent.stored_state.resnapshots["app.t"].after == 16
    agent.slot = replace(agent.slot, confirmed_lsn="0/10")
    assert [agent.reconcile() for _ in range(2)] == [0, 1]


def test_repeated_first_snapshot_is_detected_once_when_the_offset_is_lost() -> None:
    agent = Agent()
    agent.offset = {"lsn": 1, "snapshot": "INITIAL"}
    assert (agent.has_forgotten(), agent.streams) == (False, False)
    agent.offset = {"lsn": 1}
    assert (agent.has_forgotten(), agent.streams) == (False, True)
    agent.begins_anew(2)
    agent.offset = {"lsn": 2, "snapshot": "BLOCKING"}
    assert (agent.has_forgotten(), agent.streams) == (False, True)
    agent.begins_anew(3)
    agent.offset = {}
    assert (agent.has_forgotten(), agent.streams) == (True, False)
    assert (agent.has_forgotten(), agent.streams) == (False, False)


def test_offsets_that_are_missing_in_one_reading_are_not_forgotten() -> None:
    agent = Agent()
    assert (agent.has_forgotten(), agent.streams) == (False, True)
    agent.begins_anew(2)
    agent.missing_once = True
    assert (agent.has_forgotten(), agent.streams) == (False, True)
    agent.begins_anew(3)
    agent.offset = {}
    assert (agent.has_forgotten(), agent.streams) == (True, False)


def test_forgotten_offsets_are_noticed_before_the_next_snapshot_begins() -> None:
    agent = Agent()
    assert (agent.has_forgotten(), agent.streams) == (False, True)
    agent.slot = replace(agent.slot, active=False, pid=None)
    assert (agent.has_forgotten(), agent.streams) == (False, True)
    agent.offset = {}
    assert (agent.has_forgotten(), agent.streams) == (True, False)


def test_where_the_topics_end_is_noted_once_the_first_snapshot_is_over() -> None:
    agent = Agent()
    agent.offset = {**agent.offset, "snapshot": "INITIAL"}
    agent.has_forgotten()
    assert agent.snapshots_ends is None
    del agent.offset["snapshot"]
    agent.has_forgotten()
    assert agent.snapshots_ends == {("app", "t"): End(agent.topic_end, agent.topic)}
