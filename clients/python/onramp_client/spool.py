"""Keeping events beyond the process's end: a folder with one file a process.

Nothing is told to the sender by the file: an event is appended before `send` returns, the
file is flushed to the disk before the event's first request, and what is settled is crossed
out.  A file whose lock nobody holds was left by a process that is gone: who starts next sends
it to the end and removes it.  Two processes never hold one file, a fork's child neither.
"""

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .spool_file import SpoolFile, is_spool, new_path
from .spool_lines import id_of

_log: Final = logging.getLogger("onramp_client")

#: The file that keeps an event, and its number there.
Ticket = tuple[SpoolFile, int]


class Spool:
    """This process's file in the folder, and those it has adopted."""

    def __init__(self, folder: Path, most: int) -> None:
        """Make the folder; files of processes that are gone are opened one after another.

        Raises:
            OSError: the folder cannot be made or read.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._most = most
        self._own: SpoolFile | None = None
        self._adopted: SpoolFile | None = None
        self._orphans = sorted(path for path in folder.iterdir() if is_spool(path))
        self._begin()

    @property
    def told(self) -> str:
        """How full it is."""
        own = self._own
        return f"the spool has {own.size if own else 0:,} of {self._most:,} bytes"

    def has_room(self, size: int) -> bool:
        """Whether an event of that size may come in.

        Raises:
            OSError: settled events cannot be thrown out.
        """
        with self._lock:
            return self._own is None or self._own.has_room(size, self._most)

    def append(self, body: bytes) -> Ticket:
        """Keep an event, and return its ticket.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            if self._own is None:
                self._own = SpoolFile.create(new_path(self._folder))
            return self._own, self._own.append(body)

    def adopt(self) -> Iterator[tuple[str, bytes, Ticket]]:
        """The events in the next file that a process which is gone has left."""
        with self._lock:
            while self._orphans and self._adopted is None:
                self._adopted = self._opened(self._orphans.pop(0))
            adopted = self._adopted
        if adopted is not None:
            for number, body in list(adopted.live.items()):
                yield id_of(body), body, (adopted, number)

    def wants_more(self) -> bool:
        """Whether everything adopted is settled, and there may be more."""
        with self._lock:
            return self._adopted is None and bool(self._orphans)

    def sync(self) -> None:
        """What was appended is on the disk; a disk that cannot is said, and the events are sent."""
        with self._lock:
            descriptor = None if self._own is None else self._own.unsynced()
        if descriptor is not None:
            try:
                os.fdatasync(descriptor)  # Without the lock: who sends is not held up by the disk.
            except OSError as error:
                self._say("flushed to the disk", error)
            finally:
                os.close(descriptor)

    def settle(self, tickets: list[Ticket]) -> None:
        """Cross these out; where that fails they are sent once more after a restart, which is harmless."""
        with self._lock:
            for file in {file for file, _ in tickets}:
                try:
                    file.settle([number for each, number in tickets if each is file])
                except OSError as error:
                    self._say("written", error)
            if self._adopted is not None and not self._adopted.live:
                self._adopted.remove()
                self._adopted = None

    def forget(self) -> None:
        """After a fork: the files are the parent's, and so is what waits to be adopted."""
        for file in (self._own, self._adopted):
            if file is not None:
                file.forget()
        self._orphans = []
        self._begin()

    def close(self) -> None:
        """Let others adopt what is left."""
        with self._lock:
            self._orphans = []
            for file in (self._own, self._adopted):
                if file is not None:
                    file.close()
            self._own = self._adopted = None

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._own = self._adopted = None

    def _opened(self, path: Path) -> SpoolFile | None:
        """The file, if it is nobody's and has something to send."""
        file = SpoolFile.adopt(path)
        if file is None:
            return None
        if file.damaged:
            _log.warning("%d damaged lines of %s were passed over: their events are lost", file.damaged, path)
        if file.live:
            return file
        file.remove()
        return None

    def _say(self, what: str, error: OSError) -> None:
        _log.error("the spool %s cannot be %s: %s", self._folder, what, error.strerror)
