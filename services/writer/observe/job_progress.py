"""The progress of a Spark job, for its user: a large job may take minutes.

Spark reports the end of a task, and a plan has only one task for each slot.  So tasks write their counts into
files of a folder, which the waiting program reads.  Executors on other machines do not have the folder: for
them the lines show only the job's duration.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TextIO

#: Seconds between two lines; on a terminal one line is overwritten.
_EVERY: Final = 10.0
_EVERY_ON_TERMINAL: Final = 1.0
_ERASE: Final = "\r\x1b[2K"


def write_count(folder: Path | None, number: int, count: int) -> None:
    """Write atomically the number of offsets that task `number` has finished, unless there is no folder."""
    if folder is None or not folder.is_dir():
        return
    draft = folder / f".{number}"
    draft.write_text(str(count))
    draft.replace(folder / str(number))


def read_counts(folder: Path) -> int:
    """Return the number of offsets that all tasks have finished."""
    return sum(int(file.read_text()) for file in folder.glob("[0-9]*"))


def describe(done: int, offsets: int, seconds: float) -> str:
    """Return a line with the job's progress, rate and remaining seconds."""
    if not done:
        return f"tried none of {offsets:,} offsets in {seconds:,.0f} s"
    rate = done / max(seconds, 0.001)
    share = 100 * done // max(offsets, 1)
    left = max(offsets - done, 0) / rate
    return f"tried {done:,} of {offsets:,} offsets ({share} %), {rate:,.0f}/s, about {left:,.0f} s left"


class Progress:
    """Writes lines about a job's progress to standard error."""

    def __init__(self, stream: TextIO | None = None, *, every: float | None = None) -> None:
        """`every`: seconds between two lines about a job."""
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._every = every or (_EVERY_ON_TERMINAL if self._is_terminal else _EVERY)

    def say(self, text: str) -> None:
        """Write a line."""
        self._stream.write(f"plan: {text}\n")
        self._stream.flush()

    @contextmanager
    def following(self, offsets: int) -> Iterator[Path]:
        """Report a job's progress over `offsets` until the block ends; yield the folder for its tasks."""
        ended = threading.Event()
        with TemporaryDirectory(prefix="onramp-plan-") as name:
            folder = Path(name)
            reporter = threading.Thread(target=self._report, args=(folder, offsets, ended), daemon=True)
            reporter.start()
            try:
                yield folder
            finally:
                ended.set()
                reporter.join()

    def _report(self, folder: Path, offsets: int, ended: threading.Event) -> None:
        began = time.monotonic()
        while not ended.wait(self._every):
            text = describe(read_counts(folder), offsets, time.monotonic() - began)
            if self._is_terminal:
                self._stream.write(f"{_ERASE}plan: {text}")
                self._stream.flush()
            else:
                self.say(text)
        if self._is_terminal:
            self._stream.write(_ERASE)
            self._stream.flush()
