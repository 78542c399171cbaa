"""A bench's figures, with the limit of the same run, and those that got slower beyond the noise."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

LESS: Final = "less"
MORE: Final = "more"

#: Medians that differ by less than this are the same, however narrow their ranges are.
_SAME: Final = 0.05
#: A figure that was taken once has no range of its own.
_ONCE: Final = 0.25


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a bench: a value for each round, never only the best."""

    name: str
    unit: str
    better: str
    values: list[float]
    limit: list[float] = field(default_factory=list)
    """The best value of the same machine in the same rounds, in the same unit."""

    @property
    def ratio(self) -> list[float]:
        """The values as multiples of the limit; empty without one."""
        if not self.limit:
            return []
        middle = statistics.median(self.limit)
        limits = self.limit if len(self.limit) == len(self.values) else [middle] * len(self.values)
        return [value / limit for value, limit in zip(self.values, limits, strict=True) if limit]

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """Return the figure of an `as_dict` document."""
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Change:
    """A figure of two reports."""

    name: str
    before: list[float]
    after: list[float]
    slower: bool

    @property
    def factor(self) -> float:
        """The later median over the earlier."""
        return statistics.median(self.after) / statistics.median(self.before)


def compare(before: Iterable[Figure], after: Iterable[Figure], *, same_machine: bool) -> list[Change]:
    """Return the figures that both have; of different machines only those that are ratios to a limit."""
    old = {figure.name: figure for figure in before}
    changes = []
    for new in after:
        was = old.get(new.name)
        if was is None:
            continue
        pair = (was.ratio, new.ratio) if was.ratio and new.ratio else (was.values, new.values)
        if not (was.ratio and new.ratio) and not same_machine:
            continue
        if all(pair) and statistics.median(pair[0]):
            changes.append(Change(new.name, *pair, slower=_slower(*pair, better=new.better)))
    return changes


def _slower(before: Sequence[float], after: Sequence[float], *, better: str) -> bool:
    """Return whether every round of `after` is worse than every round of `before`, by a minimum ratio."""
    if better == MORE:
        before, after = [-value for value in before], [-value for value in after]
    worse_by = (statistics.median(after) - statistics.median(before)) / abs(statistics.median(before))
    if len(before) == 1 or len(after) == 1:
        return worse_by > _ONCE
    return min(after) > max(before) and worse_by > _SAME


def range_of(values: Sequence[float]) -> str:
    """Return the range from lowest to highest, rounded to significant digits."""
    if not values:
        return ""
    low, high = _digits(min(values)), _digits(max(values))
    return low if low == high else f"{low} to {high}"


def middle_of(values: Sequence[float]) -> str:
    """Return the median and the interquartile range of many short rounds on a busy machine."""
    if len(values) == 1:
        return _digits(values[0])
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{_digits(middle)} ({_digits(low)} to {_digits(high)})"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"  # noqa: PLR2004
