"""When a source's tables are asked for again: not before somebody listens, and not twice of the same one."""

from dataclasses import replace
from typing import Any, Final

from services.elt.agent.kept_sql import Kept
from services.elt.agent.rereads import Rereads
from services.elt.agent.seen import Reread, RowsStamp, Seen, Table
from services.elt.health.slot import Slot

_TABLE: Final = Table(oid=1, schema="app", name="t", columns=(), rows_stamp=RowsStamp(oid=1, columns={}))


class Agent:
    """All that is around it, as it says it is: offsets, a slot's reader, what is kept, what landed."""

    def __init__(self) -> None:
        self.kept = Kept(tables={"app.t": _TABLE.rows_stamp}, rereads={"app.t": Reread(why="another type")})
        self.slot = Slot(active=True, wal_status="reserved", retained_bytes=0, confirmed_lsn="0/1", pid=1)
        self.tables_lsn = "0/1"
        self.offset: dict[str, Any] = {"lsn": 1}
        self.asked: list[list[str]] = []
        self.has_landed = False
        self._rereads = Rereads(
            "shop",
            kept=self,  # type: ignore[arg-type]
            connect=self,  # type: ignore[arg-type]
            topics=self,  # type: ignore[arg-type]
            has_rows=lambda _: True,
        )

    def look(self, *, moves: bool = True) -> int:
        """Return how often somebody was asked until now."""
        seen = Seen(lsn="0/1", tables_lsn=self.tables_lsn, tables=(_TABLE,), slot=self.slot)
        self._rereads.look(seen, self.kept)
        self.offset = {**self.offset, "lsn": self.offset["lsn"] + moves}
        return len(self.asked)

    def begins_anew(self, reader: int) -> None:
        self.slot = replace(self.slot, pid=reader)

    def offsets(self, _: str) -> list[Any]:
        return [{"offset": self.offset}]

    def keep_tables(self, tables: Any, rereads: Any) -> None:
        self.kept = Kept(tables=tables, rereads=rereads)

    def has_snapshots_end(self, _: Any, start: int) -> tuple[bool, int]:
        return self.has_landed, start

    def ends(self, _: str, tables: Any) -> dict[Any, int]:
        return dict.fromkeys(tables, 7)

    def read_again(self, _: str, tables: Any) -> None:
        self.asked.append(list(tables))


def test_nobody_is_asked_before_the_connector_moves() -> None:
    agent = Agent()
    assert [agent.look(moves=False) for _ in range(3)] == [0, 0, 0]
    agent.look()
    assert agent.look() == 1
    assert agent.kept.rereads == {"app.t": Reread(why="another type", is_asked=True, reader=1, start=7)}


def test_nobody_is_asked_before_kafka_has_what_was_changed_before() -> None:
    agent = Agent()
    agent.kept = Kept(tables={"app.t": RowsStamp(oid=0, columns={})}, rereads={})
    agent.tables_lsn = "0/10"
    assert [agent.look() for _ in range(3)] == [0, 0, 0]
    assert agent.kept.rereads == {"app.t": Reread(why="it is new here and has rows", after=16)}
    # The log grows: it is for what was seen then that is waited.
    agent.tables_lsn = "0/99"
    agent.slot = replace(agent.slot, confirmed_lsn="0/F")
    assert agent.look() == 0
    agent.slot = replace(agent.slot, confirmed_lsn="0/10")
    assert [agent.look() for _ in range(2)] == [0, 1]
    assert agent.kept.rereads["app.t"].is_asked


def test_who_reads_the_slot_is_asked_once_and_who_comes_after_it_again() -> None:
    agent = Agent()
    assert [agent.look() for _ in range(4)] == [0, 1, 1, 1]
    agent.begins_anew(2)
    assert agent.look(moves=False) == 1
    # It looked for its place in the log: another process reads now.
    agent.begins_anew(3)
    assert [agent.look() for _ in range(4)] == [1, 2, 2, 2]


def test_what_has_landed_is_done_and_asked_for_by_nobody() -> None:
    agent = Agent()
    assert [agent.look() for _ in range(2)] == [0, 1]
    agent.has_landed = True
    agent.look()
    assert agent.kept.rereads == {}
    agent.begins_anew(2)
    assert [agent.look() for _ in range(3)] == [1, 1, 1]


def test_amid_a_snapshot_no_other_is_asked_for() -> None:
    agent = Agent()
    agent.offset["snapshot"] = "INITIAL"
    assert [agent.look() for _ in range(3)] == [0, 0, 0]
    # What an offset says of one that was cut off stays until another is done.
    agent.offset["snapshot"] = "BLOCKING"
    assert agent.look() == 1
    agent.kept = Kept(
        tables=agent.kept.tables,
        rereads={**agent.kept.rereads, "app.t": replace(agent.kept.rereads["app.t"], is_asked=False)},
    )
    assert [agent.look() for _ in range(3)] == [1, 1, 1]
    del agent.offset["snapshot"]
    assert agent.look() == 2
