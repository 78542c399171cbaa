"""Schedules replays in the background, one run at a time for each database.

A check every second, and not a batch, finds out whether attempts are staged.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import KW_ONLY, dataclass, field
from time import monotonic
from typing import Final, NamedTuple

from services.writer.batching.row_rates import RateLimiter
from services.writer.model.routes import Routes
from services.writer.postgres.database import Database
from services.writer.postgres.database_threads import in_own_thread
from services.writer.replay.live_traffic import LiveEvents
from services.writer.replay.rehearse import Rehearsal
from services.writer.replay.replay import Replay
from shared.backoff import Backoff
from shared.errors import InfrastructureError

log = logging.getLogger(__name__)

#: Seconds between two runs while a job is in progress: the admin service stages the next part soon.
_RERUN_SECONDS: Final = 0.2
#: Seconds after the last ended attempt for which a job counts as in progress.
_JOB_SECONDS: Final = 10.0


@dataclass(slots=True)
class _Replays:
    replay: Replay
    rehearsal: Rehearsal
    _: KW_ONLY
    due: bool = False
    backoff: Backoff = field(default_factory=Backoff)
    task: "asyncio.Task[Done] | None" = None
    ended: Counter[str] = field(default_factory=Counter)
    job_until: float = 0.0


class Done(NamedTuple):
    """The result of a run: ended attempts by outcome, and the number of rehearsals."""

    ended: Counter[str]
    answered: int


class ReplayScheduler:
    """The replays of all databases."""

    def __init__(
        self,
        databases: Collection[Database],
        rate_limiter: RateLimiter,
        may_land: Callable[[str], bool],
        *,
        event_lines: int = 0,
    ) -> None:
        """`may_land`: whether the database of this name takes live events now."""
        self._may_land = may_land
        self._stopped = False
        #: The live traffic, which the loop marks during a batch.
        self.live = LiveEvents()
        self._replays = {
            d.name: _Replays(
                Replay(
                    d,
                    rate_limiter,
                    may_land=self._may_run(d.name),
                    is_live=self.live.is_arriving,
                    event_lines=event_lines,
                ),
                Rehearsal(d, rate_limiter, may_land=self._may_run(d.name)),
            )
            for d in databases
        }

    def _may_run(self, name: str) -> Callable[[], bool]:
        return lambda: not self._stopped and self._may_land(name)

    def mark_staged(self, name: str) -> None:
        """Run the replays of `name` soon, because attempts are staged in it."""
        self._replays[name].due = True

    def take_ended(self) -> dict[str, Counter[str]]:
        """Return, by database, the attempts ended since the last call, by outcome."""
        ended = {name: replays.ended for name, replays in self._replays.items() if replays.ended}
        for name in ended:
            self._replays[name].ended = Counter()
        return ended

    def tick(self, routes: Routes) -> Iterator[tuple[str, InfrastructureError]]:
        """Start the runs that are due; yield the databases of failed runs with the errors."""
        for name, replays in self._replays.items():
            if replays.task is not None and replays.task.done():
                task, replays.task = replays.task, None
                try:
                    self._end(replays, task.result())
                except InfrastructureError as e:
                    replays.backoff.fail()
                    yield name, e
                except Exception:
                    log.exception("a replay failed because of an unexpected error")
                    replays.backoff.fail()
            due = replays.due and replays.task is None and replays.backoff.is_due()
            if due and self._may_land(name):
                replays.task = asyncio.create_task(in_own_thread(_run, replays, routes))

    def _end(self, replays: _Replays, done: Done) -> None:
        """Run again soon while a job is in progress; else wait for `mark_staged`."""
        replays.ended += done.ended
        if done.ended or done.answered:
            replays.job_until = monotonic() + _JOB_SECONDS
        replays.due = monotonic() < replays.job_until
        if replays.due:
            replays.backoff.succeed()
            replays.backoff.pause(_RERUN_SECONDS)
        else:
            replays.backoff.fail()

    async def stop(self) -> None:
        """Cancel all runs; a running transaction rolls back or is finished by its thread."""
        self._stopped = True
        tasks = [r.task for r in self._replays.values() if r.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _run(replays: _Replays, routes: Routes) -> Done:
    return land_and_answer(replays.replay, replays.rehearsal, routes)


def land_and_answer(replay: Replay, rehearsal: Rehearsal, routes: Routes) -> Done:
    """Land the staged attempts, and rehearse between the pages, so that no rehearsal waits for a long replay.

    Blocking.  Raises `InfrastructureError` when the database fails.
    """
    answered = 0
    fails = False

    def answer() -> None:
        nonlocal answered, fails
        if fails:
            return
        try:
            answered += rehearsal.run(routes, pages=1)
        except InfrastructureError:  # if it lasts, the last rehearsal raises it after the replay
            fails = True

    ended = replay.run(routes, between=answer)
    return Done(ended, answered + rehearsal.run(routes))
