"""The last hour of counted events, in steps of five seconds, already summed over all services.

A step is 4 bytes: with 500 event types, their databases and all metrics it is below 10 MB.  Types after the
first 500 are counted as `other`.
"""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, overload

from shared.figures import MAX_TYPES, OTHER

STEP_SECONDS: Final = 5.0
STEPS: Final = 720
#: Steps over which a current rate is computed: the writer commits in batches.
_NOW_STEPS: Final = 6

_POINTS: Final = 60

#: A metric and a name: an event type, a database, or empty for the sum of all.
Key = tuple[str, str]


class Line(Sequence[float | None]):
    """Events per second of an hour in equal parts, the oldest first; None where unknown.

    It is computed when it is first read: of hundreds of event types a page shows twenty.
    """

    def __init__(self, flags: bytes, counts: "array[float] | None", points: int) -> None:
        """`flags`: whether each step is known; `counts`: events by step, None without any."""
        self._flags = flags
        self._counts = counts
        self._points = points

    @overload
    def __getitem__(self, at: int) -> float | None: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[float | None, ...]: ...
    def __getitem__(self, at: int | slice) -> float | tuple[float | None, ...] | None:
        return self._values[at]

    def __len__(self) -> int:
        return self._points

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._values == tuple(other)

    def __hash__(self) -> int:
        return hash(self._values)

    @cached_property
    def _values(self) -> tuple[float | None, ...]:
        width = len(self._flags) // self._points
        result: list[float | None] = []
        for start in range(0, width * self._points, width):
            steps = self._flags.count(1, start, start + width)
            total = math.fsum(self._counts[start : start + width]) if self._counts else 0.0
            result.append(total / (steps * STEP_SECONDS) if steps else None)
        return tuple(result)


class Hour:
    """Rings of counted events.  A step is known if its service answered; unknown steps are gaps of a line."""

    def __init__(self, max_names: int = MAX_TYPES) -> None:
        self._max_names = max_names
        self._rings: dict[Key, array[float]] = {}
        self._names: dict[str, set[str]] = {}
        #: By source (gateway, writer), whether each step is known.
        self._known: dict[str, bytearray] = {}
        self._step: int | None = None
        self.first_step: int | None = None
        #: By source, of the current step: its known steps of the last half minute, and the flags of a line.
        self._recent: dict[str, list[int]] = {}
        self._flags: dict[str, bytes] = {}

    def advance(self, step: int) -> None:
        """Begin a step; steps that were passed over are unknown."""
        self._forget_step()
        if self._step is None:
            self.first_step = step
        for n in range(max(step - STEPS, step if self._step is None else self._step) + 1, step + 1):
            for ring in self._rings.values():
                ring[n % STEPS] = 0.0
            for known in self._known.values():
                known[n % STEPS] = 0
        self._step = step

    def add(self, source: str, counts: Mapping[Key, float], steps: int = 1) -> None:
        """Count events of the last `steps` steps, evenly: their times are unknown."""
        if self._step is None:
            raise RuntimeError("no step has begun")
        steps = min(max(steps, 1), STEPS, self._step - (self.first_step or 0) + 1)
        slots = [n % STEPS for n in range(self._step - steps + 1, self._step + 1)]
        known = self._known.setdefault(source, bytearray(STEPS))
        self._forget_step()
        for slot in slots:
            known[slot] = 1
        for key, count in counts.items():
            if count:
                ring = self._ring(key)
                for slot in slots:
                    ring[slot] += count / steps

    def rate(self, source: str, key: Key) -> float | None:
        """Return the events per second over the last half minute; None while its source is unknown."""
        if self._step is None or source not in self._known:
            return None
        if (slots := self._recent.get(source)) is None:
            known, first = self._known[source], max(self._step - _NOW_STEPS, self.first_step or 0) + 1
            slots = [n % STEPS for n in range(first, self._step + 1) if known[n % STEPS]]
            self._recent[source] = slots
        if not slots:
            return None
        ring = self._rings.get(self._bounded(key, is_new=False))
        return sum([ring[slot] for slot in slots]) / (len(slots) * STEP_SECONDS) if ring else 0.0

    def line(self, source: str, key: Key, points: int = _POINTS) -> Line:
        """Return the hour in `points` parts, as it is now."""
        known = self._known.get(source)
        if self._step is None or known is None:
            return Line(bytes(STEPS), None, points)
        turn = (self._step + 1) % STEPS
        if (flags := self._flags.get(source)) is None:
            flags = self._flags[source] = bytes(known[turn:] + known[:turn])
        ring = self._rings.get(self._bounded(key, is_new=False))
        return Line(flags, ring[turn:] + ring[:turn] if ring else None, points)

    def total(self, key: Key) -> float:
        """Return the events of the hour."""
        ring = self._rings.get(self._bounded(key, is_new=False))
        return math.fsum(ring) if ring else 0.0

    def names(self, metrics: Iterable[str]) -> set[str]:
        """Return the names that any of the metrics has counted."""
        return set().union(*(self._names.get(metric, set()) for metric in metrics)) - {""}

    def bytes(self) -> int:
        """Return the memory of all rings."""
        return sum(len(ring) * ring.itemsize for ring in self._rings.values()) + len(self._known) * STEPS

    def _forget_step(self) -> None:
        self._recent.clear()
        self._flags.clear()

    def _ring(self, key: Key) -> "array[float]":
        key = self._bounded(key, is_new=True)
        if key not in self._rings:
            self._rings[key] = array("f", bytes(4 * STEPS))
        return self._rings[key]

    def _bounded(self, key: Key, *, is_new: bool) -> Key:
        metric, name = key
        names = self._names.setdefault(metric, set())
        if not name or name in names:
            return key
        if is_new and len(names - {OTHER}) < self._max_names:
            names.add(name)
            return key
        if is_new:
            names.add(OTHER)
        return (metric, OTHER) if OTHER in names and len(names) > self._max_names else key
