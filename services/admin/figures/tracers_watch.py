"""Reads the tracers' `/status` in the background: pages and the Overview render from the last reading."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from services.admin.background_tasks import UntilStopped
from services.admin.figures.addresses import Addresses
from services.admin.figures.http_get import Address, read_page
from services.admin.figures.parts import Part, PartStates
from shared.tracer_status import TracerCell, TracerHour, TracerStatus

#: A tracer counts the results of a day for each answer, which costs it 50 ms.
POLL_SECONDS: Final = 15.0
_TIMEOUT_SECONDS: Final = 2.0
_LANDED: Final = "landed"
_decode: Final = msgspec.json.Decoder(TracerStatus).decode
#: Results that need an operator.
BAD: Final = frozenset({"lost", "duplicate", "refused", "not_in_lake"})


@dataclass(frozen=True, slots=True)
class TracersReading:
    """The last results; a tracer that does not answer is shown with its last ones, and is named."""

    is_configured: bool
    at: datetime | None = None
    cells: tuple[TracerCell, ...] = ()
    parts: tuple[Part, ...] = ()

    def down(self) -> tuple[Part, ...]:
        """Return the tracers that do not answer."""
        return tuple(part for part in self.parts if not part.is_up)

    @property
    def bad(self) -> tuple[TracerCell, ...]:
        """Return the cells whose last result, or a loss or duplicate of the day, needs an operator."""
        return tuple(
            cell for cell in self.cells if cell.result in BAD or cell.day.keys() & (BAD - {"refused"})
        )

    @property
    def sentence(self) -> str:
        """Return the last results of all in words."""
        landed = [cell.seconds or 0.0 for cell in self.cells if cell.result == _LANDED]
        if self.cells and len(landed) == len(self.cells):
            return f"All tracers landed, slowest {max(landed):.1f} s."
        others = [cell.result.replace("_", " ") for cell in self.cells if cell.result != _LANDED]
        listed = ", ".join(f"{others.count(name):,} {name}" for name in dict.fromkeys(sorted(others)))
        return f"{len(landed):,} of {len(self.cells):,} tracers landed: {listed}."


class TracersWatch(UntilStopped):
    """Reads until stopped; `reading` is the last one."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__()
        self._addresses = Addresses(urls)
        self._parts = PartStates()
        self._last: dict[Address, TracerStatus] = {}
        self._urls = urls
        self.reading = TracersReading(bool(urls))

    async def _go_on(self) -> None:
        while self._urls and not self.stopped:
            await self.read()
            await self.pause(POLL_SECONDS)

    async def read(self) -> None:
        """Read all tracers once."""
        current = await self._addresses.current()
        answers = await asyncio.gather(
            *(read_page(each, "/status", _decode, _TIMEOUT_SECONDS) for each in current)
        )
        reasons = [(f"tracer {url}", reason) for url, reason in self._addresses.unresolved.items()]
        last = {}
        for address, answer in zip(current, answers, strict=True):
            name = "tracer" if len(current) == 1 else f"tracer {address.ip}:{address.port}"
            reasons.append((name, answer if isinstance(answer, str) else ""))
            last[address] = self._last.get(address, TracerStatus()) if isinstance(answer, str) else answer
        self._last = last
        self._parts.update("tracer", reasons)
        cells = merged(cell for each in last.values() for cell in each.tracers)
        self.reading = TracersReading(
            is_configured=True, at=datetime.now(UTC), cells=cells, parts=self._parts.all()
        )


def merged(cells: Iterable[TracerCell]) -> tuple[TracerCell, ...]:
    """Return one cell for each entrance and destination: the newest result, and the sums of the day."""
    by_place: dict[tuple[str, str], TracerCell] = {}
    for cell in cells:
        place = cell.entrance, cell.destination
        known = by_place.get(place)
        by_place[place] = cell if known is None else _sum(known, cell)
    return tuple(cell for _, cell in sorted(by_place.items()))


def _sum(a: TracerCell, b: TracerCell) -> TracerCell:
    hours: dict[datetime, TracerHour] = {}
    for each in (*a.hours, *b.hours):
        known = hours.get(each.hour)
        if known is not None:
            seconds = [s for s in (known.slowest_seconds, each.slowest_seconds) if s is not None]
            slowest = max(seconds, default=None)
            each = TracerHour(each.hour, _added(known.results, each.results), slowest)  # noqa: PLW2901
        hours[each.hour] = each
    newest = max(a, b, key=lambda cell: cell.sent_at)
    return msgspec.structs.replace(
        newest, day=_added(a.day, b.day), hours=tuple(hours[hour] for hour in sorted(hours))
    )


def _added(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {name: a.get(name, 0) + b.get(name, 0) for name in sorted(a | b)}
