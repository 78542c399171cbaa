"""Parked events that landed later by a replay, as recorded in `onramp.replayed` with the row.

Such an event remains counted as parked, although it has a row.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from services.ops.audit.audit_data import AuditData, DatabaseData
from services.ops.findings import Code, Finding, Generation, Replayed, Source, Table
from services.ops.fixes import exact, payloads
from services.ops.fixes.payloads import Edited
from services.ops.fixes.steps import Fix
from services.ops.parked.parked_events import Place
from services.ops.parked_store_sql import EditOf, ParkedStore
from services.ops.totals_sql import Row, Snapshot
from shared import wire
from shared.errors import UserError

_OUTCOMES: Final = {"landed": "replayed", "duplicate": "replayed_duplicate"}


class ReplayedEvents:
    """The replayed events of one generation of a partition, in one database."""

    def __init__(self, snapshot: Snapshot, data: DatabaseData, generation: Generation) -> None:
        name = snapshot.database
        self._parked_for = {(r.offset, r.destination): r for r in data.replayed.get(generation, ())}
        landed = [r for r in self._parked_for.values() if r.to and r.outcome == "landed"]
        self._landed_in = {(r.offset, f"{name}.{r.to}"): r for r in landed}
        self._of_refused: dict[int, list[Table]] = defaultdict(list)
        for r in landed:
            table = Table(name, *str(r.to).split(".", 1))
            if wire.is_refused(r.destination) and snapshot.exists(table):
                self._of_refused[r.offset].append(table)

    def of(self, offset: int, table: Table) -> Replayed | None:
        """Return the replay of the event that was parked for `table`."""
        return self._parked_for.get((offset, str(table)))

    def tables_of_refused(self, offset: int) -> list[Table]:
        """Return the tables with receipts that have a refused event."""
        return self._of_refused.get(offset, [])

    def landed_in(self, offset: int, table: Table) -> Replayed | None:
        """Return the replay by which the event landed in `table` instead of its own table."""
        return self._landed_in.get((offset, str(table)))


class Edits:
    """Edited payloads of replays: by the job's fix, applied again, or as uploaded."""

    def __init__(self, store: ParkedStore | None) -> None:
        self._store = store
        self._edits: dict[str, EditOf | None] = {}
        self._fixes: dict[str, Fix] = {}

    def edited(self, value: bytes | None, replayed: Replayed, of: Generation) -> bytes | None:
        """Return the bytes that landed, or None if they are unknown."""
        if value is None or replayed.job is None or self._store is None:
            return None
        try:
            edited = self._edited(self._store, replayed.job, value, _place(of, replayed))
        except UserError:
            return None
        return edited.value if edited is not None and edited.sha256 == replayed.sha256 else None

    def _edited(self, store: ParkedStore, job: str, value: bytes, place: Place) -> Edited | None:
        if job not in self._edits:
            self._edits[job] = edit = store.edit_of(job)
            if edit is not None and edit.fix is not None:
                self._fixes[job] = Fix(exact.loads(edit.fix.encode()))
        edit = self._edits[job]
        if edit is not None and edit.by_hand:
            payload = store.payload_of(job, place)
            return None if payload is None else payloads.edited(value, payload)
        return payloads.fixed(value, self._fixes[job]) if job in self._fixes else None


def _place(of: Generation, replayed: Replayed) -> Place:
    return Place(of.topic_id, *of.source, replayed.offset, replayed.destination)


def check_replayed(data: AuditData, generation: Generation) -> Iterator[Finding]:
    """Compare the totals of replays with `onramp.replayed`: both change in one transaction."""
    for name, database in data.databases.items():
        said = Counter(_OUTCOMES[r.outcome] for r in database.replayed.get(generation, ()))
        counted: Counter[str] = Counter()
        for (_, outcome), n in database.counted(generation).items():
            counted[outcome] += n
        for outcome in _OUTCOMES.values():
            if counted[outcome] != said[outcome]:
                text = f"{name} counts {counted[outcome]} {outcome}, onramp.replayed has {said[outcome]}"
                yield Finding(Code.WRONG_TOTAL, generation.source, None, text)


def redirected(name: str, replayed: Mapping[Generation, list[Replayed]]) -> Counter[tuple[str, Source]]:
    """Return by table (schema.table) and source the surplus of rows over totals, which may be negative.

    Refused events are counted under the table that they landed in.
    """
    moved: Counter[tuple[str, Source]] = Counter()
    for generation, events in replayed.items():
        for r in events:
            if r.to and r.outcome == "landed" and not wire.is_refused(r.destination):
                moved[r.destination.removeprefix(f"{name}."), generation.source] -= 1
                moved[r.to, generation.source] += 1
    return moved


class Wrong(NamedTuple):
    """A violation of an event."""

    code: Code
    detail: str


def wrong_rows_of_refused(
    offset: int,
    rows: Sequence[tuple[int, Table, Row]],
    replayed: Mapping[str, ReplayedEvents],
    is_same: Callable[[Replayed, Table, Row], bool] | None,
) -> Iterator[Wrong]:
    """Yield violations of a refused event's rows: each must have landed by a replay.

    `is_same`: whether a row is the replayed event; None if only the database can decide.
    """
    for _, table, row in rows:
        found = replayed[table.database].landed_in(offset, table)
        if found is None:
            yield Wrong(Code.DOUBLE_TERMINAL, f"parked, and a row of {table}")
        elif is_same is not None and not is_same(found, table, row):
            yield Wrong(Code.CORRUPT, f"the row of {table} differs from the replayed event")
    there = {table for _, table, _ in rows}
    for of in replayed.values() if is_same is not None else ():
        for table in of.tables_of_refused(offset):
            if table not in there:
                yield Wrong(Code.LOST, f"replayed, and in no place of {table}")


def wrong_row(replayed: Replayed, rows: list[Row], table: Table, *, same: bool) -> Wrong | None:
    """Return the violation of a replayed event's rows in the table that it was parked for, or None.

    `same`: the rows are Kafka's event, or its edited version.
    """
    if replayed.outcome != "landed" or replayed.to:
        return Wrong(Code.DOUBLE_TERMINAL, f"parked, and a row of {table}") if rows else None
    if not rows:
        return Wrong(Code.LOST, f"replayed, and in no place of {table}")
    if same:
        return None
    what = "what Kafka holds" if replayed.sha256 is None else "what the replay's edit made of the event"
    return Wrong(Code.CORRUPT, f"the row of {table} is not {what}")
