"""A line for every event and destination, up to a limit: ids and outcomes, never values.

Lines are written after the commit; rolled-back events have none.  Rows without a line cost no Python
objects: lines are chosen by row index, failures first, and each table has its fair share of them.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from services.writer.model.targets import Target
from services.writer.persist.row_results import PersistResult
from shared import event_lines, wire
from shared.errors import OnrampError
from shared.event_lines import EventLines, spread
from shared.kafka_read.offsets import Partition
from shared.outcomes import Outcome
from shared.path_steps import Step

Entry = dict[str, Any]
Array = np.ndarray[Any, Any]

_FEW: Final = 8
_COLUMNS: Final = ("_id", "_topic", "_partition", "_offset")
#: Outcomes as numbers in arrays, in order of priority: failures are the last.
_OUTCOMES: Final = (Outcome.LANDED, Outcome.DUPLICATE, Outcome.WAITING, Outcome.PARKED)
_LANDED, _DUPLICATE, _WAITING, _PARKED = range(len(_OUTCOMES))


class Piece(Protocol):
    """Events that were settled together."""

    @property
    def outcomes(self) -> Array:
        """Return the outcome of each event, as its index in `_OUTCOMES`."""

    def entries(self, places: Sequence[int]) -> Iterator[Entry]:
        """Return the fields of the lines of the events at `places`."""


@dataclass(frozen=True)
class Settled:
    """Rows of a table.  Rows at `late_rows` wait; without a `result` (outage or hold) all rows wait."""

    target: Target
    rows: pa.Table | pa.RecordBatch
    result: PersistResult | None = None
    late_rows: Collection[int] = ()
    _: KW_ONLY
    step: Step = Step.PERSIST

    @cached_property
    def outcomes(self) -> Array:
        """Return the outcome of each row."""
        if self.result is None:
            return np.full(self.rows.num_rows, _WAITING)
        outcomes = np.where(self.result.mask, _LANDED, _DUPLICATE)
        if self.result.parked:
            outcomes[[p.row_index for p in self.result.parked]] = _PARKED
        if self.late_rows:
            outcomes[list(self.late_rows)] = _WAITING
        return outcomes

    def entries(self, places: Sequence[int]) -> Iterator[Entry]:
        """Return the fields of the lines of the rows at `places`."""
        parked = {p.row_index: p.error.fault.code for p in self.result.parked} if self.result else {}
        where = {"step": self.step, "database": self.target.database, "table": str(self.target)}
        outcomes = self.outcomes[places].tolist()
        for place, outcome, row in zip(places, outcomes, self._receipts(places), strict=True):
            event_id, topic, partition, offset = row
            entry = {"receipt": f"{topic}/{partition}/{offset}", "outcome": _OUTCOMES[outcome], **where}
            if event_id is not None:
                entry["event_id"] = event_id
            if outcome == _PARKED:
                entry["code"] = parked[place]
            yield entry

    def _receipts(self, places: Sequence[int]) -> list[tuple[Any, ...]]:
        columns = [self.rows.column(name) for name in _COLUMNS]
        if len(places) <= _FEW:  # for few rows Arrow's overhead is larger
            return [tuple(column[place].as_py() for column in columns) for place in places]
        taken = [column.take(pa.array(places, pa.int64())).to_pylist() for column in columns]
        return list(zip(*taken, strict=True))


@dataclass(frozen=True)
class Parked:
    """Events, or single destinations of them, that were parked without a table's attempt."""

    #: The origin of each, its id if that could be parsed, and the error.
    events: Sequence[tuple[Partition, int, str | None, OnrampError]]
    _: KW_ONLY
    step: Step = Step.SORT
    #: The table that the events were for, if it is one.
    target: Target | None = None

    @property
    def outcomes(self) -> Array:
        """Return the outcome of each event: parked."""
        return np.full(len(self.events), _PARKED)

    def entries(self, places: Sequence[int]) -> Iterator[Entry]:
        """Return the fields of the lines of the events at `places`."""
        where: Entry = {"step": self.step}
        if self.target is not None:
            where |= {"database": self.target.database, "table": str(self.target)}
        for partition, offset, event_id, error in (self.events[place] for place in places):
            receipt, code = f"{partition}/{offset}", error.fault.code
            entry = {"receipt": receipt, "outcome": Outcome.PARKED, **where, "code": code}
            yield entry if event_id is None else entry | {"event_id": event_id}


@contextmanager
def of_commit(per_second: int) -> Iterator[list[Piece]]:
    """Write the lines of the pieces that the block collects, unless it raises; wraps a transaction."""
    pieces: list[Piece] = []
    yield pieces
    write(per_second, pieces)


def write(per_second: int, pieces: Sequence[Piece]) -> None:
    """Write the lines of `pieces`, at most `per_second` of this process; 0: none."""
    if per_second:
        logged = [p for p in pieces if not (isinstance(p, Settled) and p.target.table == wire.PROBE_EVENT)]
        _write(event_lines.of_process("writer", __name__, per_second), logged)


def _write(lines: EventLines, pieces: Sequence[Piece]) -> None:
    if not pieces:
        return
    counts = np.array([np.bincount(p.outcomes, minlength=len(_OUTCOMES)) for p in pieces])
    granted = _granted(lines, counts)
    if granted.any():
        lines.write("event", _entries(pieces, granted))
    suppressed = (counts - granted).sum(axis=0).tolist()
    lines.suppress(dict(zip(_OUTCOMES, suppressed, strict=True)))


def _entries(pieces: Sequence[Piece], granted: Array) -> Iterator[Entry]:
    for number in np.flatnonzero(granted.any(axis=1)).tolist():
        piece = pieces[number]
        yield from piece.entries(_places(piece.outcomes, granted[number].tolist()))


def _granted(lines: EventLines, counts: Array) -> Array:
    """Return the number of lines for each of `counts`, by piece and outcome."""
    wanted = counts.sum(axis=0)
    failures, others = lines.grant(int(wanted[_WAITING:].sum()), int(wanted[:_WAITING].sum()))
    parked = min(int(wanted[_PARKED]), failures)
    granted = np.zeros_like(counts)
    granted[:, _PARKED] = _shares(counts[:, _PARKED], parked)
    granted[:, _WAITING] = _shares(counts[:, _WAITING], failures - parked)
    granted[:, :_WAITING] = _shares(counts[:, :_WAITING], others)
    return granted


def _shares(wanted: Array, limit: int) -> Array:
    """Return fair shares of `limit`: a demand below its share is met, and leaves the rest to the others."""
    if limit >= wanted.sum():
        return wanted
    order = np.argsort(wanted, axis=None)
    shares = []
    for before, amount in enumerate(wanted.ravel()[order].tolist()):
        shares.append(min(amount, limit // (len(order) - before)))
        limit -= shares[-1]
    shared = np.empty_like(wanted)
    shared.flat[order] = shares
    return shared


def _places(outcomes: Array, limits: Sequence[int]) -> list[int]:
    """Return row indexes, in order: for each outcome as many as its limit, evenly spread over its rows."""
    by_outcome = [(np.flatnonzero(outcomes == n), m) for n, m in enumerate(limits) if m]
    return sorted(place for of_one, m in by_outcome for place in of_one[spread(len(of_one), m)].tolist())
