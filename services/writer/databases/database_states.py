"""The configured databases: their states, and the return of a database after an outage.

A database that is unreachable is tried again after a growing backoff (its breaker).  When it answers, it is
claimed, compared with the events that wait for it, and drained before it takes live traffic.
"""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from services.writer.batching.row_rates import RateLimiter
from services.writer.databases import halts, owner
from services.writer.databases.claims import Claims
from services.writer.databases.diverted_index import DivertedIndex
from services.writer.databases.drain import Drainer
from services.writer.databases.halts import Gap
from services.writer.databases.owner import Owner
from services.writer.kafka.producer import is_expected
from services.writer.model.exits import ends
from services.writer.model.next_offsets import Position
from services.writer.model.routes import Routes
from services.writer.park import outbox
from services.writer.park.diverted_topic import RangeMarker
from services.writer.partitions.plan_log import PlanLog
from services.writer.partitions.quarantine import describe
from services.writer.postgres.database import Database
from services.writer.postgres.database_threads import failures, in_own_thread
from services.writer.postgres.migrations import migrate
from services.writer.replay.scheduler import ReplayScheduler
from services.writer.settle.holds import Hold
from services.writer.waiting.release_scheduler import ReleaseScheduler
from shared.backoff import Backoff
from shared.errors import (
    DATABASE_OWNED,
    DATABASE_UNAVAILABLE,
    FENCED,
    INTERNAL_WRITER,
    KAFKA_UNAVAILABLE,
    LEDGER_GAP,
    InfrastructureError,
)
from shared.kafka_read.offsets import Partition
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

#: Seconds between two readings of the operator's decision from a halted database.
_POLL_SECONDS: Final = 1.0


@dataclass(slots=True, kw_only=True)
class Health:
    """The driver's knowledge of one database."""

    up: bool = False
    halted: str | None = None
    #: Whether the halt is recorded in the database, in which an operator resolves it.
    recorded: bool = False
    #: The operator's decision about the missing events: refill or skip.
    resolution: str | None = None
    #: The reason of an outage.
    reason: str | None = None
    #: Waiting does not help: an operator must act.
    needs_operator: bool = False
    #: The time of the next attempt, or of the next reading of its halt.
    backoff: Backoff = field(default_factory=Backoff)

    def mark_up(self) -> None:
        """Mark the database as answering and claimed."""
        self.up, self.reason, self.needs_operator = True, None, False
        self.backoff.succeed()

    def mark_out(self, reason: str, *, needs_operator: bool = False) -> None:
        """Mark the database as failed; it is tried again after a growing backoff."""
        self.reason, self.needs_operator = reason, needs_operator
        self.up = False
        self.backoff.fail()


class DatabaseStates:
    """Answers from each database's health and the diverted-range index, without any request."""

    def __init__(self, configured: Sequence[Database], index: DivertedIndex) -> None:
        self._databases = {d.name: d for d in configured}
        self._health = {d.name: Health() for d in configured}
        self._index = index
        #: Databases that the registry names and the settings do not: their events are diverted.
        self.unconfigured: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """Return the names of all configured databases."""
        return list(self._databases)

    def landing(self) -> tuple[Database, ...]:
        """Return the databases that take the next batch: up, not halted, and without older waiting events.

        The model's rules `divert_behind` and `halt_diverts`.
        """
        return tuple(d for n, d in self._databases.items() if self.is_landing(n))

    def is_landing(self, name: str) -> bool:
        """Return whether the database takes the next batch."""
        return self._is_available(name) and not self._index.has_waiting(name)

    def up(self) -> list[Database]:
        """Return the databases that answer."""
        return [d for n, d in self._databases.items() if self._health[n].up]

    def untried(self) -> list[str]:
        """Return the databases without a known state: neither up, nor unreachable, nor halted."""
        return [n for n, h in self._health.items() if not (h.up or h.reason or h.halted)]

    def any_available(self) -> bool:
        """Return whether any database is up and not halted."""
        return any(self._is_available(n) for n in self._databases)

    def split(
        self, overrun: Collection[str] = (), planned: Collection[str] = ()
    ) -> tuple[tuple[Database, ...], tuple[str, ...]]:
        """Return the databases that take the next batch, and the names of those whose events are diverted.

        The databases in `overrun` are diverted although they are up: they take the batch in pieces, as
        they drain.  `planned`: the unconfigured databases of the routes that the batch was planned under.
        """
        landing = tuple(d for d in self.landing() if d.name not in overrun)
        others = self.with_unconfigured(planned)
        return landing, tuple(n for n in others if n not in {d.name for d in landing})

    def with_unconfigured(self, planned: Collection[str] = ()) -> list[str]:
        """Return the names of all configured databases, and of the others that routes name."""
        return list(dict.fromkeys([*self._databases, *sorted(self.unconfigured), *sorted(planned)]))

    def require_available(self) -> None:
        """Raise `InfrastructureError` when no database is up; then Kafka is the buffer."""
        if not self.any_available():
            reasons = "; ".join(h.halted or h.reason or f"{n} is out" for n, h in self._health.items())
            raise InfrastructureError(DATABASE_UNAVAILABLE, f"no database is up: {reasons}")

    def states(self) -> dict[str, str]:
        """Return the state of each database: landing, draining, out or halted."""
        return {n: self._state(n) for n in self._databases}

    def reasons(self) -> dict[str, str]:
        """Return the reason for each database that is unreachable or halted."""
        return {n: reason for n, h in self._health.items() if (reason := h.halted or h.reason)}

    def _state(self, name: str) -> str:
        health = self._health[name]
        if health.halted or health.needs_operator:
            return "halted"
        if not health.up:
            return "out"
        return "draining" if self._index.has_waiting(name) else "landing"

    def unknown(self) -> dict[str, int]:
        """Return the number of events that wait on Kafka for each database that is not configured."""
        names = sorted(self._index.databases() - self._databases.keys())
        return {n: events for n in names if (events := self._index.events(n))}

    def _is_available(self, name: str) -> bool:
        return self._health[name].up and not self._health[name].halted


class Databases(DatabaseStates):
    """All configured databases of one writer, and the return of each after an outage."""

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
        event_lines: int = 0,
    ) -> None:
        super().__init__(configured, index)
        self._plan_log = plan_log
        self._drainer = drainer
        self._cluster_id = cluster_id
        self._epoch = epoch
        self._claims = Claims(plan_log, index, epoch)
        self._brokers = brokers
        self._returning: dict[str, asyncio.Task[None]] = {}
        self._releases = ReleaseScheduler(configured, rate_limiter, brokers, event_lines=event_lines)
        self.replays = ReplayScheduler(configured, rate_limiter, self.is_landing, event_lines=event_lines)
        # Without it a returning database and an adopted partition could miss each other's claim.
        self._claiming = asyncio.Lock()
        #: Set whenever a database turns out to be up or unreachable.
        self._state_known = asyncio.Event()
        #: Every adopted partition and the next offset to plan of it.
        self.positions: dict[Partition, Position] = {}
        self._doubted: set[str] = set()

    def drains(self) -> bool:
        """Return whether a database is returning or draining now."""
        return bool(self._returning)

    def _owner(self, name: str) -> Owner:
        return Owner(self._cluster_id, name)

    def failed(self, name: str, error: InfrastructureError) -> None:
        """Mark a database as unreachable or halted because of `error`.

        Raises `error` itself when it ends the writer (the model's rule `fenced_exits`).
        """
        if ends(error):
            raise error
        self._state_known.set()
        if error.fault is KAFKA_UNAVAILABLE:
            log.warning("Kafka is unreachable: a database's outbox waits", extra=_fields(name, error))
            return
        health = self._health[name]
        if error.fault is LEDGER_GAP:
            health.halted = error.detail
            health.recorded = False
            health.backoff.pause(0)
            log.error("a database is halted until an operator resolves it", extra=_fields(name, error))
            return
        health.mark_out(error.detail, needs_operator=error.fault is DATABASE_OWNED)
        log.warning("a database is unreachable, its events wait", extra=_fields(name, error))

    def mark_waiting(self, name: str) -> None:
        """Record that events wait in the database itself, behind a hold."""
        self._releases.mark_waiting(name)

    def holds(self) -> dict[str, tuple[Hold, ...]]:
        """Return the holds of every database, as last read."""
        return self._releases.holds()

    async def reconcile(self, routes: Routes) -> None:
        """Start the returns, drains and redeliveries that are due, in the background.  Never blocks.

        Raises the error of a background task that ends the writer.
        """
        for name, health in self._health.items():
            if (task := self._returning.get(name)) and task.done():
                del self._returning[name]
                self._end_return(name, task.exception())
            if name in self._returning:
                continue
            due = health.backoff.is_due()
            if health.halted and due and not health.resolution:
                self._returning[name] = asyncio.create_task(self._read_resolution(name, health.halted))
            elif not health.halted and (
                (due and not health.up) or (health.up and self._index.has_waiting(name))
            ):
                self._returning[name] = asyncio.create_task(self._return(name))

        for name, error in self._releases.tick([n for n in self._databases if self._is_available(n)], routes):
            self.failed(name, error)
        for name, error in self.replays.tick(routes):
            self.failed(name, error)

    def _end_return(self, name: str, error: BaseException | None) -> None:
        """Handle the end of a return; after an unexpected exception the return is tried again."""
        if error is None:
            return
        if is_expected(error) or not isinstance(error, Exception):
            raise error
        log.error("a database cannot return because of an unexpected error", exc_info=error)
        self.resolution_failed(
            name, InfrastructureError(INTERNAL_WRITER, f"it cannot return: {describe(error)}")
        )

    async def wait_drained(self) -> None:
        """Wait for drains and redeliveries that are almost done: then live traffic takes over."""
        await self._releases.wait_drained()
        for name, task in list(self._returning.items()):
            if self._is_available(name) and self._index.almost_drained(name):
                await asyncio.wait({task})

    async def stop(self) -> None:
        """Cancel all returns; a running transaction rolls back or is finished by its thread."""
        await self._releases.stop()
        await self.replays.stop()
        for task in self._returning.values():
            task.cancel()
        await asyncio.gather(*self._returning.values(), return_exceptions=True)

    async def wait_first_tries(self, seconds: float) -> None:
        """Wait until the state of each database is known, for `seconds` at most.

        Ranges that are planned before that are diverted for all databases without a known state.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.untried():
                    self._state_known.clear()
                    await self._state_known.wait()

    async def wait_for_return(self, seconds: float) -> None:
        """Wait until a running return ends, for `seconds` at most."""
        if self._returning:
            await asyncio.wait(self._returning.values(), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(seconds)

    async def _return(self, name: str) -> None:
        database, health = self._databases[name], self._health[name]
        try:
            if not health.up:
                await in_own_thread(owner.check, database, self._owner(name))
                await in_own_thread(migrate, database)
                async with self._claiming:
                    await in_own_thread(owner.take, database, self._owner(name))
                    await in_own_thread(self._claims.claim, database, dict(self.positions))
                    await in_own_thread(halts.clear, database)
                    health.mark_up()
                    self._state_known.set()
                await in_own_thread(outbox.relay, database, self._brokers)
                log.info("a database is up", extra={"database": name, "waiting": self._index.events(name)})
            await self._drainer.drain(database, self._plan_log.routes)
            self._releases.mark_waiting(name)
        except InfrastructureError as e:
            self.failed(name, e)

    async def _read_resolution(self, name: str, reason: str) -> None:
        """Read the operator's decision about the halt of `name`, and recheck if that is the decision."""
        database, health = self._databases[name], self._health[name]
        health.backoff.pause(_POLL_SECONDS)
        try:
            if not health.recorded:
                await in_own_thread(halts.record, database, reason)
                health.recorded = True
            resolution = await in_own_thread(halts.resolution, database, reason)
        except InfrastructureError as e:
            if e.fault is FENCED:
                raise
            log.warning("the resolution of a halted database could not be read", extra=_fields(name, e))
            return
        if resolution == halts.RECHECK:
            await self.resolved(name, resolution)
        else:
            health.resolution = resolution

    async def resolved(self, name: str, resolution: str) -> None:
        """End a halt after the operator's decision was carried out; the database is compared again."""
        await in_own_thread(halts.clear, self._databases[name])
        log.warning("a halted database is resolved", extra={"database": name, "resolution": resolution})
        self._health[name] = Health()

    def pending_resolutions(self) -> dict[str, str]:
        """Return the databases to refill or skip, as their operators decided."""
        free = self._health.keys() - self._returning.keys()
        return {n: resolution for n in free if (resolution := self._health[n].resolution)}

    def run_in_background(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` for a database that does not land now, while the others continue."""
        self._returning[name] = asyncio.create_task(work)

    def resolution_failed(self, name: str, error: InfrastructureError) -> None:
        """Handle the failure of a resolution: the decision is reloaded.  Raises as `failed` does."""
        self._health[name].resolution = None
        self.failed(name, error)

    async def skip(self, name: str, gaps: Sequence[Gap]) -> list[RangeMarker]:
        """Skip `gaps` in `name`; return new markers for ranges whose events are not complete."""
        await in_own_thread(halts.skip, self._databases[name], gaps, self._epoch)
        return await self._drainer.incomplete_markers(self._databases[name], self._plan_log.routes)

    def gaps(self, name: str) -> list[Gap]:
        """Return the offsets missing in `name`, by partition (blocking)."""
        return self._claims.gaps(self._databases[name], dict(self.positions))

    async def compare(self) -> None:
        """Halt databases whose idle ledger has lower offsets now (the model's rule `idle_compare`)."""
        positions = dict(self.positions)
        self._fail_all(await failures(self.landing(), lambda d: self._claims.compare(d, positions)))

    def doubt(self, name: str) -> None:
        """Record that a database did not answer a reading of its metrics."""
        self._doubted.add(name)

    async def compare_doubted(self) -> None:
        """Compare the ledgers of doubted databases, so that an idle writer notices an outage."""
        doubted, self._doubted = self._doubted, set()
        positions = dict(self.positions)
        landing = [d for d in self.landing() if d.name in doubted]
        self._fail_all(await failures(landing, lambda d: self._claims.compare(d, positions)))

    async def relay(self, databases: Iterable[Database]) -> None:
        """Publish the remaining rows in the outboxes of `databases`."""
        self._fail_all(await failures(databases, lambda d: outbox.relay(d, self._brokers)))

    async def adopt(self, positions: Mapping[Partition, Position]) -> None:
        """Add new partitions and claim them in every database that is up."""
        async with self._claiming:
            self.positions |= positions
            available = [d for n, d in self._databases.items() if self._is_available(n)]
            self._fail_all(await failures(available, lambda d: self._claims.claim(d, positions)))

    def _fail_all(self, errors: Mapping[str, InfrastructureError]) -> None:
        for name, error in errors.items():
            self.failed(name, error)


def _fields(name: str, error: InfrastructureError) -> dict[str, str]:
    return {"database": name, "code": error.fault.code, "reason": error.detail}
