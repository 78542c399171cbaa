"""The partitions that the lake reads: their next offsets, ends, and the partitions that wait."""

import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from services.lake.driver.kafka_cluster import Committed, LakeCluster
from services.lake.driver.lake_log import LakeLog, PlannedRange
from services.lake.routes.lake_routes import LakeRoutes, is_read
from services.lake.waits import Wait
from shared.kafka_read.offsets import Partition, Range
from shared.lake.lake_topic import PositionKey

log = logging.getLogger(__name__)

#: The log was cut by an unclean election or a restored disk, and waits for its records.
_LOG_CUT: Final = "log_cut"


@dataclass(slots=True)
class _Position:
    topic_id: str
    next_offset: int


class Partitions:
    """Followed partitions and the next offset of each.  `refresh` first, then the other methods."""

    def __init__(self, cluster: LakeCluster, lake_log: LakeLog, group: Mapping[Partition, Committed]) -> None:
        self._cluster = cluster
        self._log = lake_log
        self._group = dict(group)
        #: Where tables with `start: now` continue after the loss of `onramp.lake`, which had their starts.
        self._continued = dict(group) if lake_log == LakeLog() else {}
        if self._continued:
            log.error("onramp.lake was lost: its tables continue at the offsets of the group")
        self._positions: dict[Partition, _Position] = {}
        self.ends: dict[Partition, int] = {}
        self.waiting: dict[Partition, Wait] = {}
        self._lost: Counter[str] = Counter()

    async def refresh(self, routes: LakeRoutes, starts: Mapping[str, str]) -> None:
        """Read topics and ends; adopt new partitions and tables.

        `starts`: `earliest` or `now` by event type.
        """
        ids = await self._cluster.partitions(lambda topic: is_read(topic, routes))
        self._drop(ids)
        if not ids:
            return
        begins = await self._cluster.beginnings(ids)
        ends = await self._cluster.ends(ids)
        known = {p: i for p, i in ids.items() if p in begins and p in ends}
        self.ends = {p: ends[p] for p in known}
        self._adopt_committed(known)
        # A planned range is finished first, under its own routes.
        begun = {each.range.partition for each in self.unfinished()}
        added = self._new_starts(routes, starts, {p: i for p, i in known.items() if p not in begun}, begins)
        self._continued = {p: c for p, c in self._continued.items() if p not in known}
        removed = self._old_starts(routes)
        moved = self._adopt(known, begins, added)
        if added or removed or moved:
            entries = self._log.start_entries({**added, **dict.fromkeys(removed)})
            await self._cluster.producer.commit(entries, moved)
            self._log.apply(entries)
            self._group |= {p: Committed(*each) for p, each in moved.items()}
        self._skip_deleted(begins)
        self._check_ends()

    def _drop(self, ids: Mapping[Partition, str]) -> None:
        """Forget partitions that are not read any more, and those of recreated topics."""
        for p, position in list(self._positions.items()):
            if ids.get(p) != position.topic_id:
                if p in ids:
                    log.warning("a topic was recreated; reading it from its start", extra={"topic": p.topic})
                del self._positions[p]
                self.waiting.pop(p, None)
        self.ends = {p: end for p, end in self.ends.items() if p in ids}

    def _new_starts(
        self,
        routes: LakeRoutes,
        starts: Mapping[str, str],
        ids: Mapping[Partition, str],
        begins: Mapping[Partition, int],
    ) -> dict[PositionKey, int]:
        """Return the first offsets of tables in partitions that are new to them.

        A partition that was added to a topic is taken whole.
        """
        added: dict[PositionKey, int] = {}
        grown = {(key.table, key.topic_id) for key in self._log.starts}
        for route in routes.routes:
            for p, topic_id in ids.items():
                key = PositionKey(route.table.name, p.topic, topic_id, p.number)
                if p.topic == route.topic and key not in self._log.starts:
                    is_whole = starts.get(route.event_name) != "now" or (route.table.name, topic_id) in grown
                    added[key] = begins[p] if is_whole else self._now(p, topic_id)
        return added

    def _now(self, p: Partition, topic_id: str) -> int:
        """Return the offset at which a table with `start: now` begins."""
        committed = self._continued.get(p)
        if committed is not None and committed.topic_id == topic_id:
            return committed.offset
        return self.ends[p]

    def _old_starts(self, routes: LakeRoutes) -> list[PositionKey]:
        """Return the entries of tables that are not routed any more; a later destination is a new one."""
        routed = {(route.table.name, route.topic) for route in routes.routes}
        return [key for key in self._log.starts if (key.table, key.topic) not in routed]

    def _adopt_committed(self, ids: Mapping[Partition, str]) -> None:
        """Set the position of new partitions of which the group has an offset."""
        for p, topic_id in ids.items():
            committed = self._group.get(p)
            if p not in self._positions and committed is not None and committed.topic_id == topic_id:
                self._positions[p] = _Position(topic_id, committed.offset)

    def _adopt(
        self,
        ids: Mapping[Partition, str],
        begins: Mapping[Partition, int],
        added: Mapping[PositionKey, int],
    ) -> dict[Partition, tuple[int, str]]:
        """Set the position of the other partitions; move those back of which a new table takes older events.

        Other tables skip events that they have.  Return the new positions: they are committed before the
        first plan, which a successor could not recognize as unfinished otherwise.
        """
        moved: dict[Partition, tuple[int, str]] = {}
        wanted: dict[Partition, int] = {}
        for key, start in added.items():
            p = Partition(key.topic, key.partition)
            wanted[p] = min(start, wanted.get(p, start))
        for p, topic_id in ids.items():
            position = self._positions.get(p)
            if position is None:
                position = self._positions[p] = _Position(topic_id, wanted.get(p, begins[p]))
                moved[p] = (position.next_offset, topic_id)
            elif wanted.get(p, position.next_offset) < position.next_offset:
                position.next_offset = wanted[p]
                moved[p] = (position.next_offset, topic_id)
        return moved

    def _skip_deleted(self, begins: Mapping[Partition, int]) -> None:
        """Move positions to the first offset that Kafka still has, and count the events in between."""
        for p, position in self._positions.items():
            begin = begins.get(p, 0)
            if position.next_offset < begin:
                lost = begin - position.next_offset
                self._lost[p.topic] += lost
                log.error(
                    "Kafka has deleted events before they were in the lake",
                    extra={
                        "topic": p.topic,
                        "partition": p.number,
                        "from": position.next_offset,
                        "lost": lost,
                    },
                )
                position.next_offset = begin

    def _check_ends(self) -> None:
        """Make partitions wait whose log is shorter than the position: its records were lost."""
        for p, end in self.ends.items():
            at = self._positions[p].next_offset
            if at > end:
                detail = f"the log ends at {end}, and the lake has its events below {at}"
                self.wait(p, Wait("", _LOG_CUT, detail, time.monotonic()))
            elif p in self.waiting and self.waiting[p].code == _LOG_CUT:
                del self.waiting[p]

    def wait(self, partition: Partition, wait: Wait) -> None:
        """Make a partition wait; log the reason once."""
        before = self.waiting.get(partition)
        self.waiting[partition] = wait
        if before is None or (before.code, before.detail) != (wait.code, wait.detail):
            log.error(
                "a partition waits: a table of the lake does not take its events",
                extra={
                    "topic": partition.topic,
                    "partition": partition.number,
                    "table": wait.table,
                    "code": wait.code,
                    "reason": wait.detail,
                },
            )

    def settle(self, ranges: Mapping[Partition, Range]) -> None:
        """Move the positions to the ends of ranges whose offsets are committed."""
        for p, r in ranges.items():
            self._positions[p].next_offset = r.end
            self._group[p] = Committed(r.end, r.topic_id)
            if self.waiting.pop(p, None) is not None:
                log.warning("a partition continues", extra={"topic": p.topic, "partition": p.number})

    def unfinished(self) -> list[PlannedRange]:
        """Return the planned ranges that are not settled."""
        return self._log.unfinished({p: (x.topic_id, x.next_offset) for p, x in self._positions.items()})

    def due(self, now: float) -> list[PlannedRange]:
        """Return the planned ranges that are not settled and may be tried now."""
        return [each for each in self.unfinished() if self._may_be_tried(each.range.partition, now)]

    def carried(self, ranges: Mapping[Partition, Range]) -> list[PlannedRange]:
        """Return the planned ranges that are not settled, of other partitions than those of `ranges`."""
        return [each for each in self.unfinished() if each.range.partition not in ranges]

    def backlog(self, now: float) -> dict[Partition, tuple[int, int]]:
        """Return next offset and end of each partition that has records, no unfinished range, and no wait."""
        begun = {each.range.partition for each in self.unfinished()}
        return {
            p: (position.next_offset, self.ends[p])
            for p, position in self._positions.items()
            if p not in begun and position.next_offset < self.ends.get(p, 0) and self._may_be_tried(p, now)
        }

    def _may_be_tried(self, p: Partition, now: float) -> bool:
        return p not in self.waiting or (self.waiting[p].code != _LOG_CUT and self.waiting[p].retry_at <= now)

    def take_lost(self) -> Counter[str]:
        """Return the events that Kafka had deleted before they could land, by topic, since the last call."""
        lost, self._lost = self._lost, Counter()
        return lost

    def range_of(self, p: Partition, start: int, end: int) -> Range:
        """Return a range of a followed partition."""
        return Range(self._positions[p].topic_id, p, start, end)

    def next_offsets(self) -> dict[Partition, int]:
        """Return the next offset of each partition."""
        return {p: position.next_offset for p, position in self._positions.items()}
