"""Reads the history: the claimed outcome of every number, and the due time of each request."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from loadtest.history import LEASE, OK, REFUSED, UNKNOWN, UNUSED

NEVER_SENT: Final = 0
IS_UNKNOWN: Final = 1
IS_OK: Final = 2
IS_REFUSED: Final = 3
_STATES: Final = {UNUSED: NEVER_SENT, UNKNOWN: IS_UNKNOWN, OK: IS_OK, REFUSED: IS_REFUSED}

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests in the order of their numbers; times in seconds of CLOCK_MONOTONIC."""

    first: Ints
    count: Ints
    ok: NDArray[np.bool_]
    intended: Floats
    began: Floats
    ended: Floats
    wire: Ints
    partition: Ints
    offset: Ints


@dataclass(frozen=True, slots=True)
class Claims:
    """`states` has the claimed outcome of each number from `base` on."""

    base: int
    states: NDArray[np.uint8]
    requests: Requests
    errors: dict[str, int]

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read a history.  A partial last line, left by a killed generator, is ignored."""
        lines = file.read_bytes().split(b"\n")[:-1]
        entries = [orjson.loads(line) for line in lines if line]
        leased = [(first, count) for kind, first, count, *_ in entries if kind == LEASE]
        base = min((first for first, _ in leased), default=0)
        end = max((first + count for first, count in leased), default=0)
        states = np.zeros(end - base, np.uint8)
        errors: dict[str, int] = {}
        outcomes = []
        for kind, first, count, *rest in entries:
            # A lease alone says that the numbers may have been sent.
            states[first - base : first - base + count] = _STATES.get(kind, IS_UNKNOWN)
            if rest:
                outcomes.append((first, count, kind == OK, *rest))
                if kind != OK:
                    errors[str(rest[4])] = errors.get(str(rest[4]), 0) + count
        outcomes.sort(key=lambda line: line[0])
        return cls(base, states, _requests(outcomes), errors)

    def count(self, state: int) -> int:
        """Return the number of numbers in this state."""
        return int((self.states == state).sum())

    def requests_of(self, numbers: Ints) -> Ints:
        """Return the index of the request that each number was sent in."""
        return np.searchsorted(self.requests.first, numbers, side="right") - 1


def _requests(lines: list[tuple[Any, ...]]) -> Requests:
    columns = list(zip(*lines, strict=True)) if lines else [()] * 10
    first, count, ok, intended, began, ended, wire, _, partition, offset = columns

    def ints(values: Any) -> Ints:
        return np.array([-1 if value is None else value for value in values], np.int64)

    return Requests(
        first=ints(first),
        count=ints(count),
        ok=np.array(ok, np.bool_),
        intended=np.array(intended, np.float64),
        began=np.array(began, np.float64),
        ended=np.array(ended, np.float64),
        wire=ints(wire),
        partition=ints(partition),
        offset=ints(offset),
    )
