"""Holds: the reasons for which events of a healthy database wait, a blocked table or a paused event type.

A hold and the events behind it are in the database that they wait for, and change in the ledger's
transaction, so that each event is either landed or waiting.  While a hold exists, later events queue
behind it.  A release locks a hold before it ends it, and every task that reads holds prevents their end
until it commits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2.extensions import connection
from psycopg2.extras import execute_values

from services.writer.model.targets import Target
from services.writer.persist import encodings
from services.writer.settle.event_type_pauses import ParkRate
from services.writer.settle.retry_reasons import BlockedError
from shared.errors import NOT_CONFIGURED, PAUSED, TABLE_BLOCKED, Fault

KIND_TABLE: Final = "table"
KIND_TYPE: Final = "type"
STATE_BLOCKED: Final = "blocked"
STATE_WATCHED: Final = "watched"
STATE_PAUSED: Final = "paused"
STATE_DEAD_LETTERED: Final = "dead_lettered"

_HOLDS: Final = "SELECT kind, name, state, sqlstate, timeouts, events, parked FROM onramp.holds"
_HOLDING: Final = f"{_HOLDS} WHERE state <> 'watched'"
#: A watched type has no waiting events: it is not locked, and only the transaction's own types matter.
_READ_SHARED: Final = f"""
    WITH holding AS ({_HOLDING} FOR KEY SHARE)
    SELECT * FROM holding UNION ALL {_HOLDS} WHERE state = 'watched' AND kind = 'type' AND name = ANY (%s)
"""  # noqa: S608 - our own words
_UPSERT: Final = """
    INSERT INTO onramp.holds AS h (kind, name, state, sqlstate, timeouts, events, parked) VALUES %s
    ON CONFLICT (kind, name) DO UPDATE SET
        state = CASE WHEN h.state = 'watched' THEN excluded.state ELSE h.state END,
        since = CASE WHEN h.state = 'watched' THEN now() ELSE h.since END,
        sqlstate = excluded.sqlstate, timeouts = excluded.timeouts,
        events = excluded.events, parked = excluded.parked
"""
#: Maximum number of watched types; those that changed last stay.
MAX_WATCHED: Final = 1_000
#: Rows that another transaction has locked are in use: they stay.
_DELETE_WATCHED: Final = """
    DELETE FROM onramp.holds WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM onramp.holds WHERE state = 'watched' AND kind = 'type' AND {which}
        FOR UPDATE SKIP LOCKED))
"""
_UNWATCH_NAMED: Final = _DELETE_WATCHED.format(which="name = ANY (%s)")
_TOO_MANY: Final = _DELETE_WATCHED.format(
    which="""(since, name) <= (
        SELECT since, name FROM onramp.holds WHERE state = 'watched'
        ORDER BY since DESC, name DESC OFFSET %s LIMIT 1)"""
)
_DEAD_LETTERED: Final = """
    SELECT kind, name, dead_lettered_at, dead_lettered_by, reason FROM onramp.holds
    WHERE state = 'dead_lettered' ORDER BY kind, name
"""
#: Unless an operator has dead-lettered later events meanwhile.
_RESUME: Final = """
    UPDATE onramp.holds
    SET state = CASE kind WHEN 'table' THEN 'blocked' ELSE 'resumed' END, dead_lettered_at = NULL
    WHERE state = 'dead_lettered' AND kind = %s AND name = %s AND dead_lettered_at = %s
"""
#: The landed events of a type that is not watched yet, with which its first parked events are compared.
_LANDED: Final = (
    "SELECT coalesce(sum(events), 0) FROM onramp.totals WHERE outcome = 'landed' AND destination = %s"
)


_LANDED_IN_EACH: Final = """
    SELECT destination, sum(events) FROM onramp.totals
    WHERE outcome = 'landed' AND destination = ANY (%s) GROUP BY destination
"""


@dataclass(frozen=True, slots=True)
class Hold:
    """One row of `onramp.holds`."""

    kind: str
    name: str
    state: str
    sqlstate: str | None = None
    _: KW_ONLY
    #: The number of failures in a row that one row may have caused: statement timeouts.
    timeouts: int = 0
    park_rate: ParkRate = field(default_factory=ParkRate)

    @property
    def fault(self) -> Fault:
        """Return the fault for which events wait behind the hold."""
        if self.kind == KIND_TYPE:
            return PAUSED
        return NOT_CONFIGURED if self.sqlstate == NOT_CONFIGURED.code else TABLE_BLOCKED

    def blocked_again(self, sqlstate: str | None, *, suspicious: bool) -> "Hold":
        """Return the hold after one more failure of the table; `suspicious`: one row may be at fault."""
        timeouts = self.timeouts + 1 if suspicious else 0
        # An operator's decision meanwhile stays: only a new row gets this state.
        return replace(self, state=STATE_BLOCKED, sqlstate=sqlstate, timeouts=timeouts)


class DeadLetteredHold(NamedTuple):
    """A hold whose waiting events, up to the time `at`, an operator has dead-lettered."""

    kind: str
    name: str
    at: datetime
    by: str
    reason: str


def blocked(target: Target, sqlstate: str | None, *, suspicious: bool) -> Hold:
    """Return the hold of a table that did not take rows."""
    return Hold(KIND_TABLE, str(target), STATE_BLOCKED).blocked_again(sqlstate, suspicious=suspicious)


@dataclass(slots=True)
class Holds:
    """The holds of one database, as a transaction reads and changes them."""

    tables: dict[str, Hold] = field(default_factory=dict)
    types: dict[str, Hold] = field(default_factory=dict)
    _: KW_ONLY
    _changed: dict[tuple[str, str], Hold] = field(default_factory=dict)
    _unwatched: set[str] = field(default_factory=set)
    _more_watched: bool = False

    def put(self, hold: Hold) -> None:
        """Put a new or changed `hold`, which `flush` writes."""
        self._more_watched |= hold.state == STATE_WATCHED and hold.name not in self.types
        self._unwatched.discard(hold.name)
        (self.tables if hold.kind == KIND_TABLE else self.types)[hold.name] = hold
        self._changed[hold.kind, hold.name] = hold

    def unwatch(self, name: str) -> None:
        """Stop watching a type that has had no parked events recently."""
        del self.types[name]
        self._changed.pop((KIND_TYPE, name), None)
        self._unwatched.add(name)

    def block(self, errors: Mapping[Target, BlockedError]) -> "Holds":
        """Return these holds, with those of the tables in `errors` added."""
        for target, e in errors.items():
            hold = self.tables.get(str(target))
            again = replace(hold, state=STATE_BLOCKED, sqlstate=e.sqlstate) if hold else None
            self.put(again or blocked(target, e.sqlstate, suspicious=e.suspicious))
        return self

    def paused_types(self) -> list[str]:
        """Return the types that an operator must resume, and the dead-lettered ones not parked yet."""
        return sorted(n for n, h in self.types.items() if h.state in (STATE_PAUSED, STATE_DEAD_LETTERED))

    def holding(self) -> list[Hold]:
        """Return all holds except watched types."""
        return [h for h in (*self.tables.values(), *self.types.values()) if h.state != STATE_WATCHED]

    def lets_all(self, target: Target) -> bool:
        """Return whether all rows of `target`, a landing table, may land."""
        of_type = self.types.get(target.table)
        return str(target) not in self.tables and (of_type is None or of_type.state == STATE_WATCHED)

    def split(self, target: Target, rows: pa.Table) -> list[tuple[Hold | None, pa.Table]]:
        """Return `rows` in parts: rows that may land, with None, and rows that wait, with their hold."""
        if hold := self.tables.get(str(target)):
            return [(hold, rows)]
        if all(h.state == STATE_WATCHED for h in self.types.values()):
            return [(None, rows)]
        parts: list[tuple[Hold | None, pa.Table]] = []
        free = np.ones(rows.num_rows, dtype=bool)
        for name, of_type in by_type(target, rows).items():
            hold = self.types.get(name)
            if hold and hold.state != STATE_WATCHED:
                free &= ~of_type
                parts.append((hold, rows.filter(pa.array(of_type))))
        return [(None, rows.filter(pa.array(free))), *parts] if free.any() else parts

    def flush(self, conn: connection) -> None:
        """Write the changes, in one order for all tasks; at the end, so that no other task waits long."""
        rows = [
            (h.kind, h.name, h.state, h.sqlstate, h.timeouts, h.park_rate.events, h.park_rate.parked)
            for _, h in sorted(self._changed.items())
        ]
        with conn.cursor() as cursor:
            if rows:
                execute_values(cursor, _UPSERT, rows, page_size=len(rows))
            if self._unwatched:
                cursor.execute(_UNWATCH_NAMED, (sorted(self._unwatched),))
            if self._more_watched:
                cursor.execute(_TOO_MANY, (MAX_WATCHED,))


def by_type(target: Target, rows: pa.Table) -> "dict[str, np.ndarray[Any, np.dtype[np.bool_]]]":
    """Return a mask of `rows` for each event type: the event name, or for packets the table."""
    if not target.typed:
        return {target.table: np.ones(rows.num_rows, dtype=bool)}
    names = rows.column("_event_name").to_pylist()
    return {
        str(target) if name is None else name: np.array([n == name for n in names])
        for name in dict.fromkeys(names)
    }


def types_of(target: Target, pieces: Iterable[pa.RecordBatch]) -> set[str]:
    """Return the event types of rows of `target`, as `by_type` does."""
    if not target.typed:
        return {target.table}
    names = {name for rows in pieces for name in pc.unique(rows.column("_event_name")).to_pylist()}
    return {str(target) if name is None else name for name in names}


def read_shared(conn: connection, rows: Mapping[Target, Iterable[pa.RecordBatch]]) -> Holds:
    """Return the holds, share-locked for this transaction, and the watched types among those of `rows`."""
    types = {name for t, pieces in rows.items() for name in types_of(encodings.spelled(conn, t), pieces)}
    with conn.cursor() as cursor:
        cursor.execute(_READ_SHARED, (sorted(types),))
        return _as_holds(cursor.fetchall())


def peek(conn: connection) -> Holds:
    """Return the holds of the database, without a lock."""
    with conn.cursor() as cursor:
        cursor.execute(_HOLDING)
        return _as_holds(cursor.fetchall())


def lock(conn: connection) -> Holds:
    """Return the holds of the database, locked.  Raises psycopg2's error (55P03) while a task shares them."""
    with conn.cursor() as cursor:
        cursor.execute(f"{_HOLDING} ORDER BY kind, name FOR UPDATE NOWAIT")
        return _as_holds(cursor.fetchall())


def end(conn: connection, hold: Hold) -> None:
    """Remove `hold`, which is locked."""
    with conn.cursor() as cursor:
        cursor.execute("DELETE FROM onramp.holds WHERE kind = %s AND name = %s", (hold.kind, hold.name))


def dead_lettered(conn: connection) -> list[DeadLetteredHold]:
    """Return the holds whose events an operator has dead-lettered."""
    with conn.cursor() as cursor:
        cursor.execute(_DEAD_LETTERED)
        return [DeadLetteredHold(*row) for row in cursor.fetchall()]


def resume(conn: connection, hold: DeadLetteredHold) -> None:
    """End a dead-lettering whose events are parked: a table is blocked as before, a type resumes."""
    with conn.cursor() as cursor:
        cursor.execute(_RESUME, (hold.kind, hold.name, hold.at))


def park_rates_before(conn: connection, targets: Iterable[Target]) -> dict[Target, ParkRate]:
    """Return the result of `park_rate_before` for each of `targets`, with one query."""
    by_name = {str(target): target for target in targets}
    if not by_name:
        return {}
    with conn.cursor() as cursor:
        cursor.execute(_LANDED_IN_EACH, (list(by_name),))
        landed = dict(cursor.fetchall())
    return {target: ParkRate(events=float(landed.get(name, 0))) for name, target in by_name.items()}


def park_rate_before(conn: connection, target: Target) -> ParkRate:
    """Return the park rate of a type that is not watched yet: its table's landed events, and none parked."""
    with conn.cursor() as cursor:
        cursor.execute(_LANDED, (str(target),))
        row: tuple[Any, ...] = cursor.fetchone() or (0,)
        return ParkRate(events=float(row[0]))


def _as_holds(rows: Iterable[tuple[Any, ...]]) -> Holds:
    holds = Holds()
    for kind, name, state, sqlstate, timeouts, seen, parked in rows:
        hold = Hold(kind, name, state, sqlstate, timeouts=timeouts, park_rate=ParkRate(seen, parked))
        (holds.tables if kind == KIND_TABLE else holds.types)[name] = hold
    return holds


def described(holds: Iterable[Hold]) -> list[Mapping[str, str]]:
    """Return `holds` as JSON objects for /readyz."""
    return [
        {"kind": h.kind, "name": h.name, "state": h.state, "code": h.fault.code, "sqlstate": h.sqlstate or ""}
        for h in holds
    ]
