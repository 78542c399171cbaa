"""The driver's partitions: which exist, the next offset of each, and the ranges to plan next.

A partition is adopted once: its start is the group's offset (or the first offset that Kafka still
has), the databases' baselines are recorded, and the ledgers are claimed.
"""

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from services.writer.batching.byte_sizes import ByteSizes
from services.writer.batching.event_seconds import EventSeconds
from services.writer.batching.fair_share import FairShare
from services.writer.batching.grown_topics import GrownTopics
from services.writer.batching.row_rates import RateLimiter
from services.writer.batching.unfinished_ranges import Planned, UnfinishedRanges
from services.writer.databases.database_states import Databases
from services.writer.databases.diverted_index import DivertedIndex
from services.writer.kafka.cluster import Cluster
from services.writer.kafka.producer import Record
from services.writer.model import halt_reasons
from services.writer.model.next_offsets import Committed, Position
from services.writer.model.routes import Routes
from services.writer.partitions.log_cuts import LogCuts
from services.writer.partitions.partition_decisions import PartitionDecisions
from services.writer.partitions.partition_halts import Entry, accepted_generation
from services.writer.partitions.plan_log import PlanLog
from shared import wire
from shared.kafka_read.leaders import StableOffset
from shared.kafka_read.offsets import Generation, Partition, Range

log = logging.getLogger(__name__)


class PartitionTracker:
    """Adopted partitions and the next offset to plan of each."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        databases: Databases,
        plan_log: PlanLog,
        group: Mapping[Partition, Committed],
        epoch: int,
        index: DivertedIndex,
        rate_limiter: RateLimiter,
        fair_share: FairShare,
        sizes: ByteSizes,
    ) -> None:
        """`group`: the group's offsets, read before the markers (the model's `group_then_markers`)."""
        self._cluster = cluster
        self._databases = databases
        self._plan_log = plan_log
        self._epoch = epoch
        self._index = index
        self._group = dict(group)
        self._rate_limiter = rate_limiter
        self._fair_share = fair_share
        self.sizes = sizes
        self._unfinished = UnfinishedRanges(plan_log, sizes)
        self.positions = databases.positions
        self.halted: dict[Partition, str] = {}
        self._cuts = LogCuts(cluster, plan_log, self._highest_known)
        #: Positions of halted partitions that an operator may resume, and of those whose log was cut.
        self._resumable: dict[Partition, Position] = {}
        self._cut: dict[Partition, Position] = {}
        self._decisions = PartitionDecisions(cluster, plan_log, self.record)
        self._retry_at: dict[Partition, float] = {}
        self._grown = GrownTopics()
        self.seconds = EventSeconds()
        #: New partitions whose leader has not answered with a first offset.
        self._leaderless: set[Partition] = set()
        self._index_version = 0

    async def discover(self, topics: Collection[str], sources: Collection[str] = ()) -> None:
        """Adopt new partitions, also of the registry's `topics` and `sources`; drop deleted ones."""
        existing = await self._cluster.partitions(topics, sources)
        ids = await self.drop_recreated_topics()
        self._retry_set_aside()
        await self._halt_deleted()
        await self._resume_restored(ids)
        await self._resume_accepted(ids)
        self._grown.update(existing)
        new = existing - self.positions.keys() - self.halted.keys()
        if self._databases.unconfigured:  # before any event is diverted for a database new in the registry
            await self._record_baselines(self.positions)
        if not new:
            return
        if new != self._leaderless:
            # Added to the client's metadata first: the client knows the leaders of those topics only.
            await self._cluster.assign(self.positions.keys() | self._resumable.keys() | new)
        begins = await self._cluster.beginning_offsets(new)
        self._leaderless = new - begins.keys()  # their first offsets are requested again
        starts = {p: self._start(p, ids[p.topic], begin) for p, begin in begins.items() if p.topic in ids}
        positions = {p: start for p, start in starts.items() if self._is_adoptable(p, start, begins[p])}
        await self._record_baselines(positions)
        for p, position in positions.items():
            self._unfinished.adopt(p, position)
            self._cluster.generations[p] = _signature(position, ids[p.topic])
        await self._databases.adopt(positions)

    def next_offsets(self) -> dict[Partition, int]:
        """Return the next offset of each partition; for a halted one, the offset at which it would resume."""
        set_aside = {p: self._group[p].offset for p in self._retry_at if p in self._group}
        known = {p: position.next_offset for p, position in (self._resumable | self.positions).items()}
        return set_aside | known

    async def drop_recreated_topics(self) -> dict[str, str]:
        """Halt partitions of deleted or recreated topics, whose positions are invalid; return topic ids."""
        ids = await self._cluster.topic_ids()
        for p, position in list(self.positions.items()):
            if p.topic not in ids:
                self._drop(p, f"the topic was deleted while the writer stood at {position.next_offset}")
            elif self._generation_id(p, ids) != position.topic_id:
                self._drop(p, f"the topic was recreated while the writer stood at {position.next_offset}")
        return ids

    async def _halt_deleted(self) -> None:
        """Halt partitions in which retention or `kafka-delete-records` deleted unsettled events."""
        for p, begin in (
            (await self._cluster.beginning_offsets(self.positions)).items() if self.positions else ()
        ):
            if (position := self.positions[p]).next_offset < begin:
                self._drop(p, halt_reasons.deleted(position, begin), halt_reasons.accept(p))
                self._resumable[p] = position

    def _generation_id(self, p: Partition, ids: Mapping[str, str]) -> str | None:
        return self._plan_log.halts.generation_id(ids[p.topic], p.number) if p.topic in ids else None

    def _start(self, p: Partition, topic_id: str, begin: int) -> Position:
        """Return the start of `p`: the group's offset if it names this topic generation (`group_signed`)."""
        start = self._plan_log.halts.start_offset(topic_id, p.number, begin)
        position = Position(self._plan_log.halts.generation_id(topic_id, p.number), start)
        committed = self._group.get(p)
        if committed and committed.generation == _signature(position, topic_id):
            return Position(position.topic_id, committed.offset)
        return position

    def _drop(self, p: Partition, reason: str, fix: str = halt_reasons.RESTART) -> None:
        self.positions.pop(p, None)
        self._unfinished.forget(p)
        self._fair_share.forget(p)
        self.seconds.forget(p)
        self._halt(p, reason, fix)

    def _is_adoptable(self, p: Partition, position: Position, begin: int) -> bool:
        """Return whether `p` may be read; halt it if reading would skip or lose events or mix up topics."""
        known = (position.topic_id, p.number) in self._plan_log.baselines
        if p in self._group and not known:
            self._halt(p, halt_reasons.RECREATED, halt_reasons.FROM_ITS_START)
        elif position.next_offset < begin:
            self._halt(p, halt_reasons.deleted(position, begin), halt_reasons.accept(p))
            self._resumable[p] = position
        elif unknown := self._plan_log.unfinished_databases(p, position) - set(self._databases.names):
            self._halt(p, halt_reasons.unknown(", ".join(sorted(unknown))), halt_reasons.CONFIGURE)
        elif lost := ", ".join(sorted(self._plan_log.missing_routes(p, position))):
            self._halt(p, halt_reasons.lost_routes(lost), halt_reasons.accept(p))
            self._resumable[p] = position
        elif pause := self._unfinished.pause(p, position):
            self._halt(p, pause.reason, pause.fix)
            self._retry_at[p] = pause.retry_at
        else:
            return True
        return False

    def set_aside(self, p: Partition, reason: str, fix: str, retry_at: float) -> None:
        """Quarantine `p` until `retry_at` (monotonic seconds); its position stays."""
        self._group[p] = Committed(self.positions[p].next_offset, self._cluster.generations.get(p, ""))
        self._drop(p, reason, fix)
        self._retry_at[p] = retry_at

    def _retry_set_aside(self) -> None:
        for p in [p for p, at in self._retry_at.items() if time.monotonic() >= at]:
            del self._retry_at[p]
            self.halted.pop(p, None)

    def _halt(self, p: Partition, reason: str, fix: str) -> None:
        self.halted[p] = reason
        extra = {"topic": p.topic, "partition": p.number, "group": wire.WRITER_GROUP}
        log.error("a partition is halted", extra=extra | {"reason": reason, "mend": fix})

    async def _record_baselines(self, positions: Mapping[Partition, Position]) -> None:
        first_offsets = {(s.topic_id, p.number): s.next_offset for p, s in positions.items()}
        names = self._databases.with_unconfigured()
        await self.record(self._plan_log.baseline_entries(first_offsets, names))

    async def record(self, entries: Iterable[Entry]) -> None:
        """Append `entries` to `onramp.settled`, and to the local copy after Kafka's acknowledgement."""
        entries = list(entries)
        await self._cluster.append([Record(wire.SETTLED, key.encode(), value) for key, value in entries])
        for key, value in entries:
            self._plan_log.apply(key, value)

    async def plan(self, limit: int, routes: Routes) -> Planned:
        """Return the next ranges, at most `limit` offsets in all, and their routes.  A few requests to Kafka.

        Invariant: ranges that a dead writer planned come first, unchanged and with the routes of
        their plan (the model's `plan_pinned`); a batch has one snapshot of the routes.
        """
        if not self.positions:
            return [], routes
        last_stable = await self._cluster.last_stable_offsets(self.positions.keys())
        if any(
            p not in last_stable or last_stable[p].offset != s.next_offset for p, s in self.positions.items()
        ):
            await self.drop_recreated_topics()  # after the ends: they belong to known topic generations
        ends = await self._ends(last_stable)
        backlog = {p: (s.next_offset, ends[p]) for p, s in self.positions.items() if p in ends}
        if unfinished := self._unfinished.plan(self.positions, ends):
            return unfinished
        ranges = self._new_ranges(backlog, limit)
        isolated = self._unfinished.isolated_plan(self.positions, ends, others=bool(ranges))
        return isolated or (ranges, routes)

    def _new_ranges(self, backlog: Mapping[Partition, tuple[int, int]], limit: int) -> list[Range]:
        """Return ranges that no writer has planned before, at most `limit` offsets in all."""
        shared = {p: span for p, span in backlog.items() if not self._unfinished.is_isolated(p, span[0])}
        spans = {p: self._unfinished.until_next_plan(p, *span) for p, span in shared.items()}
        landing = [d.name for d in self._databases.landing()]
        shares = self.sizes.bound(self._rate_limiter.share(spans, limit, landing, self._fair_share))
        shares = self.seconds.bound(shares)
        return [Range(self.positions[p].topic_id, p, *span) for p, span in sorted(shares.items())]

    async def _ends(self, last_stable: dict[Partition, StableOffset]) -> dict[Partition, int]:
        """Return the offset that each partition may be planned to: its end, or the offset of a log cut."""
        if self._index_version != self._index.version:
            self._index_version = self._index.version
            self._cuts.recheck_all()
        cuts = await self._cuts.find_cuts(self.positions, last_stable)
        if epochs := self._cuts.leader_epochs(self.positions, last_stable):
            await self.record(self._plan_log.leader_entries(epochs))
        for p, cut in cuts.items():
            position = self.positions[p]
            if cut <= position.next_offset:  # else the offsets below it are settled first (`below_first`)
                self._drop(p, self._cuts.reason(p, position, cut), halt_reasons.accept(p))
                self._resumable[p] = self._cut[p] = position
                self._group[p] = Committed(position.next_offset, self._cluster.generations.get(p, ""))
        return {
            p: min(each.offset, cuts.get(p, each.offset))
            for p, each in last_stable.items()
            if p in self.positions
        }

    async def _resume_restored(self, ids: Mapping[str, str]) -> None:
        """Resume partitions whose cut log has all settled offsets again; this needs no operator."""
        known = self._resumable
        self._resumable = {p: s for p, s in known.items() if self._generation_id(p, ids) == s.topic_id}
        self._cut = {p: s for p, s in self._cut.items() if p in self._resumable}
        if not self._cut:
            return
        last_stable = await self._cluster.last_stable_offsets(self._cut, patient=False)
        cuts = await self._cuts.find_cuts(self._cut, last_stable)
        for p in [p for p in self._cut if p in last_stable and p not in cuts]:
            await self.record(self._plan_log.halts.end_entries(p))
            del self._cut[p], self._resumable[p], self.halted[p]
            log.warning(
                "resuming a halted partition, whose log has all settled offsets again",
                extra={"topic": p.topic, "partition": p.number},
            )

    async def _resume_accepted(self, ids: Mapping[str, str]) -> None:
        """Resume partitions whose loss an operator has accepted (the model's rule `another_life`)."""
        for p in await self._decisions.accepted({p: self.halted[p] for p in self._resumable}):
            position = self._resumable[p]
            begins = await self._cluster.beginning_offsets([p])
            last_stable = await self._cluster.last_stable_offsets([p], patient=False)
            cuts = await self._cuts.find_cuts({p: position}, last_stable)
            if p not in begins or p not in last_stable or (p in self._cut and p not in cuts):
                continue  # the offset at which to resume is unknown now
            # A more complete replica may lead now: its records above the position are not settled yet.
            intact_to = min(cuts.get(p, position.next_offset), position.next_offset)
            accepted = accepted_generation(self._epoch, max(intact_to, begins[p]))
            halts, first_offsets = self._plan_log.halts, {(accepted.generation, p.number): accepted.start}
            names = self._databases.with_unconfigured()
            baselines = self._plan_log.baseline_entries(first_offsets, names)
            await self.record(
                [*baselines, *halts.accept_entries(ids[p.topic], p.number, accepted), *halts.end_entries(p)]
            )
            self._cut.pop(p, None)
            del self._resumable[p], self.halted[p]
            log.error(
                "resuming a halted partition with the records that Kafka has, as an operator decided",
                extra={"topic": p.topic, "partition": p.number, "from": accepted.start},
            )

    def _highest_known(self, p: Partition, position: Position) -> int:
        """Return the highest offset that a ledger, a marker or a plan names for `p`.

        The model's rules `ledgers_tell`, `markers_tell` and `plans_tell`.
        """
        planned = (r.end for r, _ in self._plan_log.planned_ranges(p, position.topic_id))
        diverted = self._index.highest_known(Generation(position.topic_id, p))
        return max(position.next_offset, diverted, *planned, 0)

    def advance(self, ranges: Sequence[Range]) -> None:
        """Move the positions to the ends of `ranges`, which are settled or diverted."""
        for r in ranges:
            self.positions[r.partition] = Position(r.topic_id, r.end)


def _signature(position: Position, topic_id: str) -> str:
    """Return the signature of the group's offset: the id of an accepted topic generation, else empty."""
    return position.topic_id if position.topic_id != topic_id else ""
