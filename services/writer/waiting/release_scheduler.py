"""Schedules the redelivery of events behind holds: in the background, with a growing backoff.

A hold that starts or ends is logged once; a paused event type as an error, because only an operator
resumes it.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator
from dataclasses import KW_ONLY, dataclass, field

from services.writer.batching.row_rates import RateLimiter
from services.writer.model.routes import Routes
from services.writer.park import outbox
from services.writer.postgres.database import Database
from services.writer.postgres.database_threads import in_own_thread
from services.writer.settle.holds import STATE_PAUSED, Hold
from services.writer.waiting.release import Release
from shared.backoff import Backoff
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Releases:
    release: Release
    _: KW_ONLY
    #: Whether there may be holds; otherwise the database is not queried.
    due: bool = True
    backoff: Backoff = field(default_factory=Backoff)
    task: "asyncio.Task[list[Hold]] | None" = None
    #: Events may wait that the running release has not read.
    missed: bool = False
    holds: tuple[Hold, ...] = ()


class ReleaseScheduler:
    """The releases of all databases, one at a time for each."""

    def __init__(
        self,
        databases: Collection[Database],
        rate_limiter: RateLimiter,
        brokers: Brokers,
        *,
        event_lines: int = 0,
    ) -> None:
        self._brokers = brokers
        self._databases = {d.name: d for d in databases}
        self._releases = {
            d.name: _Releases(Release(d, rate_limiter, event_lines=event_lines)) for d in databases
        }

    def holds(self) -> dict[str, tuple[Hold, ...]]:
        """Return the holds of each database as of its last release."""
        return {name: w.holds for name, w in self._releases.items()}

    def mark_waiting(self, name: str) -> None:
        """Start a release for `name` soon: events wait there, or may wait."""
        releases = self._releases[name]
        releases.missed = releases.task is not None
        if not releases.due:
            releases.due = True
            releases.backoff.pause(0)

    def tick(self, available: Collection[str], routes: Routes) -> Iterator[tuple[str, InfrastructureError]]:
        """Start due releases in `available` databases; yield the databases that failed, with the errors."""
        for name, releases in self._releases.items():
            if releases.task is not None and releases.task.done():
                task, releases.task = releases.task, None
                try:
                    self._end_release(name, releases, task.result())
                except InfrastructureError as e:
                    yield name, e
                except Exception:
                    log.exception("a release failed because of an unexpected error")
                    releases.backoff.fail()
            due = releases.due and releases.task is None and releases.backoff.is_due()
            if due and name in available:
                releases.task = asyncio.create_task(in_own_thread(self._run, name, routes))

    async def wait_drained(self) -> None:
        """Wait for releases that are almost done, so that live traffic takes over."""
        for releases in self._releases.values():
            if releases.task is not None and releases.release.almost_done:
                await asyncio.wait({releases.task})

    async def stop(self) -> None:
        """Cancel all releases; a running transaction rolls back or is finished by its thread."""
        tasks = [w.task for w in self._releases.values() if w.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, name: str, routes: Routes) -> list[Hold]:
        """Run a release, and relay the events that it parked; return the remaining holds (blocking)."""
        left = self._releases[name].release.run(routes)
        outbox.relay(self._databases[name], self._brokers)
        return left

    def _end_release(self, name: str, releases: _Releases, left: list[Hold]) -> None:
        """Log holds that started or ended, and schedule the next release while any is left."""
        before = {(h.kind, h.name): h for h in releases.holds}
        now = {(h.kind, h.name): h for h in left}
        for key, hold in now.items():
            if key not in before or before[key].state != hold.state:
                _log_hold(name, hold)
        for key in before.keys() - now.keys():
            log.info("a hold ended", extra={"database": name, key[0]: key[1]})
        if not left or before != now:
            releases.backoff.succeed()
        releases.holds, releases.due = tuple(left), bool(left) or releases.missed
        if releases.release.almost_done or releases.missed:
            releases.backoff.pause(0)
        else:
            releases.backoff.fail()
        releases.missed = False


def _log_hold(name: str, hold: Hold) -> None:
    extra = {"database": name, hold.kind: hold.name, "code": hold.fault.code, "sqlstate": hold.sqlstate}
    if hold.state == STATE_PAUSED:
        log.error(
            "an event type is paused: too many of its events are parked; fix the cause, then resume it",
            extra=extra | {"resume": f"onramp types resume {hold.name}"},
        )
    else:
        log.warning("events wait in their database", extra=extra | {"state": hold.state})
