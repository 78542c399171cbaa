"""Lands replayed events in the caller's transaction, with the code for live ones: each gets one outcome.

The count `parked` never falls: landed events are counted as `replayed` in addition (the model's rule
`parked_kept`), and events that fail again are not counted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import orjson
import pyarrow as pa
from psycopg2.extensions import connection

from services.writer.model.routes import Routes
from services.writer.model.targets import Target
from services.writer.park import parked_topic
from services.writer.persist import encodings
from services.writer.persist.persist import PersistResult
from services.writer.postgres.database import Database
from services.writer.replay.staged_attempts import AttemptOutcome, Key, ParkedEvent
from services.writer.replay.target_table import place
from services.writer.settle import event_log, ledger
from services.writer.settle.event_type_pauses import PausePolicy
from services.writer.settle.holds import Holds
from services.writer.settle.settlement import Settlement, SettlementContext
from shared import wire
from shared.errors import UserError
from shared.kafka_read.offsets import Partition
from shared.outcomes import Outcome
from shared.path_steps import Step

LANDED: Final = "landed"
DUPLICATE: Final = "duplicate"
PARKED: Final = "parked"
#: The event belongs to another database, in which the same attempt lands.
SORTED: Final = "sorted"
#: The outcomes of a live event, and those under which a replay is counted.
_COUNTED: Final = {Outcome.LANDED: Outcome.REPLAYED, Outcome.DUPLICATE: Outcome.REPLAYED_DUPLICATE}


#: Returns the outcome of all rows of a table, or None to try them.
Precheck = Callable[[Target], AttemptOutcome | None]


def land(
    conn: connection,
    database: Database,
    events: Sequence[ParkedEvent],
    routes: Routes,
    *,
    precheck: Precheck = lambda _: None,
    logged: list[event_log.Piece] | None = None,
) -> dict[Key, AttemptOutcome]:
    """Land `events`, which are in the order of their keys, and count them.

    If `precheck` returns an outcome for a table, its events get that outcome, and are not tried.  `logged`
    receives the events to log after the commit.  Raises as `Settlement.land` does when a table takes no rows.
    """
    outcomes: dict[Key, AttemptOutcome] = {}
    for _, generation in groupby(events, key=lambda e: e.topic_id):
        outcomes |= _land(conn, database, list(generation), routes, precheck=precheck, logged=logged)
    return outcomes


def _land(
    conn: connection,
    database: Database,
    events: Sequence[ParkedEvent],
    routes: Routes,
    *,
    precheck: Precheck,
    logged: list[event_log.Piece] | None,
) -> dict[Key, AttemptOutcome]:
    """Land `events` of one topic generation: the generations of a topic have the same offsets."""
    topic_id = events[0].topic_id
    placed = place(conn, database.name, events, routes)
    outcomes = {
        Key(topic_id, r.partition.number, r.offset, r.destination): parked_again(
            r.error, r.partition, r.offset, r.destination
        )
        for r in placed.rejected
    }
    for database_name, offsets in placed.elsewhere.items():
        sorted_ = AttemptOutcome(SORTED, orjson.dumps({"database": database_name}))
        outcomes |= {Key(topic_id, p.number, offset, of): sorted_ for p, offset, of in offsets}
    rejected = [(r.partition, r.offset, r.id, r.error) for r in placed.rejected]
    pieces: list[event_log.Piece] = [event_log.Parked(rejected, step=Step.REPLAY)]
    settlement = _Replaying(_context(conn, database, events))
    for (target, destination), batches in sorted(placed.rows.items(), key=lambda item: item[0]):
        rows = pa.Table.from_batches(batches)
        spelled = encodings.spelled(conn, target)
        if outcome := precheck(spelled):
            outcomes |= dict.fromkeys(_keys(topic_id, destination, rows), outcome)
        else:
            result = settlement.replay(spelled, rows, destination)
            to = str(spelled) if wire.is_refused(destination) else None
            outcomes |= dict(_outcomes(topic_id, destination, rows, result, to))
            pieces.append(event_log.Settled(target, rows, result, step=Step.REPLAY))
    settlement.flush()
    if logged is not None:
        logged.extend(pieces)
    return outcomes


class _Replaying(Settlement):
    """A settlement of parked events, counted in addition to `parked` for their original table."""

    def __init__(self, work: SettlementContext) -> None:
        super().__init__(work, Holds())
        self._parked_for = ""

    def replay(self, target: Target, rows: pa.Table, destination: str) -> PersistResult:
        """Land `rows`, which were parked for `destination`; refused events count for their new table."""
        refused = wire.is_refused(destination)
        self._parked_for = str(target) if refused else destination.removeprefix(f"{target.database}.")
        return self._persist(target, rows, one_by_one=True)

    def _count_outcome(self, _: Target, outcome: Outcome, events: Mapping[Partition, int]) -> None:
        for p, n in events.items():
            tally = ledger.Tally(self._context.topic_ids[p], p, self._parked_for, _COUNTED[outcome])
            self.tallies[tally] += n


def _context(conn: connection, database: Database, events: Sequence[ParkedEvent]) -> SettlementContext:
    return SettlementContext(
        conn=conn,
        database=database,
        topic_ids={e.partition: e.topic_id for e in events},
        records=_no_records,
        pause_policy=PausePolicy(),
    )


def _no_records(partition: Partition, offsets: list[int]) -> pa.Table:
    raise LookupError(f"{partition}: a replay neither parks events nor lets them wait: {offsets}")


def _keys(topic_id: str, destination: str, rows: pa.Table) -> Iterator[Key]:
    for receipt in rows.select(["_partition", "_offset"]).to_pylist():
        yield Key(topic_id, receipt["_partition"], receipt["_offset"], destination)


def _outcomes(
    topic_id: str, destination: str, rows: pa.Table, result: PersistResult, to: str | None
) -> Iterator[tuple[Key, AttemptOutcome]]:
    """Yield the outcome of each of `rows`."""
    errors = {p.row_index: p.error for p in result.parked}
    landed, duplicate = AttemptOutcome(LANDED, to=to), AttemptOutcome(DUPLICATE, to=to)
    columns = (rows.column(name).to_pylist() for name in ("_topic", "_partition", "_offset"))
    for i, (topic, number, offset) in enumerate(zip(*columns, strict=True)):
        if i in errors:
            outcome = parked_again(errors[i], Partition(topic, number), offset, destination)
        else:
            outcome = landed if result.mask[i] else duplicate
        yield Key(topic_id, number, offset, destination), outcome


def parked_again(error: UserError, partition: Partition, offset: int, destination: str) -> AttemptOutcome:
    """Return the outcome of an event that fails again."""
    return AttemptOutcome(PARKED, parked_topic.reason(error, partition, offset, destination))
