"""Stores events beyond the process's end, in a folder with one file per process.

An event is appended before `send` returns, the file is flushed to the disk before the event's
first request, and settled events are marked. An unlocked file was left by an
ended process: the next process that starts sends its events and removes it. Two processes never
use the same file, nor do a process and its fork.
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

#: The file that stores an event, and its number there.
Ticket = tuple[SpoolFile, int]


class Spool:
    """This process's file in the folder, and adopted files."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        """Create the folder; files of ended processes are opened later, one after another.

        Raises:
            OSError: the folder cannot be created or read.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._max_bytes = max_bytes
        self._own: SpoolFile | None = None
        self._adopted: SpoolFile | None = None
        self._orphans = sorted(path for path in folder.iterdir() if is_spool(path))
        self._reset()

    @property
    def usage(self) -> str:
        """Return the usage of this process's file as text."""
        own = self._own
        return f"the spool has {own.size if own else 0:,} of {self._max_bytes:,} bytes"

    def has_room(self, size: int) -> bool:
        """Return whether there is room for an event of `size` bytes.

        Raises:
            OSError: settled events cannot be removed from the file.
        """
        with self._lock:
            return self._own is None or self._own.has_room(size, self._max_bytes)

    def append(self, body: bytes) -> Ticket:
        """Append an event; return its ticket.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            if self._own is None:
                self._own = SpoolFile.create(new_path(self._folder))
            return self._own, self._own.append(body)

    def adopt(self) -> Iterator[tuple[str, bytes, Ticket]]:
        """Yield the events of the next file of an ended process."""
        with self._lock:
            while self._orphans and self._adopted is None:
                self._adopted = self._open(self._orphans.pop(0))
            adopted = self._adopted
        if adopted is not None:
            for number, body in list(adopted.live.items()):
                yield id_of(body), body, (adopted, number)

    def wants_more(self) -> bool:
        """Return whether all adopted events are settled, and there may be another file."""
        with self._lock:
            return self._adopted is None and bool(self._orphans)

    def sync(self) -> None:
        """Flush appended events to the disk; log a failure, because the events are sent anyway."""
        with self._lock:
            descriptor = None if self._own is None else self._own.unsynced()
        if descriptor is not None:
            try:
                os.fdatasync(descriptor)  # Without the lock, so that the disk does not block `send`.
            except OSError as error:
                self._log_error("flushed to the disk", error)
            finally:
                os.close(descriptor)

    def settle(self, tickets: list[Ticket]) -> None:
        """Mark events as settled; after a failure the next start sends them again, which is harmless."""
        with self._lock:
            for file in {file for file, _ in tickets}:
                try:
                    file.settle([number for each, number in tickets if each is file])
                except OSError as error:
                    self._log_error("written", error)
            if self._adopted is not None and not self._adopted.live:
                self._adopted.remove()
                self._adopted = None

    def forget(self) -> None:
        """Close the files unchanged: after a fork all files belong to the parent."""
        for file in (self._own, self._adopted):
            if file is not None:
                file.forget()
        self._orphans = []
        self._reset()

    def close(self) -> None:
        """Close the files; other processes adopt the remaining events."""
        with self._lock:
            self._orphans = []
            for file in (self._own, self._adopted):
                if file is not None:
                    file.close()
            self._own = self._adopted = None

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._own = self._adopted = None

    def _open(self, path: Path) -> SpoolFile | None:
        """Adopt the file; return None if it is locked or has no events."""
        file = SpoolFile.adopt(path)
        if file is None:
            return None
        if file.damaged:
            _log.warning("%d damaged lines of %s were skipped: their events are lost", file.damaged, path)
        if file.live:
            return file
        file.remove()
        return None

    def _log_error(self, verb: str, error: OSError) -> None:
        _log.error("the spool %s cannot be %s: %s", self._folder, verb, error.strerror)
