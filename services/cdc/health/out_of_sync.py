"""Decides from fresh readings whether changes of a source are missing, before its slot is dropped.

A slot and a connector's offsets are read one after the other, and a connector creates its slot before it
writes offsets.  So offsets count only when they were read before the slot, and each reading is taken twice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from services.cdc.health.slot import Slot
from services.cdc.health.slot_watch import SlotWatch

_GB: Final = 1 << 30


class Position(NamedTuple):
    """A connector's committed offsets: whether there are any, and whether its first snapshot is not over."""

    has_offsets: bool
    in_first_snapshot: bool


class Gap(NamedTuple):
    """Why changes are missing, and since which LSN (None: unknown).

    `starts_again`: nothing but a first snapshot is affected, which can start again without an operator.
    """

    why: str
    lsn: str | None = None
    starts_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Fresh readings of a source; each raises what its owner raises."""

    slot: Callable[[], Slot | None]
    position: Callable[[], Position]
    #: Return the LSN up to which Kafka has everything, or None if Kafka Connect is unreachable.
    sent: Callable[[], int | None]


class GapCheck:
    """Compares two observations of one source."""

    def __init__(self, watch: SlotWatch, readings: Readings, *, budget_bytes: int, budget: str) -> None:
        self._watch = watch
        self._readings = readings
        self._budget_bytes = budget_bytes
        self._budget = budget

    def find(self, slot: Slot | None, *, had_slot: bool, streams: bool) -> Gap | None:
        """Return why changes are missing, or None if two observations do not agree on that.

        `slot`: the first observation. `had_slot`: whether the source's slot was observed since its snapshot
        began. `streams`: whether its first snapshot is over.
        """
        if slot is None:
            return self._of_no_slot(had_slot=had_slot, streams=streams)
        if not self._why(slot):
            return None
        again = self._readings.slot()
        why = "" if again is None else self._why(again)
        return Gap(why, again.confirmed_lsn) if why and again is not None else None

    def _of_no_slot(self, *, had_slot: bool, streams: bool) -> Gap | None:
        in_first_snapshot = not (streams and had_slot)
        if in_first_snapshot:
            position = self._readings.position()
            if not had_slot and not position.has_offsets:
                return None
            in_first_snapshot = not streams and (not had_slot or position.in_first_snapshot)
        is_gone = self._readings.slot() is None
        if not had_slot and not is_gone:
            return None
        why = "its slot is gone" if is_gone else "its slot was dropped, and another one was made"
        return Gap(why, starts_again=in_first_snapshot)

    def _why(self, slot: Slot) -> str:
        if slot.is_lost:
            return "the server has removed WAL that its slot needed (max_slot_wal_keep_size)"
        if slot.retained_bytes >= self._budget_bytes:
            return (
                f"its slot held {slot.retained_bytes / _GB:.2f} GB of WAL, and wal_budget is {self._budget}"
            )
        return self._watch.consumed_by_other(slot, self._readings.sent)
