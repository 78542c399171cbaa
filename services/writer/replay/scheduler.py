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

#: The admin service stages a part of a job ahead: the next part comes soon, and is looked for so often...
_AGAIN_SECONDS: Final = 0.2
#: ... for so long after the last one.
_LOOKED_FOR_SECONDS: Final = 10.0


@dataclass(slots=True)
class _Replays:
    replay: Replay
    rehearsal: Rehearsal
    _: KW_ONLY
    due: bool = False
    backoff: Backoff = field(default_factory=Backoff)
    task: "asyncio.Task[Done] | None" = None
    ended: Counter[str] = field(default_factory=Counter)
    looked_for_until: float = 0.0


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
        #: Whoever writes a batch of live events says so.
        self.live = LiveEvents()
        self._replays = {
            d.name: _Replays(
                Replay(
                    d,
                    rate_limiter,
                    may_land=self._asked_for(d.name),
                    live_come=self.live.come,
                    event_lines=event_lines,
                ),
                Rehearsal(d, rate_limiter, may_land=self._asked_for(d.name)),
            )
            for d in databases
        }

    def _asked_for(self, name: str) -> Callable[[], bool]:
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
                    log.exception("a replay failed for a reason that the writer does not know")
                    replays.backoff.fail()
            due = replays.due and replays.task is None and replays.backoff.is_due()
            if due and self._may_land(name):
                replays.task = asyncio.create_task(in_own_thread(_run, replays, routes))

    def _end(self, replays: _Replays, done: Done) -> None:
        """Run again soon while a job is in progress; else wait for `mark_staged`."""
        replays.ended += done.ended
        if done.ended or done.answered:
            replays.looked_for_until = monotonic() + _LOOKED_FOR_SECONDS
        replays.due = monotonic() < replays.looked_for_until
        if replays.due:
            replays.backoff.succeed()
            replays.backoff.pause(_AGAIN_SECONDS)
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
        except InfrastructureError:  # it is raised when nothing is left to land, if it lasts
            fails = True

    ended = replay.run(routes, between=answer)
    return Done(ended, answered + rehearsal.run(routes))
