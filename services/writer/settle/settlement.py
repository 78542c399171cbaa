"""What one transaction decides in one database: each (event, table) gets exactly one outcome.

Rows land, are duplicates, are parked, or wait behind a hold; everything that says so is
written by `keep`, in the transaction that makes it true.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2.extensions import connection

from services.writer.model.offsets import Partition
from services.writer.model.targets import Target
from services.writer.model.timings import StepTimings
from services.writer.park import outbox, parked_topic
from services.writer.park.parked_topic import ParkedRecord
from services.writer.persist import encodings
from services.writer.persist.persist import (
    Parked,
    PersistResult,
    all_parked,
    make_constraints_immediate,
    persist,
    persist_apart,
)
from services.writer.postgres.database import Database, is_a_functions_own, translate
from services.writer.postgres.sqlstates import Verdict, is_of_one_table, may_be_of_one_row, verdict
from services.writer.settle import event_log, holds, ledger, waiting_table
from services.writer.settle.holds import STOPPED, TYPE, WATCHED, Hold, Holds, by_type
from services.writer.settle.pause_policy import PausePolicy, Share
from shared import wire
from shared.errors import PAUSED, UNKNOWN_TABLE, Fault, InfrastructureError, OnrampError, UserError
from shared.outcomes import Outcome
from shared.steps import Step

log = logging.getLogger(__name__)

#: The records of one partition at some offsets, as they arrived.
Records = Callable[[Partition, list[int]], pa.Table]
_NEVER: Final = 1.0


class BlockedError(Exception):
    """A table takes no rows now: the transaction is begun again, and they wait.

    `suspicious`: perhaps it would take some of them.
    """

    def __init__(self, target: Target, sqlstate: str | None, *, suspicious: bool = False) -> None:
        super().__init__(f"{target}: {sqlstate}")
        self.target = target
        self.sqlstate = sqlstate
        self.suspicious = suspicious


class UnforeseenError(Exception):
    """The rows of `target` met an exception that nobody foresaw: begun again, they go apart."""

    def __init__(self, target: Target) -> None:
        super().__init__(str(target))
        self.target = target


class SerializationConflictError(InfrastructureError):
    """A deadlock or a serialisation failure: the transaction is begun again.

    `blocked`: what it is if it is lost again and again.
    """

    def __init__(self, fault: Fault, detail: str, blocked: BlockedError) -> None:
        super().__init__(fault, detail)
        self.blocked = blocked


@dataclass(frozen=True, slots=True)
class Work:
    """What a settlement works on: a transaction, the topics' ids, and where records are found."""

    conn: connection
    database: Database
    topic_ids: Mapping[Partition, str]
    records: Records
    pause_policy: PausePolicy
    stopwatch: StepTimings = field(default_factory=StepTimings)
    log_events: bool = False


class Settlement:
    """The outcomes of one transaction."""

    def __init__(self, work: Work, held: Holds, apart: Collection[Target] = ()) -> None:
        """`apart`: tables whose rows met an exception that nobody foresaw."""
        self._work = work
        self._apart = apart
        self.holds = held
        #: Rows that a table was asked to take.
        self.rows: Counter[Partition] = Counter()
        self.parked: Counter[Partition] = Counter()
        self.waiting: Counter[Partition] = Counter()
        #: What to log of each event once this is committed, if the operator asks for it.
        self.said: list[event_log.Entry] = []
        self._checks_at_once = False
        self._tallies: Counter[ledger.Tally] = Counter()
        self._remarks: Counter[ledger.Remark] = Counter()
        self._waiting: dict[tuple[Target, Partition], dict[int, tuple[str, str]]] = defaultdict(dict)

    def land(self, target: Target, rows: pa.Table) -> None:
        """Decide about `rows`, which go to `target`.

        Raises `BlockedError`, `SerializationConflictError` or `UnforeseenError`: the transaction is lost.
        """
        target = encodings.spelled(self._work.conn, target)
        for hold, part in self.holds.split(target, rows):
            if hold:
                self._wait(target, part, hold.fault.code)
                self._say(target, part, None)
                continue
            done = self._persist(target, part, apart=target in self._apart)
            self._count(target, Outcome.LANDED, done.landed)
            self._count(target, Outcome.DUPLICATE, done.duplicates())
            late = self._judge(target, part, done)
            self._say(target, part, done, late)
            self._wait(target, part.take(pa.array(late, pa.int64())), PAUSED.code)
            self._park(target, done, set(late))

    def release(self, target: Target, rows: pa.Table) -> None:
        """Decide about `rows` that waited for `target`; nobody judges their type by them."""
        done = self._persist(target, rows, apart=True)
        self._count(target, Outcome.LANDED, done.landed)
        self._count(target, Outcome.DUPLICATE, done.duplicates())
        self._park(target, done, set())
        self._count(target, Outcome.WAITING, Counter({p: -n for p, n in done.rows.items()}))

    def park(self, target: Target, rows: pa.Table, error: UserError) -> PersistResult:
        """Park `rows`, of which only their places are asked, without a try to land them in `target`."""
        done = all_parked(rows, error)
        self._park(encodings.spelled(self._work.conn, target), done, set())
        if self._work.log_events:
            self.said += [event_log.refused(p.partition, p.offset, p.error) for p in done.parked]
        return done

    def park_all(self, target: Target, rows: pa.Table, error: UserError) -> None:
        """Park `rows` that waited for `target`."""
        done = self.park(target, rows, error)
        self._count(target, Outcome.WAITING, Counter({p: -n for p, n in done.rows.items()}))

    def keep(self) -> None:
        """Write who waits and why, and the totals."""
        for (target, partition), reasons in self._waiting.items():
            place = waiting_table.Place(target.schema, target.table, target.typed)
            records = self._work.records(partition, sorted(reasons))
            waiting_table.add(self._work.conn, place, self._work.topic_ids[partition], records, reasons)
        self.holds.keep(self._work.conn)
        ledger.count(self._work.conn, self._tallies)
        ledger.remark(self._work.conn, self._remarks)

    def _persist(self, target: Target, rows: pa.Table, *, apart: bool) -> PersistResult:
        conn = self._work.conn
        if not self._checks_at_once:
            make_constraints_immediate(conn)
            self._checks_at_once = True
        topics = set(pc.unique(rows.column("_topic")).to_pylist())
        timed = self._work.stopwatch.timed(
            Step.PERSIST, topics, rows.num_rows, database=target.database, table=str(target)
        )
        try:
            with timed:
                done = (persist_apart if apart else persist)(conn, self._work.database, target, rows)
        except psycopg2.Error as e:
            own = is_a_functions_own(e)
            blocked = BlockedError(target, e.pgcode, suspicious=own or may_be_of_one_row(e.pgcode))
            if verdict(e.pgcode) is Verdict.RETRY:
                said = translate(e, self._work.database)
                raise SerializationConflictError(said.fault, said.detail, blocked) from None
            if not conn.closed and (own or is_of_one_table(e.pgcode)):
                raise blocked from None
            raise
        except InfrastructureError:  # its table could not be made
            raise BlockedError(target, None) from None
        except (OnrampError, MemoryError):
            raise
        except Exception as e:
            if not apart:
                raise UnforeseenError(target) from e
            log.exception("a table takes no rows for a reason that the writer does not know")
            raise BlockedError(target, None) from None
        self.rows += done.rows
        self._remark(target, done)
        return done

    def _say(
        self, target: Target, rows: pa.Table, done: PersistResult | None, late: Sequence[int] = ()
    ) -> None:
        if self._work.log_events and target.table != wire.PROBE_EVENT:
            self.said += event_log.persisted(target, rows, done, late)

    def _remark(self, target: Target, done: PersistResult) -> None:
        """What is worth a look at `target`, counted for one of its partitions: a task has them all."""
        first = min(done.rows)
        found = {
            "unkeyed": done.landed.total() if done.no_unique_key else 0,
            "discarded_fields": done.discarded_fields,
        }
        for remark, n in found.items():
            if n:
                self._remarks[ledger.Remark(self._work.topic_ids[first], first, str(target), remark)] += n

    def _judge(self, target: Target, rows: pa.Table, done: PersistResult) -> list[int]:
        """The places of parked rows that wait after all: their type has paused before them."""
        limit = self._work.pause_policy
        if limit.share >= _NEVER or not (done.parked or self.holds.types):
            return []
        bad = np.zeros(rows.num_rows, dtype=bool)
        bad[[p.row_index for p in done.parked]] = True
        late: list[int] = []
        for name, here in by_type(target, rows).items():
            watched = self.holds.types.get(name)
            if watched is None and not bad[here].any():
                continue
            share = watched.share if watched else holds.past(self._work.conn, target)
            at = share.paused_after(bad[here], limit)
            if at is None:
                now = share.after(bad[here], limit)
                made_up = not share.seen and _is_unknown(done) and name == str(target)
                if watched and not now.parked:
                    self.holds.unwatch(name)
                elif now.parked and not made_up:  # anyone can make up names of tables, without end
                    self.holds.put(Hold(TYPE, name, WATCHED, share=now))
                continue
            self.holds.put(Hold(TYPE, name, STOPPED, share=Share()))
            places = np.flatnonzero(here)
            late += [int(place) for place in places[at + 1 :] if bad[place]]
        return sorted(late)

    def _wait(self, target: Target, rows: pa.Table, code: str) -> None:
        if not rows.num_rows:
            return
        places = rows.select(["_topic", "_partition", "_offset", "_event_name"]).to_pylist()
        found: Counter[Partition] = Counter()
        for row in places:
            partition = Partition(row["_topic"], row["_partition"])
            found[partition] += 1
            of_type = (row["_event_name"] or str(target)) if target.typed else target.table
            self._waiting[target, partition][row["_offset"]] = (of_type, code)
        self.waiting += found
        self._count(target, Outcome.WAITING, found)

    def _park(self, target: Target, done: PersistResult, late: set[int]) -> None:
        destination = f"{target.database}.{target}"
        by_partition: dict[Partition, list[Parked]] = defaultdict(list)
        for p in done.parked:
            if p.row_index not in late:
                by_partition[p.partition].append(p)
        for partition, parked in by_partition.items():
            records = self._work.records(partition, [p.offset for p in parked])
            offsets, values = records.column("offset").to_pylist(), records.column("value").to_pylist()
            value_of = dict(zip(offsets, values, strict=True))
            for p in parked:
                error = parked_topic.reason(p.error, partition, p.offset, destination)
                record = ParkedRecord(
                    partition, p.offset, destination=destination, value=value_of[p.offset], error=error
                )
                outbox.add(self._work.conn, self._work.topic_ids[partition], record)
        found = Counter({partition: len(parked) for partition, parked in by_partition.items()})
        self.parked += found
        self._count(target, Outcome.PARKED, found)

    def _count(self, target: Target, outcome: Outcome, events: Mapping[Partition, int]) -> None:
        if target.table == wire.PROBE_EVENT:  # outside of all counts
            return
        for p, n in events.items():
            self._tallies[ledger.Tally(self._work.topic_ids[p], p, str(target), outcome)] += n


def _is_unknown(done: PersistResult) -> bool:
    """Whether there is no such table."""
    return all(p.error.fault is UNKNOWN_TABLE for p in done.parked)


def watch(held: Holds, blocked: Mapping[Target, BlockedError]) -> Holds:
    """`held` with the tables that were found `blocked` held as well."""
    for target, e in blocked.items():
        hold = held.tables.get(str(target))
        new = replace(hold, sqlstate=e.sqlstate) if hold else None
        held.put(new or holds.blocked(target, e.sqlstate, suspicious=e.suspicious))
    return held
