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

from services.writer.model.offsets import Partition
from services.writer.model.routes import Routes
from services.writer.model.targets import Target
from services.writer.park import parked_topic
from services.writer.persist import encodings
from services.writer.persist.persist import PersistResult
from services.writer.postgres.database import Database
from services.writer.replay.staged_attempts import Key, ParkedEvent, Verdict
from services.writer.replay.target_table import place
from services.writer.settle import event_log, ledger
from services.writer.settle.holds import Holds
from services.writer.settle.pause_policy import PausePolicy
from services.writer.settle.settlement import Settlement, SettlementContext
from shared import wire
from shared.errors import UserError
from shared.outcomes import Outcome
from shared.steps import Step

LANDED: Final = "landed"
DUPLICATE: Final = "duplicate"
PARKED: Final = "parked"
#: It belongs to another database: there the same attempt lands.
SORTED: Final = "sorted"
#: The outcomes of a live event, and what those of a replay are counted as.
_COUNTED: Final = {Outcome.LANDED: Outcome.REPLAYED, Outcome.DUPLICATE: Outcome.REPLAYED_DUPLICATE}


#: A verdict on all rows of a table, or None: they are tried.
Judge = Callable[[Target], Verdict | None]


def land(
    conn: connection,
    database: Database,
    events: Sequence[ParkedEvent],
    routes: Routes,
    *,
    judge: Judge = lambda _: None,
    said: list[event_log.Piece] | None = None,
) -> dict[Key, Verdict]:
    """Land `events`, which are in the order of their keys, and count them.

    Those of a table on which `judge` has a verdict get it, and are not tried.  `said` gets what the log says
    of them once they are committed.  Raises as `Settlement.land` does when a table takes no rows now.
    """
    verdicts: dict[Key, Verdict] = {}
    for _, incarnation in groupby(events, key=lambda e: e.topic_id):
        verdicts |= _land(conn, database, list(incarnation), routes, judge=judge, said=said)
    return verdicts


def _land(
    conn: connection,
    database: Database,
    events: Sequence[ParkedEvent],
    routes: Routes,
    *,
    judge: Judge,
    said: list[event_log.Piece] | None,
) -> dict[Key, Verdict]:
    """Land `events` of one topic generation: the generations of a topic have the same offsets."""
    topic_id = events[0].topic_id
    placed = place(conn, database.name, events, routes)
    verdicts = {
        Key(topic_id, r.partition.number, r.offset, r.destination): parked_again(
            r.error, r.partition, r.offset, r.destination
        )
        for r in placed.rejected
    }
    for database_name, offsets in placed.elsewhere.items():
        sorted_ = Verdict(SORTED, orjson.dumps({"database": database_name}))
        verdicts |= {Key(topic_id, p.number, offset, of): sorted_ for p, offset, of in offsets}
    rejected = [(r.partition, r.offset, r.id, r.error) for r in placed.rejected]
    pieces: list[event_log.Piece] = [event_log.Parked(rejected, step=Step.REPLAY)]
    settlement = _Replaying(_context(conn, database, events))
    for (target, destination), batches in sorted(placed.rows.items(), key=lambda item: item[0]):
        rows = pa.Table.from_batches(batches)
        found = encodings.spelled(conn, target)
        if verdict := judge(found):
            verdicts |= dict.fromkeys(_keys(topic_id, destination, rows), verdict)
        else:
            result = settlement.replay(found, rows, destination)
            to = str(found) if wire.is_refused(destination) else None
            verdicts |= dict(_verdicts(topic_id, destination, rows, result, to))
            pieces.append(event_log.Settled(target, rows, result, step=Step.REPLAY))
    settlement.flush()
    if said is not None:
        said.extend(pieces)
    return verdicts


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
    raise LookupError(f"{partition}: nothing of {offsets} is parked or let wait by a replay")


def _keys(topic_id: str, destination: str, rows: pa.Table) -> Iterator[Key]:
    for receipt in rows.select(["_partition", "_offset"]).to_pylist():
        yield Key(topic_id, receipt["_partition"], receipt["_offset"], destination)


def _verdicts(
    topic_id: str, destination: str, rows: pa.Table, result: PersistResult, to: str | None
) -> Iterator[tuple[Key, Verdict]]:
    """Yield what became of each of `rows`."""
    errors = {p.row_index: p.error for p in result.parked}
    landed, duplicate = Verdict(LANDED, to=to), Verdict(DUPLICATE, to=to)
    columns = (rows.column(name).to_pylist() for name in ("_topic", "_partition", "_offset"))
    for i, (topic, number, offset) in enumerate(zip(*columns, strict=True)):
        if i in errors:
            verdict = parked_again(errors[i], Partition(topic, number), offset, destination)
        else:
            verdict = landed if result.mask[i] else duplicate
        yield Key(topic_id, number, offset, destination), verdict


def parked_again(error: UserError, partition: Partition, offset: int, destination: str) -> Verdict:
    """Return the outcome of an event that fails again."""
    return Verdict(PARKED, parked_topic.reason(error, partition, offset, destination))
