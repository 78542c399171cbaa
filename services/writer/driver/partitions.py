"""The driver's view of its partitions: which there are, where each stands, what is planned next.

A partition is adopted once: its start is the group's offset (else the first that Kafka still
holds), the databases' baselines are recorded, and the ledgers are claimed.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from services.writer.driver.spark import Spark
from services.writer.kafka.cluster import Cluster
from services.writer.kafka.leaders import Tip
from services.writer.kafka.producer import Record
from services.writer.model import halt_reasons
from services.writer.model.next_offsets import Committed, Position
from services.writer.model.offsets import Incarnation, Partition, Range
from services.writer.model.routes import Routes
from services.writer.partitions.partition_halts import Entry, new_line
from services.writer.partitions.plan_log import Settled
from services.writer.plan.byte_sizes import ByteSizes, begun_again
from services.writer.plan.fair_share import FairShare
from services.writer.plan.grown_topics import GrownTopics
from services.writer.plan.row_rates import RowRates
from services.writer.recover.databases import Databases
from services.writer.recover.diverted_index import DivertedIndex
from services.writer.recover.log_cuts import LogCuts
from services.writer.recover.partition_answers import Answers
from shared import wire

log = logging.getLogger(__name__)

Planned = tuple[list[Range], Routes]


class PartitionTracker:
    """Adopted partitions and the next offset to plan of each."""

    def __init__(
        self,
        positions: Cluster,
        spark: Spark,
        databases: Databases,
        settled: Settled,
        group: Mapping[Partition, Committed],
        *,
        epoch: int,
        index: DivertedIndex,
        rates: RowRates,
        turns: FairShare,
        sizes: ByteSizes,
    ) -> None:
        """`group`: the group's offsets, read before the markers were (the model's rule)."""
        self._positions = positions
        self._spark = spark
        self._databases = databases
        self._settled = settled
        self._epoch = epoch
        self._index = index
        self._group = dict(group)
        self._rates = rates
        self._turns = turns
        self.sizes = sizes
        self._pins: dict[Partition, list[tuple[Range, Routes]]] = {}
        self.stands = databases.stands
        self.refused: dict[Partition, str] = {}
        self.lag: dict[Partition, int] = {}
        self._cuts = LogCuts(positions, settled, self._furthest)
        #: Where the writer stood in partitions that a person may let go on, and which of them were cut.
        self._halted: dict[Partition, Position] = {}
        self._cut_off: dict[Partition, Position] = {}
        self._answers = Answers(positions, settled, self.record)
        self._again_at: dict[Partition, float] = {}
        self._grown = GrownTopics()
        #: New ones of which no leader said the begin.
        self._unheard: set[Partition] = set()
        self._news = 0

    async def discover(self, topics: Collection[str]) -> None:
        """Adopt partitions that are new, of `topics` too, which the registry names; let go what is gone."""
        there = await self._positions.partitions(topics)
        ids = await self.let_go_of_other_lives()
        self._try_again()
        await self._let_go_of_what_was_deleted()
        await self._see_what_came_back(ids)
        await self._hear(ids)
        self._grown.see(there)
        new = there - self.stands.keys() - self.refused.keys()
        if not new:
            return
        if new != self._unheard:
            # First into view: who leads a topic is known of those alone.
            await self._positions.assign(self.stands.keys() | self._halted.keys() | new)
        begins = await self._positions.beginning_offsets(new)
        self._unheard = new - begins.keys()  # they are asked again: without a begin there is no start
        found = {p: self._stand(p, ids[p.topic], begin) for p, begin in begins.items() if p.topic in ids}
        stands = {p: s for p, s in found.items() if self._may_adopt(p, s, begins[p])}
        await self._record_baselines(stands)
        for p, stand in stands.items():
            self._pins[p] = self._settled.pins(p, stand.topic_id)
            self._positions.incarnations[p] = _named(stand, ids[p.topic])
        self._spark.expect(len(self.stands) + len(stands))
        await self._databases.adopt(stands)

    async def let_go_of_other_lives(self) -> dict[str, str]:
        """A topic that was made anew begins its offsets again: the old ones say nothing about it.

        Returns every topic's id.
        """
        ids = await asyncio.to_thread(self._spark.topic_ids)
        for p, stand in list(self.stands.items()):
            if p.topic not in ids:
                self._let_go(p, f"the topic was deleted while the writer stood at {stand.next_offset}")
            elif self._life(p, ids) != stand.topic_id:
                self._let_go(p, f"the topic was made anew while the writer stood at {stand.next_offset}")
        return ids

    async def _let_go_of_what_was_deleted(self) -> None:
        """Retention or `kafka-delete-records` took events that were not settled."""
        for p, begin in (await self._positions.beginning_offsets(self.stands)).items() if self.stands else ():
            if (stand := self.stands[p]).next_offset < begin:
                self._let_go(p, halt_reasons.deleted(stand, begin), halt_reasons.accept(p))
                self._halted[p] = stand

    def _life(self, p: Partition, ids: Mapping[str, str]) -> str | None:
        return self._settled.lines.life(ids[p.topic], p.number) if p.topic in ids else None

    def _stand(self, p: Partition, topic_id: str, begin: int) -> Position:
        """Where `p` is taken up: where the group stands in its life, else where that begins."""
        start = self._settled.lines.start(topic_id, p.number, begin)
        stand = Position(self._settled.lines.life(topic_id, p.number), start)
        named, at = _named(stand, topic_id), self._group.get(p)
        return Position(stand.topic_id, at.offset) if at and at.incarnation == named else stand

    def _let_go(self, p: Partition, why: str, mend: str = halt_reasons.RESTART) -> None:
        for known in (self.stands, self._pins, self.lag):
            known.pop(p, None)
        self._turns.forget(p)
        self._refuse(p, why, mend)

    def _may_adopt(self, p: Partition, stand: Position, begin: int) -> bool:
        """Refuse, loudly, what would skip events, lose them, or take one topic for another."""
        known = (stand.topic_id, p.number) in self._settled.baselines
        if p in self._group and not known:
            self._refuse(p, halt_reasons.RECREATED, halt_reasons.FROM_ITS_START)
        elif stand.next_offset < begin:
            self._refuse(p, halt_reasons.deleted(stand, begin), halt_reasons.accept(p))
            self._halted[p] = stand
        elif unknown := ", ".join(sorted(self._settled.unfinished_in(p, stand) - set(self._databases.names))):
            self._refuse(p, halt_reasons.unknown(unknown), halt_reasons.CONFIGURE)
        elif lost := ", ".join(sorted(self._settled.lost_routes(p, stand))):
            self._refuse(p, halt_reasons.lost_routes(lost), halt_reasons.accept(p))
            self._halted[p] = stand
        else:
            return True
        return False

    def set_aside(self, p: Partition, why: str, mend: str, again_at: float) -> None:
        """Plan nothing of `p` until then; it stands where it stands."""
        self._group[p] = Committed(self.stands[p].next_offset, self._positions.incarnations.get(p, ""))
        self._let_go(p, why, mend)
        self._again_at[p] = again_at

    def _try_again(self) -> None:
        for p in [p for p, at in self._again_at.items() if time.monotonic() >= at]:
            del self._again_at[p]
            self.refused.pop(p, None)

    def _refuse(self, p: Partition, why: str, mend: str) -> None:
        self.refused[p] = why
        log.error(
            "a partition is halted",
            extra={
                "topic": p.topic,
                "partition": p.number,
                "group": wire.WRITER_GROUP,
                "reason": why,
                "mend": mend,
            },
        )

    async def _record_baselines(self, stands: Mapping[Partition, Position]) -> None:
        lives = {(s.topic_id, p.number): s.next_offset for p, s in stands.items()}
        await self.record(self._settled.first_sight(lives, self._databases.names))

    async def record(self, entries: Iterable[Entry]) -> None:
        """Append `entries` to `onramp.settled`, and to our copy of it once Kafka holds them."""
        entries = list(entries)
        await self._positions.append([Record(wire.SETTLED, key.encode(), value) for key, value in entries])
        for key, value in entries:
            self._settled.apply(key, value)

    async def plan(self, limit: int, routes: Routes) -> Planned:
        """The next ranges, at most `limit` offsets in all, and their routes.

        What a dead writer had planned comes first, and a batch has one snapshot of the routes.
        """
        if not self.stands:
            return [], routes
        tips = await self._positions.tips(self.stands.keys())
        if any(p not in tips or tips[p].offset != s.next_offset for p, s in self.stands.items()):
            await self.let_go_of_other_lives()  # after the ends were read: they are of the lives we know
        ends = await self._ends(tips)
        backlog = {p: (s.next_offset, ends[p]) for p, s in self.stands.items() if p in ends}
        self.lag |= {p: max(end - start, 0) for p, (start, end) in backlog.items()}
        if pinned := self._pinned(ends):
            return pinned
        unpinned = {p: self._unpinned(p, *span) for p, span in backlog.items()}
        landing = [d.name for d in self._databases.landing()]
        shares = self.sizes.bound(self._rates.share(unpinned, limit, landing, self._turns))
        return [Range(self.stands[p].topic_id, p, *span) for p, span in sorted(shares.items())], routes

    async def _ends(self, tips: dict[Partition, Tip]) -> dict[Partition, int]:
        """Up to where each partition may be planned: its end, or where its log was cut."""
        if self._news != self._index.news:
            self._news = self._index.news
            self._cuts.doubt()
        cuts = await self._cuts.see(self.stands, tips)
        if led := self._cuts.led(self.stands, tips):
            await self.record(self._settled.led(led))
        for p, cut in cuts.items():
            stand = self.stands[p]
            if cut <= stand.next_offset:  # else what is below it is finished first
                self._let_go(p, self._cuts.why(p, stand, cut), halt_reasons.accept(p))
                self._halted[p] = self._cut_off[p] = stand
                self._group[p] = Committed(stand.next_offset, self._positions.incarnations.get(p, ""))
        return {p: min(tip.offset, cuts.get(p, tip.offset)) for p, tip in tips.items() if p in self.stands}

    async def _see_what_came_back(self, ids: Mapping[str, str]) -> None:
        """A log that is again what was settled is read on, without anybody's word."""
        self._halted = {p: s for p, s in self._halted.items() if self._life(p, ids) == s.topic_id}
        self._cut_off = {p: s for p, s in self._cut_off.items() if p in self._halted}
        if not self._cut_off:
            return
        tips = await self._positions.tips(self._cut_off, patient=False)
        cuts = await self._cuts.see(self._cut_off, tips)
        for p in [p for p in self._cut_off if p in tips and p not in cuts]:
            await self.record(self._settled.lines.over(p))
            del self._cut_off[p], self._halted[p], self.refused[p]
            log.warning(
                "a halted partition's log is again what was settled: it goes on",
                extra={"topic": p.topic, "partition": p.number},
            )

    async def _hear(self, ids: Mapping[str, str]) -> None:
        """Go on with what Kafka has of partitions of which a person says so."""
        for p in await self._answers.accepted({p: self.refused[p] for p in self._halted}):
            stand = self._halted[p]
            begins = await self._positions.beginning_offsets([p])
            tips = await self._positions.tips([p], patient=False)
            cuts = await self._cuts.see({p: stand}, tips)
            if p not in begins or p not in tips or (p in self._cut_off and p not in cuts):
                continue  # where to go on cannot be told now
            # A better replica may lead since: what it has above the stand is nobody's yet.
            whole = min(cuts.get(p, stand.next_offset), stand.next_offset)
            line = new_line(self._epoch, max(whole, begins[p]))
            lines, baselines = self._settled.lines, {(line.life, p.number): line.start}
            first = self._settled.first_sight(baselines, self._databases.names)
            await self.record([*first, *lines.go_on(ids[p.topic], p.number, line), *lines.over(p)])
            self._cut_off.pop(p, None)
            del self._halted[p], self.refused[p]
            log.error(
                "a halted partition goes on with what Kafka has, because a person said so",
                extra={"topic": p.topic, "partition": p.number, "from": line.start},
            )

    def _furthest(self, p: Partition, stand: Position) -> int:
        """Up to where anything says that `p` is settled, waits or was planned."""
        planned = (r.end for r, _ in self._settled.pins(p, stand.topic_id))
        return max(stand.next_offset, self._index.furthest(Incarnation(stand.topic_id, p)), *planned, 0)

    def _pinned(self, ends: Mapping[Partition, int]) -> Planned | None:
        """Ranges that were planned and not finished, all of one snapshot; a large one in pieces."""
        found: list[tuple[Range, Routes]] = []
        for p, pins in self._pins.items():
            at = self.stands[p].next_offset
            covering = [(r, routes) for r, routes in pins if r.start <= at < r.end and at < ends.get(p, at)]
            if covering:
                r = begun_again(at, [r for r, _ in covering])
                found.append((Range(r.topic_id, p, at, min(r.end, ends[p])), covering[0][1]))
        if not found:
            return None
        routes = found[0][1]
        return self.sizes.cut([r for r, of in found if of == routes]), routes

    def _unpinned(self, p: Partition, start: int, end: int) -> tuple[int, int]:
        return start, min([end, *(r.start for r, _ in self._pins[p] if r.start > start)])

    def settled(self, ranges: Sequence[Range]) -> None:
        """`ranges` are settled or diverted: go on behind them."""
        for r in ranges:
            self.stands[r.partition] = Position(r.topic_id, r.end)
            self.lag[r.partition] = max(self.lag.get(r.partition, 0) - len(r), 0)


def _named(stand: Position, topic_id: str) -> str:
    """What the group's offsets say of the life: nothing of the topic's own."""
    return stand.topic_id if stand.topic_id != topic_id else ""
