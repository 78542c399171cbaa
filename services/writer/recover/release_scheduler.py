"""When the driver releases what waits behind holds: in the background, with a growing pause.

A hold that starts or ends is said in the log, once; a paused event type as an error, because
only a person resumes it.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from services.writer.model.backoff import backoff_seconds
from services.writer.model.routes import Routes
from services.writer.park import outbox
from services.writer.plan.row_rates import RateLimiter
from services.writer.postgres.database import Database
from services.writer.postgres.database_threads import in_own_thread
from services.writer.recover.release import Release
from services.writer.settle.holds import STOPPED, Hold
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Watch:
    release: Release
    #: Whether there may be holds; without any the database is not asked.
    due: bool = True
    again_at: float = 0.0
    fruitless: int = 0
    task: "asyncio.Task[list[Hold]] | None" = None
    #: Something may be held that the look which is under way did not see.
    missed: bool = False
    known: tuple[Hold, ...] = ()


class ReleaseScheduler:
    """The releases of all databases."""

    def __init__(self, databases: Collection[Database], rate_limiter: RateLimiter, brokers: Brokers) -> None:
        self._brokers = brokers
        self._databases = {d.name: d for d in databases}
        self._watched = {d.name: _Watch(Release(d, rate_limiter)) for d in databases}

    def holds(self) -> dict[str, tuple[Hold, ...]]:
        """What was held when the databases were last asked."""
        return {name: w.known for name, w in self._watched.items()}

    def held(self, name: str) -> None:
        """A task let events of `name` wait, or somebody else may have: look soon."""
        watch = self._watched[name]
        watch.missed = watch.task is not None
        if not watch.due:
            watch.due, watch.again_at = True, 0.0

    def tick(self, able: Collection[str], routes: Routes) -> Iterator[tuple[str, InfrastructureError]]:
        """Begin what is due in the databases that are `able`; yields those that failed one."""
        for name, watch in self._watched.items():
            if watch.task is not None and watch.task.done():
                task, watch.task = watch.task, None
                try:
                    self._see(name, watch, task.result())
                except InfrastructureError as e:
                    yield name, e
                except Exception:
                    log.exception("a release failed for a reason that the writer does not know")
                    watch.fruitless += 1
                    watch.again_at = time.monotonic() + backoff_seconds(watch.fruitless)
            if watch.due and watch.task is None and name in able and time.monotonic() >= watch.again_at:
                watch.task = asyncio.create_task(in_own_thread(self._run, name, routes))

    async def wait_drained(self) -> None:
        """Wait where little is left: then live traffic takes over."""
        for watch in self._watched.values():
            if watch.task is not None and watch.release.nearly:
                await asyncio.wait({watch.task})

    async def stop(self) -> None:
        """Let go; what was begun rolls back or is finished by its thread."""
        tasks = [w.task for w in self._watched.values() if w.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, name: str, routes: Routes) -> list[Hold]:
        """Release, and relay what was parked by it (blocking)."""
        left = self._watched[name].release.run(routes)
        outbox.relay(self._databases[name], self._brokers)
        return left

    def _see(self, name: str, watch: _Watch, left: list[Hold]) -> None:
        """Say what is new and what is over; look again while something is left."""
        before = {(h.kind, h.name): h for h in watch.known}
        now = {(h.kind, h.name): h for h in left}
        for key, hold in now.items():
            if key not in before or before[key].state != hold.state:
                _say(name, hold)
        for key in before.keys() - now.keys():
            log.info("nothing waits for it any more", extra={"database": name, key[0]: key[1]})
        watch.fruitless = watch.fruitless + 1 if left and before == now else 0
        watch.known, watch.due = tuple(left), bool(left) or watch.missed
        soon = watch.release.nearly or watch.missed
        watch.again_at, watch.missed = (
            time.monotonic() + (0.0 if soon else backoff_seconds(watch.fruitless)),
            False,
        )


def _say(name: str, hold: Hold) -> None:
    extra = {"database": name, hold.kind: hold.name, "code": hold.fault.code, "sqlstate": hold.sqlstate}
    if hold.state == STOPPED:
        log.error(
            "an event type is paused: too many of its events are parked; mend the cause, then resume it",
            extra=extra | {"resume": f"onramp types resume {hold.name}"},
        )
    else:
        log.warning("events wait in their database", extra=extra | {"state": hold.state})
