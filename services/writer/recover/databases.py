"""The configured databases: which of them land, which are out, and how one comes back.

A database that is out is asked again after a growing pause (its breaker); one that is back
is claimed, compared with what waits for it, and drained before it takes live traffic.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from services.writer.kafka.producer import is_foreseen
from services.writer.model.exits import ends
from services.writer.model.next_offsets import Position
from services.writer.model.offsets import Partition
from services.writer.model.routes import Routes
from services.writer.park import outbox
from services.writer.park.diverted_topic import RangeMarker
from services.writer.partitions.plan_log import PlanLog
from services.writer.partitions.set_aside import kind_of
from services.writer.plan.row_rates import RateLimiter
from services.writer.postgres.database import Database
from services.writer.postgres.database_threads import failures, in_own_thread
from services.writer.postgres.migrations import migrate
from services.writer.recover import database_halts, owner
from services.writer.recover.breaker import Health
from services.writer.recover.claims import Claims
from services.writer.recover.database_halts import Gap
from services.writer.recover.database_states import DatabaseStates
from services.writer.recover.diverted_index import DivertedIndex
from services.writer.recover.drain import Drainer
from services.writer.recover.owner import Owner
from services.writer.recover.release_scheduler import ReleaseScheduler
from services.writer.settle.holds import Hold
from shared.errors import (
    DATABASE_OWNED,
    FENCED,
    INTERNAL_WRITER,
    KAFKA_UNAVAILABLE,
    LEDGER_GAP,
    InfrastructureError,
)
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

#: How often a halted database is asked whether a person has resolved it.
_ASK_SECONDS: Final = 1.0


class Databases(DatabaseStates):
    """All configured databases of one writer, and how each that was out comes back."""

    def __init__(
        self,
        configured: Sequence[Database],
        *,
        plan_log: PlanLog,
        index: DivertedIndex,
        drainer: Drainer,
        rate_limiter: RateLimiter,
        epoch: int,
        brokers: Brokers,
        cluster_id: str,
    ) -> None:
        super().__init__(configured, index)
        self._plan_log = plan_log
        self._drainer = drainer
        self._cluster_id = cluster_id
        self._epoch = epoch
        self._claims = Claims(plan_log, index, epoch)
        self._brokers = brokers
        self._returning: dict[str, asyncio.Task[None]] = {}
        self._releases = ReleaseScheduler(configured, rate_limiter, brokers)
        # A database that comes back and a partition that is adopted must not miss each other.
        self._claiming = asyncio.Lock()
        #: Every adopted partition and where the writer stands in it.
        self.positions: dict[Partition, Position] = {}

    def drains(self) -> bool:
        """Whether a database is coming back or draining now."""
        return bool(self._returning)

    def _owner(self, name: str) -> Owner:
        return Owner(self._cluster_id, name)

    def failed(self, name: str, error: InfrastructureError) -> None:
        """A database failed a batch or a drain.  Raises the error when a newer writer is or was there."""
        if ends(error):
            raise error
        if error.fault is KAFKA_UNAVAILABLE:
            log.warning("Kafka is away: what a database has for it waits", extra=_fields(name, error))
            return
        health = self._health[name]
        if error.fault is LEDGER_GAP:
            health.halted = error.detail
            health.noted, health.again_at = False, 0.0
            log.error("a database is halted until a person resolves it", extra=_fields(name, error))
            return
        health.is_out(error.detail, needs_operator=error.fault is DATABASE_OWNED)
        log.warning("a database is out, its events wait", extra=_fields(name, error))

    def held(self, name: str) -> None:
        """Events wait in the database itself, behind a hold."""
        self._releases.held(name)

    def holds(self) -> dict[str, tuple[Hold, ...]]:
        """The holds of every database, as far as is known."""
        return self._releases.holds()

    async def reconcile(self, routes: Routes) -> None:
        """Bring back what is out, drain and release what waits, in the background; surface a fencing."""
        for name, health in self._health.items():
            if (task := self._returning.get(name)) and task.done():
                del self._returning[name]
                self._see(name, task.exception())
            if name in self._returning:
                continue
            due = time.monotonic() >= health.again_at
            if health.halted and due and not health.resolution:
                self._returning[name] = asyncio.create_task(self._ask(name, health.halted))
            elif not health.halted and ((due and not health.up) or (health.up and self._index.waits(name))):
                self._returning[name] = asyncio.create_task(self._return(name))

        for name, error in self._releases.tick([n for n in self._all if self._can(n)], routes):
            self.failed(name, error)

    def _see(self, name: str, error: BaseException | None) -> None:
        """What ended a return: a bug at one database keeps that one out, and is tried again."""
        if error is None:
            return
        if is_foreseen(error) or not isinstance(error, Exception):
            raise error
        log.error("a database cannot return for a reason that the writer does not know", exc_info=error)
        self.resolution_failed(
            name, InfrastructureError(INTERNAL_WRITER, f"it cannot return: {kind_of(error)}")
        )

    async def wait_drained(self) -> None:
        """Wait for a database of which at most the last batch waits: then it takes live traffic."""
        await self._releases.wait_drained()
        for name, task in list(self._returning.items()):
            if self._can(name) and self._index.almost_drained(name):
                await asyncio.wait({task})

    async def stop(self) -> None:
        """Stop returning; what was begun rolls back or is finished by its thread."""
        await self._releases.stop()
        for task in self._returning.values():
            task.cancel()
        await asyncio.gather(*self._returning.values(), return_exceptions=True)

    async def wait_for_return(self, seconds: float) -> None:
        """Wait until a return that is under way ends, at most so long."""
        if self._returning:
            await asyncio.wait(self._returning.values(), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(seconds)

    async def _return(self, name: str) -> None:
        database, health = self._all[name], self._health[name]
        try:
            if not health.up:
                await in_own_thread(owner.see, database, self._owner(name))
                await in_own_thread(migrate, database)
                async with self._claiming:
                    await in_own_thread(owner.take, database, self._owner(name))
                    await in_own_thread(self._claims.claim, database, dict(self.positions))
                    await in_own_thread(database_halts.clear, database)
                    health.is_up()
                await in_own_thread(outbox.relay, database, self._brokers)
                log.info("a database is up", extra={"database": name, "waiting": self._index.events(name)})
            await self._drainer.drain(database, self._plan_log.routes)
            self._releases.held(name)
        except InfrastructureError as e:
            self.failed(name, e)

    async def _ask(self, name: str, reason: str) -> None:
        """Whether a person has resolved the halt of `name`, and how."""
        database, health = self._all[name], self._health[name]
        health.again_at = time.monotonic() + _ASK_SECONDS
        try:
            if not health.noted:
                await in_own_thread(database_halts.begin, database, reason)
                health.noted = True
            how = await in_own_thread(database_halts.ask, database, reason)
        except InfrastructureError as e:
            if e.fault is FENCED:
                raise
            log.warning("a halted database cannot be asked", extra=_fields(name, e))
            return
        if how == database_halts.RECHECK:
            await self.resolved(name, how)
        else:
            health.resolution = how

    async def resolved(self, name: str, how: str) -> None:
        """A person's word is done: the database is compared again."""
        await in_own_thread(database_halts.clear, self._all[name])
        log.warning("a halted database is resolved", extra={"database": name, "resolution": how})
        self._health[name] = Health()

    def pending_resolutions(self) -> dict[str, str]:
        """Halted databases whose missing events a person wants replayed or skipped."""
        free = self._health.keys() - self._returning.keys()
        return {n: how for n in free if (how := self._health[n].resolution)}

    def run_in_background(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Do `work` for a database that does not land now, while the others go on."""
        self._returning[name] = asyncio.create_task(work)

    def resolution_failed(self, name: str, error: InfrastructureError) -> None:
        """It failed: the person's word is asked for again.  Raises the error as `failed` does."""
        self._health[name].resolution = None
        self.failed(name, error)

    async def skip(self, name: str, missing: Sequence[Gap]) -> list[RangeMarker]:
        """Do without what is `missing` in `name`; returns new markers for what else cannot drain."""
        await in_own_thread(database_halts.skip, self._all[name], missing, self._epoch)
        return await self._drainer.lost(self._all[name], self._plan_log.routes)

    def gaps(self, name: str) -> list[Gap]:
        """What is missing in `name`, partition by partition (blocking)."""
        return self._claims.gaps(self._all[name], dict(self.positions))

    async def compare(self) -> None:
        """Halt databases whose ledger went back while they were idle."""
        positions = dict(self.positions)
        self._all_failed(await failures(self.landing(), lambda d: self._claims.compare(d, positions)))

    async def relay(self, databases: Iterable[Database]) -> None:
        """Move what the outboxes of `databases` still have to the topic."""
        self._all_failed(await failures(databases, lambda d: outbox.relay(d, self._brokers)))

    async def adopt(self, positions: Mapping[Partition, Position]) -> None:
        """Take new partitions in and claim them in every database that is up."""
        async with self._claiming:
            self.positions |= positions
            able = [d for n, d in self._all.items() if self._can(n)]
            self._all_failed(await failures(able, lambda d: self._claims.claim(d, positions)))

    def _all_failed(self, errors: Mapping[str, InfrastructureError]) -> None:
        for name, error in errors.items():
            self.failed(name, error)


def _fields(name: str, error: InfrastructureError) -> dict[str, str]:
    return {"database": name, "code": error.fault.code, "reason": error.detail}
