"""Follows a slot from look to look: since when it has not moved, and whether somebody else reads it."""

import re
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Final

from services.cdc.health.slot import Reader, Readers, Slot, lsn_text

#: So long after its last heartbeat a connector looks for its place, and so often it is helped.
_LOST_SECONDS: Final = 3.0
_HELP_SECONDS: Final = 10.0
#: Heartbeats come each second: after so long without one somebody should know.
_SILENT_SECONDS: Final = 30.0
#: How Postgres says to our connector that somebody else is at its slot.
_ACTIVE: Final = re.compile(r"is active for PID (\d+)")


class SlotWatch:
    """What is known of one slot."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.readers: Readers | None = None
        self._clock = clock
        #: Who reads it, since when, and when it was helped last.
        self._reader: str | None = None
        self._reads_since = self._helped_at = float("-inf")
        self._confirmed = ""
        self._moved_at: float | None = None
        self._streams_since: float | None = None
        #: The session that our connector found at the slot.
        self._other: int | None = None

    @property
    def heartbeat_age(self) -> float | None:
        """Return for how many seconds Kafka had no more of the source; None amid its first snapshot.

        An agent that begins counts from then.
        """
        if self._moved_at is None or self._streams_since is None:
            return None
        return self._clock() - max(self._moved_at, self._streams_since)

    @property
    def silence(self) -> list[str]:
        """Return that Kafka has had no more of the source for long, if so, and where to look."""
        age = self.heartbeat_age
        if age is None or age <= _SILENT_SECONDS:
            return []
        return [f"no heartbeat for {age:.0f} s: if that stays, Kafka Connect's log says why"]

    def see(self, slot: Slot | None) -> None:
        """Note when Kafka last had more of the source: heartbeats move the slot each second."""
        if slot is not None and slot.confirmed_lsn != self._confirmed:
            self._moved_at = self._clock()
            self._confirmed = slot.confirmed_lsn
        if slot is not None and slot.reader != self._reader:
            self._reader, self._reads_since = slot.reader, self._clock()

    def note_streams(self, *, streams: bool) -> None:
        """Note whether the first snapshot is over: amid that there are no heartbeats."""
        if not streams:
            self._streams_since = None
        elif self._streams_since is None:
            self._streams_since = self._clock()

    def is_lost(self, slot: Slot | None) -> bool:
        """Whether a connector that reads may look for its place, and is to be helped now.

        One that starts looks for a commit behind the last that it has sent, and sends no heartbeat before.
        In a source to which nobody writes there is none: it would hold the WAL of its whole server.
        """
        now, moved = self._clock(), self._moved_at
        if slot is None or not slot.active or moved is None or now < moved + _LOST_SECONDS:
            return False
        if now < max(self._reads_since + _LOST_SECONDS, self._helped_at + _HELP_SECONDS):
            return False
        self._helped_at = now
        return True

    def note_reader(self, slot: Slot | None, stored: Readers) -> None:
        """Note who reads the slot; `stored`: who did when an agent that is gone looked last."""
        before = stored if self.readers is None else self.readers
        self.readers = Readers() if slot is None else before.after(slot, other=self._other)

    def note_failure(self, reason: str) -> None:
        """Note the session that keeps our connector out, if that is why it failed."""
        if found := _ACTIVE.search(reason):
            self._other = int(found[1])

    def other_program(self, slot: Slot | None) -> str:
        """Return that another program reads the slot, if one does."""
        if slot is None or self.readers is None or self.readers.last is not Reader.OTHER:
            return ""
        return (
            f"its slot is read by another program ({slot.program}, PID {slot.pid} at the source), and what "
            "that takes never comes to Kafka: end it there; two Onramps need two names of the source"
        )

    def consumed_by_other(self, slot: Slot, sent: Callable[[], int | None]) -> str:
        """Return what another program took from the slot, if any: Postgres sends it to nobody again.

        `sent`: up to where our connector says that Kafka has everything; None when it does not answer, and
        then nothing is known.
        """
        readers = self.readers or Readers()
        if not readers.is_beyond(slot):
            return ""
        upto = sent()
        if upto is None:
            return ""
        if upto >= slot.confirmed:  # our connector did, between two looks
            self.readers = replace(readers, own=slot.confirmed)
            return ""
        who = f" ({slot.program})" if slot.program else ""
        return (
            f"another program{who} has read its slot from {lsn_text(max(upto, readers.own))} to "
            f"{slot.confirmed_lsn}, which never comes to Kafka: end that program first"
        )

    def forget(self) -> None:
        """Begin again, as with a slot that is new."""
        self.readers = Readers()
