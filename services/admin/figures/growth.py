"""Growth of counters between two readings: of gateways since they started, of databases since the beginning.

A gateway is identified by its instance and not by its address: behind one address there may be several, and
after a restart there is another one, whose counts begin at 0.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from services.admin.figures.hour import STEP_SECONDS, Key
from shared.figures import GatewayFigures, Spread, WriterFigures, gateway_growth, writer_growth, writer_totals

#: Seconds after which an instance that no longer answers is forgotten.
_FORGET_SECONDS: Final = 3600.0

#: Metrics of the gateway and of the writer in the hour.
ACCEPTED: Final = "accepted"
REJECTED: Final = "rejected"
LANDED: Final = "landed"
DUPLICATE: Final = "duplicate"
PARKED: Final = "parked"
#: Landed events by database.
DATABASE: Final = "database"
_OF_WRITER: Final = {
    "landed": LANDED,
    "replayed": LANDED,
    "duplicate": DUPLICATE,
    "replayed_duplicate": DUPLICATE,
    "parked": PARKED,
    "refused": PARKED,
}
#: Events by metric and name, and the number of steps in which they came.
Growth = tuple[Counter[Key], int]


class GatewayGrowth:
    """The last figures of each gateway."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, GatewayFigures]] = {}
        self._began: float | None = None

    def add(self, readings: Iterable[GatewayFigures], now: float) -> tuple[list[Growth], Spread]:
        """Return the growth of each gateway, and the request times.

        `now` is in monotonic seconds.  A gateway that started after the last call has grown from 0.  The past
        of one that started earlier, and was not known, is not counted.
        """
        previous, self._began = self._began, now
        result, spread = [], Spread()
        for figures in {each.instance: each for each in readings}.values():
            at, before = self._last.get(figures.instance, (now, None))
            self._last[figures.instance] = (now, figures)
            if before is None:
                if previous is None or figures.uptime_seconds > now - previous:
                    result.append((Counter[Key](), 1))
                    continue
                before = GatewayFigures(instance=figures.instance, uptime_seconds=0.0)
            result.append((_of_gateway(gateway_growth(before, figures)), round((now - at) / STEP_SECONDS)))
            spread += figures.request_seconds.since(before.request_seconds)
        self._last = {name: each for name, each in self._last.items() if each[0] > now - _FORGET_SECONDS}
        return result, spread


class WriterGrowth:
    """The last totals of each database, also while the writer restarts or is on standby."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, str, str], int] = {}
        self._at: dict[str, float] = {}
        self._instance = ""
        self._commit_seconds = Spread()

    def add(self, figures: WriterFigures, now: float) -> tuple[list[Growth], Spread]:
        """Return the growth of each database with its number of steps, and the times to commit."""
        totals = writer_totals(figures)
        growth = writer_growth(self._totals, totals)
        read = {database for _, database, _ in totals}
        result = []
        for database in sorted(read):
            of_database = {key: n for key, n in growth.items() if key[1] == database}
            steps = round((now - self._at.get(database, now)) / STEP_SECONDS)
            result.append((_of_writer(of_database), steps))
        self._at |= dict.fromkeys(read, now)
        self._totals = {key: n for key, n in self._totals.items() if key[1] not in read} | totals
        before = self._commit_seconds if figures.instance == self._instance else Spread()
        self._instance, self._commit_seconds = figures.instance, figures.commit_seconds
        return result, figures.commit_seconds.since(before)

    def names(self, outcome: str) -> set[str]:
        """Return the event types with a total of this outcome."""
        return {name for name, _, each in self._totals if each == outcome}


def _of_gateway(growth: Mapping[tuple[str, str], int]) -> Counter[Key]:
    result: Counter[Key] = Counter()
    for (name, outcome), n in growth.items():
        metric = ACCEPTED if outcome == "accepted" else REJECTED
        result[metric, name] += n
        result[metric, ""] += n
    return result


def _of_writer(growth: Mapping[tuple[str, str, str], int]) -> Counter[Key]:
    result: Counter[Key] = Counter()
    for (name, database, outcome), n in growth.items():
        if (metric := _OF_WRITER.get(outcome)) is None:
            continue
        result[metric, name] += n
        result[metric, ""] += n
        if metric == LANDED:
            result[DATABASE, database] += n
    return result
