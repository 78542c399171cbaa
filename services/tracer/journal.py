"""The file of tracers: each is written with fsync before it is sent, and its results follow.

After a restart the tracer reads the file and waits for the events that were in flight. A line that a crash
cut is skipped. A lock on the file prevents a second process.
"""

import fcntl
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Self

import msgspec

from services.tracer.results import Change, Destination, Result, Tracer, Watch
from shared.parse_errors import UNREADABLE

#: Seconds for which a tracer stays in the file.
DAY: Final = 86_400.0


class InUseError(Exception):
    """Another process has the file."""


class _Line(msgspec.Struct, omit_defaults=True):
    """A line: a tracer that is about to be sent, its acceptance, its refusal, or a result."""

    id: str
    entrance: str | None = None
    destinations: list[tuple[str, str]] = []
    sent_at: float | None = None
    accepted_at: float | None = None
    refusal: str | None = None
    destination: tuple[str, str] | None = None
    result: Result | None = None
    landed_at: float | None = None
    due_from: float | None = None
    #: By database, the number of duplicate envelopes that results exist for; `id` is empty.
    duplicates: dict[str, int] | None = None


_decode: Final = msgspec.json.Decoder(_Line).decode
_encode: Final = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Journal:
    """An open file; `tracers` and `duplicates` are those that it had."""

    path: Path
    _file: IO[bytes]
    _lock: IO[bytes]
    tracers: dict[str, Tracer] = field(default_factory=dict)
    #: By database, the number of duplicate envelopes for which there are results.
    duplicates: dict[str, int] = field(default_factory=dict)
    #: Lines that could not be read.
    unreadable: int = 0

    @classmethod
    def open(cls, path: Path, now: float) -> Self:
        """Open the file, and drop tracers older than a day.

        Raises `InUseError` if another process has it, or `OSError`.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f"{path.name}.lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise InUseError(f"another tracer uses {path}") from None
        tracers, duplicates, unreadable = _read(path)
        journal = cls(path, path.open("ab"), lock, tracers, duplicates, unreadable)
        journal.prune(now)
        return journal

    def add(self, tracers: Iterable[Tracer]) -> None:
        """Append tracers that are about to be sent, and return when the disk has them."""
        for tracer in tracers:
            self.tracers[tracer.id] = tracer
            self._file.write(_encode(_first_line(tracer)) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def accept(self, tracer: Tracer) -> None:
        """Append that an entrance has accepted the tracer."""
        self._append(_Line(tracer.id, accepted_at=tracer.accepted_at))

    def change(self, changes: Iterable[Change]) -> None:
        """Append new results."""
        for change in changes:
            self._append(_result_line(change.tracer, change.destination))

    def count_duplicates(self, database: str, events: int) -> None:
        """Append the number of duplicate envelopes for which there are results now."""
        self.duplicates[database] = events
        self._append(_Line("", duplicates={database: events}))

    def prune(self, now: float) -> None:
        """Drop tracers older than a day: the file is replaced by one without them."""
        # A clock that went back makes tracers of the future, which would stay.
        self.tracers = {i: t for i, t in self.tracers.items() if abs(now - t.sent_at) <= DAY}
        beside = self.path.with_name(f"{self.path.name}.new")
        with beside.open("wb") as file:
            if self.duplicates:
                file.write(_encode(_Line("", duplicates=self.duplicates)) + b"\n")
            for tracer in self.tracers.values():
                lines = [_first_line(tracer), _Line(tracer.id, accepted_at=tracer.accepted_at)]
                lines += [_result_line(tracer, destination) for destination in tracer.watches]
                file.writelines(_encode(line) + b"\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)
        self._file.close()
        self._file = self.path.open("ab")

    def close(self) -> None:
        """Close the file and release its lock."""
        self._file.close()
        self._lock.close()

    def _append(self, line: _Line) -> None:
        self._file.write(_encode(line) + b"\n")
        self._file.flush()


def _first_line(tracer: Tracer) -> _Line:
    return _Line(tracer.id, tracer.entrance, [(d.database, d.table) for d in tracer.watches], tracer.sent_at)


def _result_line(tracer: Tracer, destination: Destination) -> _Line:
    watch = tracer.watches[destination]
    return _Line(
        tracer.id,
        refusal=tracer.refusal,
        destination=(destination.database, destination.table),
        result=watch.result,
        landed_at=watch.landed_at,
        due_from=watch.due_from,
    )


def _read(path: Path) -> tuple[dict[str, Tracer], dict[str, int], int]:
    """Return the tracers of a file, the duplicates by database, and the number of unreadable lines."""
    tracers: dict[str, Tracer] = {}
    duplicates: dict[str, int] = {}
    unreadable = 0
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return tracers, duplicates, 0
    for text in content.splitlines():
        try:
            line = _decode(text)
        except UNREADABLE:
            unreadable += 1
            continue
        duplicates |= line.duplicates or {}
        _apply(tracers, line)
    return tracers, duplicates, unreadable


def _apply(tracers: dict[str, Tracer], line: _Line) -> None:
    if line.entrance is not None and line.sent_at is not None:
        watches = {Destination(*each): Watch() for each in line.destinations}
        tracers[line.id] = Tracer(line.id, line.entrance, line.sent_at, watches)
        return
    tracer = tracers.get(line.id)
    if tracer is None:
        return  # its first line was cut
    tracer.accepted_at = line.accepted_at or tracer.accepted_at
    tracer.refusal = line.refusal or tracer.refusal
    if line.destination is not None and line.result is not None:
        tracer.watches[Destination(*line.destination)] = Watch(line.result, line.landed_at, line.due_from)
