"""The driver's loop: each turn reads the lags, and starts a run of each lane that has one.

`turn` is the flow.  A run is a job of a thread of its own, at most one for each lane.  The loop knows no
position: a run reads its own.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from services.transform.driver import tracer_transform
from services.transform.driver.deployed_transforms import Deployed, deployed_of
from services.transform.driver.kafka_epochs import take_epoch
from services.transform.driver.kafka_lags import Lag, Lags
from services.transform.driver.kafka_output_topics import OutputTopics
from services.transform.driver.kafka_states import States
from services.transform.driver.kafka_totals import TotalsFollower
from services.transform.driver.lane_jobs import Jobs
from services.transform.driver.lookup_snapshots import LookupSnapshots
from services.transform.driver.outcome_watch import OutcomeWatch, sums
from services.transform.lane.order import LaneReport
from services.transform.lane.spark_task import Shared
from services.transform.observe.status import Status, TransformEntry
from services.transform.settings import TransformSettings
from shared import wire
from shared.backoff import Backoff
from shared.errors import FENCED, InfrastructureError
from shared.kafka_read.lag_age import LagAge
from shared.kafka_security import Brokers
from shared.registry import Registry

log = logging.getLogger(__name__)

_REFRESH_SECONDS: Final = 1.0
_KAFKA_SECONDS: Final = 20.0
#: A run that moved nothing is not repeated at once.
_IDLE_SECONDS: Final = 1.0
_REPLAYS: Final = (wire.TRANSFORM_REPLAYS,)
_STATES_LOST: Final = f"{wire.TRANSFORMERS} was lost, and with it the state of the transform: resume it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a session."""

    settings: TransformSettings
    brokers: Brokers
    registry: Registry
    jobs: Jobs
    threads: Executor
    states: States
    totals: TotalsFollower
    lags: Lags
    topics: OutputTopics
    lookups: LookupSnapshots
    watch: OutcomeWatch
    status: Status
    stop: asyncio.Event


@dataclass(slots=True)
class _Lane:
    """The runs of one lane in this session."""

    run: "asyncio.Task[None] | None" = None
    backoff: Backoff = field(default_factory=Backoff)
    started_at: float = 0.0
    #: Whether a run has ended well since an operator accepted lost positions.
    has_accepted: bool = False


class _Due(NamedTuple):
    """The lanes of a transform that have work."""

    deployed: Deployed
    lanes: list[int]
    tables: Mapping[str, Shared]

    @property
    def name(self) -> str:
        return self.deployed.name


class Driver:
    """One session of the driver, with one epoch until the lanes change."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._deployed: dict[str, Deployed] = {}
        self._lanes: dict[str, dict[int, _Lane]] = defaultdict(lambda: defaultdict(_Lane))
        self._epoch = -1
        self._slots = 0
        #: The lanes of each transform in the epoch.
        self._epoch_lanes: dict[str, int] = {}
        self._cancelled: set[str] = set()
        #: Time of each transform's last start of a run.
        self._started_at: dict[str, float] = defaultdict(float)
        self._failures: dict[str, str] = {}
        self._waits: dict[str, str] = {}
        self._lag_ages: dict[str, LagAge] = defaultdict(LagAge)
        self._refreshed_at = 0.0
        self._woken = asyncio.Event()
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Take an epoch, and run lanes until stopped.  Raise the error that ends the session."""
        try:
            while not self._parts.stop.is_set():
                await self.turn()
                await self._pause()
        finally:
            await self._end_runs()

    async def turn(self) -> None:
        """Refresh the registry and lookups if due, read the lags, and start the runs that are possible."""
        if self._error is not None:
            raise self._error
        async with asyncio.timeout(_KAFKA_SECONDS):
            if time.monotonic() - self._refreshed_at >= _REFRESH_SECONDS:
                await self._refresh()
            await self._parts.lags.read_ends()
        entries, due = {}, []
        for name, deployed in self._deployed.items():
            try:
                lag = await self._parts.lags.of(name, deployed.source_topic)
            except InfrastructureError as e:  # its group's coordinator: the other transforms continue
                lag = Lag()
                self._failures[name] = f"{e.fault.code}: {e.detail}"
            entries[name] = self._entry(deployed, lag)
            tables = self._tables(deployed)
            if tables is not None and (lanes := self._due(deployed, lag)):
                due.append(_Due(deployed, lanes, tables))
        self._start_in_turn(due)
        self._parts.status.update(entries)

    async def _pause(self) -> None:
        """Wait for the next poll, the end of a run or the stop signal."""
        self._woken.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._parts.settings.poll_ms / 1000):
                await self._woken.wait()

    def wake(self) -> None:
        """Begin the next turn now."""
        self._woken.set()

    # --- what is deployed -----------------------------------------------------------------

    async def _refresh(self) -> None:
        """Read registry, states, totals and topics; cancel runs of changed transforms."""
        parts = self._parts
        self._slots = await asyncio.to_thread(self._read_slots)
        await asyncio.to_thread(parts.registry.refresh)
        if not parts.registry.is_read:
            return
        snapshot = parts.registry.snapshot()
        deployed = deployed_of(snapshot, parts.settings)
        paused = {name for name in deployed if parts.states.of(name).is_paused}
        await parts.states.refresh()
        for name in paused - {name for name in deployed if parts.states.of(name).is_paused}:
            parts.watch.reset(name)
        await parts.totals.refresh()
        await self._refuse_newer_epoch()
        for name in self._running():
            if deployed.get(name) != self._deployed.get(name) or parts.states.of(name).is_paused:
                self._cancel(name)
        for name in deployed.keys() - self._deployed.keys():
            parts.status.metrics.prepare(name)
        for name in self._deployed.keys() - deployed.keys():
            parts.status.metrics.forget(name)
        self._deployed = deployed
        await self._renew_epoch()
        await parts.lags.read_topics({*(each.source_topic for each in deployed.values()), *_REPLAYS})
        for each in deployed.values():
            await parts.topics.ensure(each.output_topics())
        used = {lookup for each in deployed.values() for lookup in each.transform.lookups}
        parts.lookups.follow({name: snapshot.lookups[name] for name in used if name in snapshot.lookups})
        await self._count_outcomes()
        self._refreshed_at = time.monotonic()

    def _read_slots(self) -> int:
        """Return Spark's slots, which change with the executors; none when its JVM has ended."""
        jobs = self._parts.jobs
        return jobs.slots if jobs.is_alive() else 0

    async def _renew_epoch(self) -> None:
        """Take an epoch at the start, and when the lanes of a transform change and no run of it is left."""
        needed = {name: each.lanes for name, each in self._deployed.items()}
        changed = {name for name, lanes in needed.items() if self._epoch_lanes.get(name) != lanes}
        is_first = self._epoch < 0
        for name in changed & set(self._running()):
            self._cancel(name)
        if is_first or (changed and not changed & set(self._running())):
            self._epoch = await take_epoch(self._parts.brokers, needed, None if is_first else changed)
            self._epoch_lanes |= needed
            self._parts.status.epoch = self._epoch
            self._parts.status.trouble = ""
            log.info("the driver has taken an epoch", extra={"epoch": self._epoch})
            if is_first and self._epoch == 0:
                await self._pause_after_loss()

    async def _pause_after_loss(self) -> None:
        """Pause the transforms that have run before the first epoch: their states are lost with the topic."""
        for name in self._deployed:
            if name != tracer_transform.NAME and self._parts.totals.positions.get(name):
                await self._pause_transform(name, _STATES_LOST)

    async def _refuse_newer_epoch(self) -> None:
        """Raise `InfrastructureError` (FENCED) if another driver has taken over."""
        newest = await self._parts.lags.newest_epoch() if self._epoch >= 0 else None
        if newest is not None and newest > self._epoch:
            raise InfrastructureError(FENCED, f"epoch {newest} is the newest, this is {self._epoch}")

    async def _count_outcomes(self) -> None:
        """Count new totals, and pause transforms by the pause rule."""
        parts = self._parts
        for name in self._deployed:
            positions = parts.totals.positions.get(name, {})
            parts.lags.update(name, {p: each.next for p, each in positions.items()})
            reason = parts.watch.add(name, positions)
            if reason is not None and not parts.states.of(name).is_paused:
                await self._pause_transform(name, reason)

    async def _pause_transform(self, name: str, reason: str) -> None:
        log.error("pausing a transform", extra={"transform": name, "reason": reason})
        await self._parts.states.pause(name, reason)
        self._cancel(name)

    # --- runs -----------------------------------------------------------------------------

    def _tables(self, deployed: Deployed) -> Mapping[str, Shared] | None:
        """Return the lookups of a run; None if no run may start now, with the reason noted."""
        name = deployed.name
        tables = self._parts.lookups.tables(deployed.transform.lookups)
        self._waits[name] = deployed.obstacle or (tables if isinstance(tables, str) else "")
        is_current = self._epoch_lanes.get(name) == deployed.lanes
        may_run = is_current and name not in self._cancelled and not self._parts.states.of(name).is_paused
        return tables if may_run and not self._waits[name] and not isinstance(tables, str) else None

    def _due(self, deployed: Deployed, lag: Lag) -> list[int]:
        """Return the lanes that have work, do not run and do not back off, in order of their last runs."""
        with_work = {p.number % deployed.lanes for p, events in lag.events.items() if events}
        if lag.without_position:
            with_work.add(0)
        lanes = self._lanes[deployed.name]
        due = [n for n in sorted(with_work) if lanes[n].run is None and lanes[n].backoff.is_due()]
        return sorted(due, key=lambda n: lanes[n].started_at)

    def _start_in_turn(self, due: "list[_Due]") -> None:
        """Start runs while there are slots; transforms and their lanes take turns.

        Spark would run the first by name of two waiting pools, again and again.
        """
        if not due:
            return
        runs = {name: sum(map(_is_running, lanes.values())) for name, lanes in self._lanes.items()}
        free = self._slots - sum(runs.values())
        while due and free > 0:
            each = min(due, key=lambda each: (runs[each.name], self._started_at[each.name]))
            self._start(each.deployed, each.lanes.pop(0), each.tables)
            runs[each.name] += 1
            free -= 1
            due = [other for other in due if other.lanes]

    def _start(self, deployed: Deployed, lane: int, tables: Mapping[str, Shared]) -> None:
        run = asyncio.create_task(self._run(deployed, lane, tables))
        run.add_done_callback(self._end)
        state = self._lanes[deployed.name][lane]
        state.run, state.started_at = run, time.monotonic()
        self._started_at[deployed.name] = state.started_at

    def _end(self, run: "asyncio.Task[None]") -> None:
        """Keep an unexpected error for the next turn, which raises it."""
        if not run.cancelled() and (error := run.exception()) is not None:
            self._error = error
        self.wake()

    async def _run(self, deployed: Deployed, lane: int, tables: Mapping[str, Shared]) -> None:
        """Run one lane, and note its result."""
        name, parts = deployed.name, self._parts
        accept = parts.states.of(name).accept
        order = deployed.order(
            lane, self._epoch, parts.brokers, parts.settings, seconds=self._budget(), accept=accept
        )
        try:
            loop = asyncio.get_running_loop()
            report = await loop.run_in_executor(parts.threads, parts.jobs.run, order, deployed.code, tables)
        except Exception as e:  # noqa: BLE001 - Spark's errors of a killed worker, a lost node or a cancel
            self._note_lost_run(name, lane, e)
        else:
            await self._note(report, accept=accept)
        finally:
            self._lanes[name][lane].run = None
            if name not in self._running():
                self._cancelled.discard(name)

    def _budget(self) -> float:
        """Return the seconds of a run: long while every lane of all transforms has a slot."""
        lanes = sum(each.lanes for each in self._deployed.values())
        settings = self._parts.settings
        return settings.run_seconds if lanes <= self._slots else settings.short_run_seconds

    def _note_lost_run(self, name: str, lane: int, error: Exception) -> None:
        """Note a run without a report: what it has committed is read from Kafka."""
        self._parts.lags.forget(name)
        is_cancelled = name in self._cancelled
        self._parts.status.metrics.runs.labels(name, "cancelled" if is_cancelled else "failed").inc()
        if not is_cancelled:
            seconds = self._lanes[name][lane].backoff.fail()
            self._failures[name] = f"the run's task ended: {type(error).__name__}"
            log.warning(
                "a lane run ended without a report",
                extra={
                    "transform": name,
                    "lane": lane,
                    "reason": type(error).__name__,
                    "retry_in_s": seconds,
                },
            )

    async def _note(self, report: LaneReport, *, accept: bool) -> None:
        """Note the report of a run: positions for the lag, backoff, and a position outside of the log."""
        name, parts = report.name, self._parts
        state = self._lanes[name][report.lane]
        parts.status.metrics.function_seconds.labels(name).inc(report.function_seconds)
        parts.status.metrics.runs.labels(name, "done" if report.fault is None else "failed").inc()
        if report.fault is not None:
            parts.lags.forget(name)
            parts.topics.forget()
            seconds = state.backoff.fail()
            self._failures[name] = f"{report.fault.code}: {report.detail}"
            log.warning(
                "a lane run failed",
                extra={
                    "transform": name,
                    "lane": report.lane,
                    "code": report.fault.code,
                    "reason": report.detail,
                    "retry_in_s": round(seconds, 1),
                },
            )
            if report.is_lost:
                await self._pause_transform(name, report.detail)
            return
        self._note_unreadable(name, report.unreadable)
        state.backoff.succeed()
        parts.lags.update(name, report.positions)
        if not report.transactions:
            state.backoff.pause(_IDLE_SECONDS)
        if accept:
            state.has_accepted = True
            await self._end_acceptance(name)

    def _note_unreadable(self, name: str, reason: str) -> None:
        """Note the partitions that a run could not read, or that there are none; log a new reason once."""
        before = self._failures.pop(name, None)
        if reason:
            self._failures[name] = reason
            if reason != before:
                log.error("partitions cannot be read", extra={"transform": name, "reason": reason})

    async def _end_acceptance(self, name: str) -> None:
        """Let later losses pause the transform again, once each of its lanes has run."""
        lanes = self._lanes[name]
        if all(lanes[n].has_accepted for n in range(self._epoch_lanes.get(name, 1))):
            await self._parts.states.accepted(name)
            for lane in lanes.values():
                lane.has_accepted = False

    def _running(self) -> list[str]:
        """Return the transforms with runs."""
        return [name for name, lanes in self._lanes.items() if any(lane.run for lane in lanes.values())]

    def _cancel(self, name: str) -> None:
        """Cancel the runs of a transform once; the next turns see their ends."""
        if name not in self._cancelled and name in self._running():
            self._cancelled.add(name)
            self._parts.jobs.cancel_transform(name)

    async def _end_runs(self) -> None:
        """Cancel all runs and wait for their ends; they end by themselves with Spark's JVM."""
        for name in self._running() if self._slots else ():
            self._cancel(name)
        runs = [lane.run for lanes in self._lanes.values() for lane in lanes.values() if lane.run]
        if runs:
            await asyncio.wait(runs)

    # --- state ----------------------------------------------------------------------------

    def _entry(self, deployed: Deployed, lag: Lag) -> TransformEntry:
        """Return the state of a transform, and show its gauges."""
        name, parts = deployed.name, self._parts
        state, metrics = parts.states.of(name), parts.status.metrics
        positions = parts.totals.positions.get(name, {})
        behind = self._lag_ages[name].seconds(*parts.lags.ends_and_positions(name, lag), time.monotonic())
        metrics.lag.labels(name).set(lag.total)
        metrics.behind.labels(name).set(behind)
        metrics.paused.labels(name).set(state.is_paused)
        metrics.show_version(name, deployed.code.digest)
        waits = self._waits.get(name, "")
        return TransformEntry(
            state="waiting" if waits and not state.is_paused else state.state,
            reason=waits if waits and not state.is_paused else state.reason,
            at=state.at,
            by=state.by,
            version=deployed.code.digest,
            source_topic=deployed.source_topic,
            lanes=deployed.lanes,
            running_lanes=sorted(n for n, lane in self._lanes[name].items() if lane.run),
            lag={str(p): events for p, events in lag.events.items()},
            behind_seconds=round(behind, 1),
            totals=sums(positions),
            last_failure=self._failures.get(name, ""),
        )


def _is_running(lane: _Lane) -> bool:
    return lane.run is not None
