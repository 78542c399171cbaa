"""Tables that must be read again, because their rows changed and no event says so, until they were."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from services.elt.agent import names
from services.elt.agent.connect_api import ConnectApi
from services.elt.agent.kafka_topics import ChangeTopics
from services.elt.agent.kept_sql import Kept, KeptDatabase
from services.elt.agent.seen import Reread, RowsStamp, Seen, Table
from services.elt.health.slot import Slot, lsn_number

log = logging.getLogger(__name__)

#: What a connector's offset says amid a snapshot that was asked for, and after one that was cut off.
_ASKED_FOR: Final = "BLOCKING"


class Rereads:
    """Has a source's tables read again, and asks again when whoever should do it has ended meanwhile.

    Kafka Connect takes a signal once; a worker or task that ends amid the snapshot does not go on with it.
    """

    def __init__(
        self,
        name: str,
        *,
        kept: KeptDatabase,
        connect: ConnectApi,
        topics: ChangeTopics,
        has_rows: Callable[[int], bool],
    ) -> None:
        self._name = name
        self._kept = kept
        self._connect = connect
        self._topics = topics
        self._has_rows = has_rows
        #: By table and where its snapshot began: up to where landing was searched for the end of it.
        self._searched: dict[tuple[str, int], int] = {}
        #: The slot's reader, and the connector's offsets when it was seen first.
        self._moved_from: tuple[int | None, list[Any]] | None = None

    def look(self, seen: Seen, kept: Kept) -> None:
        """Note which tables must be read again, which have been, and ask for those that must.

        Raises `KeptError`, `ConnectError`, `TopicsError`, `SourceError`.
        """
        captured = {t.full_name: t for t in seen.tables if not t.is_partition}
        captured = {name: table for name, table in captured.items() if name not in seen.left_out}
        now = {name: table.rows_stamp for name, table in captured.items()}
        if kept.tables is None:
            self._kept.keep_tables(now, {})  # the first snapshot has them all
            return
        pending = {
            name: each
            for name, each in kept.rereads.items()
            if name in captured and not (each.is_asked and self._is_done(captured[name], each.start))
        }
        if now != kept.tables:
            for name, why in rereads(kept.tables, captured.values(), self._has_rows).items():
                after = lsn_number(seen.tables_lsn)
                pending[name] = replace(pending.get(name, Reread()), why=why, after=after, is_asked=False)
        if now != kept.tables or pending != kept.rereads:
            self._kept.keep_tables(now, pending)
        if pending and seen.slot is not None and seen.slot.active:
            self._ask(seen.slot, captured, now, pending)

    def _is_done(self, table: Table, start: int) -> bool:
        """Whether the last row of a snapshot that begins at `start` or later has landed.

        It has none where the table was empty then: that one is asked for again after the next restart.
        """
        at = table.full_name, start
        landed = (self._name, table.schema, table.name)
        is_done, self._searched[at] = self._kept.has_snapshots_end(landed, self._searched.get(at, start))
        if is_done:
            del self._searched[at]
        return is_done

    def _ask(
        self,
        slot: Slot,
        captured: Mapping[str, Table],
        now: Mapping[str, RowsStamp],
        pending: Mapping[str, Reread],
    ) -> None:
        """Ask for what was not asked for, or of a reader of the slot that has ended since.

        Not before Kafka has all changes of before: they would come behind the rows that are read, and would
        have the last word although they lack what no event says.
        """
        reader = slot.pid
        wanted = {
            name: each
            for name, each in pending.items()
            if not (each.is_asked and each.reader == reader) and each.after <= slot.confirmed
        }
        is_busy = any(each.reader == reader for each in pending.values())
        if not wanted or not self._takes_signals(reader, is_busy=is_busy):
            return
        tables = {name: (captured[name].schema, captured[name].name) for name in wanted}
        ends = self._topics.ends(self._name, tables.values())
        for name, each in wanted.items():
            why = f"whoever read it has ended ({each.why})" if each.is_asked else each.why
            log.info("a table is read again", extra={"source": self._name, "table": name, "reason": why})
        self._topics.read_again(self._name, wanted)
        asked = dict(pending)
        for name, each in wanted.items():
            start = ends.get(tables[name], 0)
            asked[name] = replace(each, is_asked=True, reader=reader, start=start)
        self._kept.keep_tables(now, asked)

    def _takes_signals(self, reader: int | None, *, is_busy: bool) -> bool:
        """Whether a signal is heeded now, and nobody could take the end of another snapshot for its own.

        `is_busy`: whether this reader of the slot was asked before.
        """
        offsets = self._connect.offsets(names.connector(self._name))
        if self._moved_from is None or self._moved_from[0] != reader:
            self._moved_from = reader, offsets
        # A connector that starts looks for its place in the log, and may then read the slot by another
        # process: asked by then it would be asked twice.
        if not offsets or offsets == self._moved_from[1]:
            return False
        # The first snapshot has all rows, and a signal would come to nothing.
        snapshot = offsets[0]["offset"].get("snapshot")
        return snapshot is None or (snapshot == _ASKED_FOR and not is_busy)


def rereads(
    before: Mapping[str, RowsStamp], now: Iterable[Table], has_rows: Callable[[int], bool]
) -> dict[str, str]:
    """Return by full name why tables must be read again.

    `has_rows` says so of a table's oid: of one that is new and empty the stream has everything.
    """
    found = {table.full_name: _why(before.get(table.full_name), table, has_rows) for table in now}
    return {name: why for name, why in found.items() if why}


def _why(before: RowsStamp | None, table: Table, has_rows: Callable[[int], bool]) -> str:
    now = table.rows_stamp
    if before is None or before.oid != now.oid:
        # Renamed, moved into the schema, or filled within the moment in which it was made.
        return "it is new here and has rows" if has_rows(now.oid) else ""
    return "; ".join((*_of_columns(before, now), *_of_partitions(before, now, has_rows)))


def _of_columns(before: RowsStamp, now: RowsStamp) -> Iterator[str]:
    for number, (name, type_oid, modifier, has_default) in now.columns.items():
        old = before.columns.get(number)
        if old is None:
            if has_default:
                yield f"the new column {name} has a default"
        elif old[0] != name:
            yield f"the column {old[0]} is named {name} now"
        elif (old[1], old[2]) != (type_oid, modifier):
            yield f"the column {name} has another type"


def _of_partitions(before: RowsStamp, now: RowsStamp, has_rows: Callable[[int], bool]) -> Iterator[str]:
    if set(before.partitions) - set(now.partitions):
        yield "a partition was detached or dropped"
    elif any(has_rows(oid) for oid in set(now.partitions) - set(before.partitions)):
        yield "a partition with rows was attached"
