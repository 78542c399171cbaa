"""The outcomes of one transaction in one database: each (event, table) gets exactly one.

Rows land, are duplicates, are parked, or wait behind a hold.  `flush` records the outcomes in the same
transaction (the model's rules `held_in_ledger` and `pause_kept`).
"""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2.extensions import connection

from services.writer.changes.append import append, notify
from services.writer.model import commit_delays
from services.writer.model.targets import Target
from services.writer.model.timings import StepTimings
from services.writer.park import outbox
from services.writer.persist import encodings, small_tables, typed_table
from services.writer.persist.copy import by_partition as by_origin
from services.writer.persist.persist import (
    PersistResult,
    all_parked,
    landed_already,
    make_constraints_immediate,
    persist,
    persist_apart,
)
from services.writer.postgres.database import Database
from services.writer.postgres.error_faults import is_a_functions_own, translate
from services.writer.postgres.sqlstates import Verdict, is_of_one_table, may_be_of_one_row, verdict
from services.writer.settle import event_log, holds, ledger, waiting_table
from services.writer.settle.event_type_pauses import ParkRate, PausePolicy
from services.writer.settle.holds import (
    KIND_TYPE,
    STATE_PAUSED,
    STATE_WATCHED,
    Hold,
    Holds,
    by_type,
)
from services.writer.settle.parked_rows import by_partition, parked_records
from services.writer.settle.retry_reasons import (
    BlockedError,
    SerializationConflictError,
    UnforeseenError,
)
from shared import change_table, wire
from shared.errors import NOT_CONFIGURED, PAUSED, InfrastructureError, OnrampError, UserError
from shared.kafka_read.offsets import Partition
from shared.outcomes import Outcome
from shared.path_steps import Step

log = logging.getLogger(__name__)

#: The records of one partition at some offsets, as they arrived.
Records = Callable[[Partition, list[int]], pa.Table]
_NEVER: Final = 1.0
_CHANGES: Final = f"{change_table.SCHEMA}."


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementContext:
    """The context of a settlement: its transaction, the topics' ids, and the records."""

    conn: connection
    database: Database
    topic_ids: Mapping[Partition, str]
    records: Records
    pause_policy: PausePolicy
    timings: StepTimings = field(default_factory=StepTimings)
    #: Whether single events are logged.
    keeps_log: bool = False


class Settlement:
    """The outcomes of one transaction."""

    def __init__(self, work: SettlementContext, current: Holds, one_by_one: Collection[Target] = ()) -> None:
        """`one_by_one`: tables whose rows raised an unexpected exception."""
        self._context = work
        self._one_by_one = one_by_one
        self.holds = current
        #: Rows that were sent to a table.
        self.rows: Counter[Partition] = Counter()
        self.parked: Counter[Partition] = Counter()
        self.waiting: Counter[Partition] = Counter()
        #: The events to log after the commit.
        self.settled: list[event_log.Piece] = []
        #: The times of the rows that landed, by table, from which their delays are measured.
        self.landed: list[tuple[Target, pa.Table]] = []
        #: Tables whose rows all landed together.
        self._together: frozenset[Target] = frozenset()
        #: Absent tables, each with its earlier park rate.
        self._absent: Mapping[Target, ParkRate] = {}
        #: Seconds that the rows of each partition took.
        self.seconds: dict[Partition, float] = defaultdict(float)
        self._outbox = outbox.Buffer(work.conn)
        self._checks_at_once = False
        self.tallies: Counter[ledger.Tally] = Counter()
        #: Duplicates on the probes' own topic, which the tracer reads: no probe is sent twice.
        self._of_probes: Counter[ledger.Tally] = Counter()
        self._routed: Counter[ledger.RoutedKey] = Counter()
        self._warning_counts: Counter[ledger.WarningKey] = Counter()
        self._waiting: dict[tuple[Target, Partition], dict[int, tuple[str, str]]] = defaultdict(dict)

    def land_together(self, tables: Mapping[Target, Sequence[pa.RecordBatch]]) -> None:
        """Land the rows of small tables in one step, if all pass, and find all absent tables in one step."""
        self._check_at_once()
        free = {t: p for t, p in tables.items() if t not in self._one_by_one and self.holds.lets_all(t)}
        context = self._context
        self._together = small_tables.land(context.conn, context.database, free, context.timings)
        absent = typed_table.absent(context.conn, context.database, tables)
        self._absent = holds.park_rates_before(context.conn, absent)

    def land(self, target: Target, rows: pa.Table) -> None:
        """Give each of `rows` of `target` its outcome.

        Raises `BlockedError`, `SerializationConflictError` or `UnforeseenError`: the transaction is lost.
        """
        began = time.perf_counter()
        spelled = encodings.spelled(self._context.conn, target)
        self._land(spelled, rows)
        a_row = (time.perf_counter() - began) / max(rows.num_rows, 1)
        of_partitions = by_origin(rows)
        for p, n in of_partitions.items():
            self.seconds[p] += n * a_row
        self._count_routed(spelled, of_partitions)

    def _land(self, target: Target, rows: pa.Table) -> None:
        for hold, part in self.holds.split(target, rows):
            if hold:
                self._let_wait(target, part, hold.fault.code)
                self._log(target, part)
                continue
            result = self._persist(target, part, one_by_one=target in self._one_by_one)
            if target.table != wire.PROBE_EVENT:
                self.landed.append((target, commit_delays.times_of(part, result.mask)))
            late_rows = self._apply_pause_policy(target, part, result)
            self._log(target, part, result, late_rows)
            if late_rows:
                self._let_wait(target, part.take(pa.array(late_rows, pa.int64())), PAUSED.code)
            self._park(target, part, result, set(late_rows))

    def park_unrouted(self, target: Target, rows: pa.Table, error: UserError) -> None:
        """Park `rows`, which were routed to `target` when they were diverted and are not any more."""
        self.park(target, rows, error)
        self._count_routed(encodings.spelled(self._context.conn, target), by_origin(rows))

    def release(self, target: Target, rows: pa.Table) -> None:
        """Land or park `rows` that waited for `target`; the pause policy does not count them."""
        result = self._persist(target, rows, one_by_one=True)
        self._log(target, rows, result)
        self._park(target, rows, result, set())
        self._count_outcome(target, Outcome.WAITING, Counter({p: -n for p, n in result.rows.items()}))

    def park(self, target: Target, rows: pa.Table, error: UserError) -> PersistResult:
        """Park `rows` without trying to land them; `rows` need only the columns of their origins."""
        result = all_parked(rows, error)
        self._park(encodings.spelled(self._context.conn, target), rows, result, set())
        if self._context.keeps_log:
            ids = rows.column("_id").to_pylist() if "_id" in rows.column_names else [None] * rows.num_rows
            parked = [(p.partition, p.offset, ids[p.row_index], p.error) for p in result.parked]
            self.settled.append(event_log.Parked(parked, step=error.step, target=target))
        return result

    def park_all(self, target: Target, rows: pa.Table, error: UserError) -> None:
        """Park all of `rows`, which waited for `target`, without trying to land them."""
        result = self.park(target, rows, error)
        self._count_outcome(target, Outcome.WAITING, Counter({p: -n for p, n in result.rows.items()}))

    def flush(self) -> None:
        """Write parked and waiting events with their reasons, the holds, totals and warning counts."""
        self._outbox.flush()
        for (target, partition), reasons in self._waiting.items():
            place = waiting_table.WaitingTable(target.schema, target.table, target.typed)
            records = self._context.records(partition, sorted(reasons))
            waiting_table.add(self._context.conn, place, self._context.topic_ids[partition], records, reasons)
        if any(tally.destination.startswith(_CHANGES) for tally in self.tallies):
            notify(self._context.conn)
        self.holds.flush(self._context.conn)
        ledger.add_totals(self._context.conn, Counter({**self.tallies, **self._of_probes}))
        ledger.add_routed(self._context.conn, self._routed)
        ledger.add_warnings(self._context.conn, self._warning_counts)

    def _check_at_once(self) -> None:
        if not self._checks_at_once:
            make_constraints_immediate(self._context.conn)
            self._checks_at_once = True

    def _persist(self, target: Target, rows: pa.Table, *, one_by_one: bool) -> PersistResult:
        conn = self._context.conn
        self._check_at_once()
        try:
            if target in self._together:
                result = landed_already(target, rows)
            elif target in self._absent:
                result = typed_table.all_absent(self._context.database, target, rows)
            else:
                with self._timed(target, rows):
                    result = (persist_apart if one_by_one else persist)(
                        conn, self._context.database, target, rows, append if target.holds_changes else None
                    )
        except psycopg2.Error as e:
            own = is_a_functions_own(e)
            blocked = BlockedError(target, e.pgcode, suspicious=own or may_be_of_one_row(e.pgcode))
            if verdict(e.pgcode) is Verdict.RETRY:
                translated = translate(e, self._context.database)
                raise SerializationConflictError(translated.fault, translated.detail, blocked) from None
            if not conn.closed and (own or is_of_one_table(e.pgcode)):
                raise blocked from None
            raise
        except InfrastructureError as e:  # its table could not be created, or its schema is not open
            raise BlockedError(target, e.fault.code if e.fault is NOT_CONFIGURED else None) from None
        except (OnrampError, MemoryError):
            raise
        except Exception as e:
            if not one_by_one:
                raise UnforeseenError(target) from e
            log.exception("a table takes no rows because of an unexpected error")
            raise BlockedError(target, None) from None
        self.rows += result.rows
        self._count_outcome(target, Outcome.LANDED, result.landed)
        self._count_outcome(target, Outcome.DUPLICATE, result.duplicates())
        self._count_warnings(target, result)
        return result

    def _timed(self, target: Target, rows: pa.Table) -> AbstractContextManager[None]:
        topics = set(pc.unique(rows.column("_topic")).to_pylist())
        return self._context.timings.timed(
            Step.PERSIST, topics, rows.num_rows, database=target.database, table=str(target)
        )

    def _log(
        self,
        target: Target,
        rows: pa.Table,
        result: PersistResult | None = None,
        late_rows: Sequence[int] = (),
    ) -> None:
        if self._context.keeps_log:
            self.settled.append(event_log.Settled(target, rows, result, late_rows))

    def _count_warnings(self, target: Target, result: PersistResult) -> None:
        """Count warnings about `target` for one of its partitions, because a task has all of them."""
        first = min(result.rows)
        topic_id = self._context.topic_ids[first]
        counts = {"unkeyed": result.unkeyed, "discarded_fields": result.discarded_fields}
        for warning, n in counts.items():
            if n:
                self._warning_counts[ledger.WarningKey(topic_id, first, str(target), warning)] += n

    def _apply_pause_policy(self, target: Target, rows: pa.Table, result: PersistResult) -> list[int]:
        """Return the indexes of parked rows that wait instead, because their type paused before them."""
        policy = self._context.pause_policy
        if policy.share >= _NEVER or not (result.parked or self.holds.types):
            return []
        is_parked = np.zeros(rows.num_rows, dtype=bool)
        is_parked[[p.row_index for p in result.parked]] = True
        late_rows: list[int] = []
        for name, of_type in by_type(target, rows).items():
            watched = self.holds.types.get(name)
            if watched is None and not is_parked[of_type].any():
                continue
            known = watched.park_rate if watched else self._absent.get(target)
            park_rate = known or holds.park_rate_before(self._context.conn, target)
            paused_at = park_rate.paused_after(is_parked[of_type], policy)
            if paused_at is None:
                updated = park_rate.after(is_parked[of_type], policy)
                invented = not park_rate.events and result.finds_no_table and name == str(target)
                if watched and not updated.parked:
                    self.holds.unwatch(name)
                elif updated.parked and not invented:  # producers can invent unlimited table names
                    self.holds.put(Hold(KIND_TYPE, name, STATE_WATCHED, park_rate=updated))
                continue
            self.holds.put(Hold(KIND_TYPE, name, STATE_PAUSED, park_rate=ParkRate()))
            row_indexes = np.flatnonzero(of_type)
            late_rows += [int(i) for i in row_indexes[paused_at + 1 :] if is_parked[i]]
        return sorted(late_rows)

    def _let_wait(self, target: Target, rows: pa.Table, code: str) -> None:
        if not rows.num_rows:
            return
        identities = rows.select(["_topic", "_partition", "_offset", "_event_name"]).to_pylist()
        counts: Counter[Partition] = Counter()
        for identity in identities:
            partition = Partition(identity["_topic"], identity["_partition"])
            counts[partition] += 1
            of_type = (identity["_event_name"] or str(target)) if target.typed else target.table
            self._waiting[target, partition][identity["_offset"]] = (of_type, code)
        self.waiting += counts
        self._count_outcome(target, Outcome.WAITING, counts)

    def _park(self, target: Target, rows: pa.Table, result: PersistResult, late_rows: set[int]) -> None:
        counts: Counter[Partition] = Counter()
        for partition, parked in by_partition(result, late_rows).items():
            records = self._context.records(partition, [event.offset for event in parked])
            topic_id = self._context.topic_ids[partition]
            for record in parked_records(target, topic_id, records, parked, rows):
                self._outbox.add(topic_id, record)
            counts[partition] = len(parked)
        self.parked += counts
        self._count_outcome(target, Outcome.PARKED, counts)

    def _count_routed(self, target: Target, events: Mapping[Partition, int]) -> None:
        """Count events before their outcomes are counted, so that a missing outcome is a difference."""
        if target.table == wire.PROBE_EVENT:
            return
        for p, n in events.items():
            self._routed[ledger.RoutedKey(self._context.topic_ids[p], p, str(target))] += n

    def _count_outcome(self, target: Target, outcome: Outcome, events: Mapping[Partition, int]) -> None:
        tallies = self.tallies
        if target.table == wire.PROBE_EVENT:
            if outcome is not Outcome.DUPLICATE:  # probes are excluded from all counts but this one
                return
            topic = wire.topic_of(wire.PROBE_EVENT)
            tallies, events = self._of_probes, {p: n for p, n in events.items() if p.topic == topic}
        for p, n in events.items():
            tallies[ledger.Tally(self._context.topic_ids[p], p, str(target), outcome)] += n
