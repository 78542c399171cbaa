"""The statements of days as pages show them: those of today and yesterday are made in the background.

A page never reads Kafka: today's statement ends at the last background reading, and the statement of a past
day needs stored readings alone.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from typing import Final

from services.admin.background_tasks import UntilStopped
from services.admin.statements.period import Statements
from services.ops.statement.balance import Statement
from services.ops.statement.one_topic import accepted
from shared.errors import InfrastructureError

log = logging.getLogger(__name__)

_SECONDS: Final = 60.0
#: The pause is at least this multiple of the time that the statements of today and yesterday take.
_PAUSES: Final = 25.0
#: Seconds for which the statement of a past day is reused: only the states of its parked events change.
_REUSE_SECONDS: Final = 300.0
_MAX_DAYS: Final = 8


@dataclass(frozen=True, slots=True)
class DayStatement:
    """The statement of a day, and the time at which it was made."""

    day: date
    statement: Statement
    at: datetime

    @property
    def accepted(self) -> int:
        """Return the records of the day."""
        return accepted(self.statement)

    @property
    def is_known(self) -> bool:
        """Return whether a reading at the start of the day is stored."""
        times = self.statement.times.values()
        return bool(times) and all(first is not None for first, _ in times)

    @property
    def kind(self) -> str:
        """Return the kind of its banner."""
        if not self.statement.adds_up:
            return "err"
        return "wait" if self.statement.unevaluated else "ok"

    @property
    def sentence(self) -> str:
        """Return the result in words."""
        if not self.statement.adds_up:
            count = len(self.statement.differences)
            fail = "number does" if count == 1 else "numbers do"
            return f"{self.accepted:,} accepted; {count:,} {fail} not add up."
        if self.statement.unevaluated:
            parts = ", ".join([*self.statement.unevaluated][:3])
            return f"{self.accepted:,} accepted, no difference; not evaluated: {parts}."
        return f"{self.accepted:,} accepted, all accounted for."


class DayStatements(UntilStopped):
    """Makes the statements of today and yesterday until stopped, and those of other days on request."""

    def __init__(self, statements: Statements) -> None:
        super().__init__()
        self._statements = statements
        self._past: dict[date, tuple[float, DayStatement]] = {}
        self._one_at_a_time = asyncio.Lock()
        #: The statements of this day up to now, and of the day before; None while they are being made.
        self.today: DayStatement | None = None
        self.yesterday: DayStatement | None = None
        #: Why the last attempt failed.
        self.problem = ""

    async def _go_on(self) -> None:
        while not self.stopped:
            began = time.monotonic()
            await self.refresh(datetime.now(UTC))
            await self.pause(max(_SECONDS, _PAUSES * (time.monotonic() - began)))

    async def refresh(self, now: datetime) -> None:
        """Make the statements of today and yesterday; those of another day are dropped."""
        today = now.date()
        try:
            found = await self._statements.of(_start(today), None, lambda _: True, now)
            self.today = DayStatement(today, found, now)
            self.yesterday = await self.of_past_day(today - timedelta(days=1), now)
            self.problem = ""
        except InfrastructureError as e:
            log.warning("the statements of today and yesterday failed", extra={"reason": e.detail})
            self.problem = e.detail
            self.today = self.today if self.today and self.today.day == today else None
            if self.yesterday and self.yesterday.day != today - timedelta(days=1):
                self.yesterday = None

    async def of_past_day(self, day: date, now: datetime) -> DayStatement:
        """Return the statement of a day that has ended, from stored readings alone.

        Raises `InfrastructureError` if the control database does not answer.
        """
        async with self._one_at_a_time:
            made_at, known = self._past.get(day, (0.0, None))
            if known is not None and time.monotonic() - made_at < _REUSE_SECONDS:
                return known
            end = _start(day) + timedelta(days=1)
            found = DayStatement(day, await self._statements.of(_start(day), end, lambda _: True, now), now)
            self._past.pop(day, None)
            self._past[day] = time.monotonic(), found
            while len(self._past) > _MAX_DAYS:
                del self._past[next(iter(self._past))]
            return found


def _start(day: date) -> datetime:
    return datetime.combine(day, clock(), UTC)
