"""Progress output of `onramp plan` while it runs, and output that it hides."""

import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from services.writer.observe.job_progress import Progress, describe, write_count
from services.writer.observe.jvm_stderr import without_warnings

_JVM = "import sys; sys.stderr.write('WARNING: Using incubator modules: x\\nwhat happened\\n')"


class Stream(io.StringIO):
    """Return the time at which a line with these words was written."""

    def __init__(self, words: str, *, is_terminal: bool = False) -> None:
        super().__init__()
        self._words = words
        self._is_terminal = is_terminal
        self.written = threading.Event()

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str, /) -> int:
        written = super().write(text)
        if self._words in text:
            self.written.set()
        return written


@pytest.mark.parametrize(
    ("done", "seconds", "text"),
    [
        (0, 12.4, "tried none of 10,000 offsets in 12 s"),
        (2_500, 10.0, "tried 2,500 of 10,000 offsets (25 %), 250/s, about 30 s left"),
        (10_000, 40.0, "tried 10,000 of 10,000 offsets (100 %), 250/s, about 0 s left"),
    ],
)
def test_progress_says_how_many_at_which_rate_and_how_long_still(
    done: int, seconds: float, text: str
) -> None:
    assert describe(done, 10_000, seconds) == text


@pytest.mark.parametrize("is_terminal", [False, True])
def test_progress_is_shown_while_the_job_runs_from_counts_that_its_tasks_write(*, is_terminal: bool) -> None:
    stream = Stream("tried 2,000 of 4,000 offsets (50 %)", is_terminal=is_terminal)
    with Progress(stream, every=0.001).following(4_000) as folder:
        write_count(folder, 0, 400)
        write_count(folder, 1, 1_500)
        write_count(folder, 0, 500)
        assert stream.written.wait(60)
    assert not folder.exists()
    assert stream.getvalue().endswith("\r\x1b[2K" if is_terminal else "left\n")


def test_a_task_on_another_machine_goes_on_without_the_folder(tmp_path: Path) -> None:
    write_count(tmp_path / "gone", 0, 1)
    write_count(None, 0, 1)
    assert list(tmp_path.iterdir()) == []


def test_the_warning_of_the_jvm_is_left_out_of_standard_error_and_nothing_else() -> None:
    read, write = os.pipe()
    stderr = os.dup(2)
    os.dup2(write, 2)
    try:
        with without_warnings():
            process = subprocess.Popen([sys.executable, "-S", "-c", _JVM])
        os.write(2, b"own\n")  # no longer filtered
        process.wait()
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(write)
    with os.fdopen(read, "rb") as lines:
        assert sorted(lines.read().splitlines()) == [b"own", b"what happened"]
