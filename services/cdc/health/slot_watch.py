"""Tracks a slot from poll to poll: since when it has not moved, and whether another program reads it."""

import re
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Final

from services.cdc.health.slot import Reader, Readers, Slot, lsn_text

#: Seconds without a heartbeat after which a connector may be searching for its position, and between attempts
#: to help it.
_LOST_SECONDS: Final = 3.0
_HELP_SECONDS: Final = 10.0
#: Heartbeats come each second: after this time without one, the status reports it.
_SILENT_SECONDS: Final = 30.0
#: Postgres' message to our connector when another session reads its slot.
_ACTIVE: Final = re.compile(r"is active for PID (\d+)")


class SlotWatch:
    """The observations of one slot."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.readers: Readers | None = None
        self._clock = clock
        #: The slot's reader, its start, and the time of the last help.
        self._reader: str | None = None
        self._reads_since = self._helped_at = float("-inf")
        self._confirmed = ""
        self._moved_at: float | None = None
        self._streams_since: float | None = None
        #: The session that blocked our connector at the slot.
        self._other: int | None = None

    @property
    def heartbeat_age(self) -> float | None:
        """Return the seconds since Kafka received changes of the source; None during its first snapshot.

        A new agent counts from its own start.
        """
        if self._moved_at is None or self._streams_since is None:
            return None
        return self._clock() - max(self._moved_at, self._streams_since)

    @property
    def silence(self) -> list[str]:
        """Return a reason when Kafka has received nothing of the source for long."""
        age = self.heartbeat_age
        if age is None or age <= _SILENT_SECONDS:
            return []
        return [f"no heartbeat for {age:.0f} s: if that stays, Kafka Connect's log says why"]

    def see(self, slot: Slot | None) -> None:
        """Note when the slot last moved: heartbeats move it each second."""
        if slot is not None and slot.confirmed_lsn != self._confirmed:
            self._moved_at = self._clock()
            self._confirmed = slot.confirmed_lsn
        if slot is not None and slot.reader != self._reader:
            self._reader, self._reads_since = slot.reader, self._clock()

    def note_streams(self, *, streams: bool) -> None:
        """Note whether the first snapshot is over: there are no heartbeats during it."""
        if not streams:
            self._streams_since = None
        elif self._streams_since is None:
            self._streams_since = self._clock()

    def is_lost(self, slot: Slot | None) -> bool:
        """Return whether a connector that reads may be searching for its position, and needs help now.

        A connector that starts searches for a commit behind the last one that it sent, and sends no
        heartbeat before. An idle source has no such commit: the connector would retain the WAL of the
        whole server.
        """
        now, moved = self._clock(), self._moved_at
        if slot is None or not slot.active or moved is None or now < moved + _LOST_SECONDS:
            return False
        if now < max(self._reads_since + _LOST_SECONDS, self._helped_at + _HELP_SECONDS):
            return False
        self._helped_at = now
        return True

    def note_reader(self, slot: Slot | None, stored: Readers) -> None:
        """Note the slot's reader; `stored`: the readers at the last poll of an earlier agent."""
        before = stored if self.readers is None else self.readers
        self.readers = Readers() if slot is None else before.after(slot, other=self._other)

    def note_failure(self, reason: str) -> None:
        """Note the session that blocks our connector, if that is why the connector failed."""
        if found := _ACTIVE.search(reason):
            self._other = int(found[1])

    def other_program(self, slot: Slot | None) -> str:
        """Return a reason when another program reads the slot, else an empty text."""
        if slot is None or self.readers is None or self.readers.last is not Reader.OTHER:
            return ""
        return (
            f"its slot is read by another program ({slot.program}, PID {slot.pid} at the source), and what "
            "that takes never comes to Kafka: end it there; two Onramps need two names of the source"
        )

    def consumed_by_other(self, slot: Slot, sent: Callable[[], int | None]) -> str:
        """Return which changes another program took from the slot, if any: Postgres does not send them again.

        `sent`: the position that Kafka has, as our connector reports it; None when Kafka Connect is
        unreachable, and then the result is empty.
        """
        readers = self.readers or Readers()
        if not readers.is_beyond(slot):
            return ""
        upto = sent()
        if upto is None:
            return ""
        if upto >= slot.confirmed:  # our connector did, between two polls
            self.readers = replace(readers, own=slot.confirmed)
            return ""
        who = f" ({slot.program})" if slot.program else ""
        return (
            f"another program{who} has read its slot from {lsn_text(max(upto, readers.own))} to "
            f"{slot.confirmed_lsn}, which never comes to Kafka: end that program first"
        )

    def forget(self) -> None:
        """Start again, as with a new slot."""
        self.readers = Readers()
