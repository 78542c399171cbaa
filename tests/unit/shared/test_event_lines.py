"""Lines about events: whole, within their limit, and every one that is left out is counted."""

import fcntl
import logging
import os
import select
import subprocess
import sys
import threading
from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import event_lines
from shared.event_lines import EventLines
from tests.fixtures.writer import eventually

LIMIT = 100


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Told:
    """Event lines with a test clock, and their output."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.written: list[bytes] = []
        self.lines = EventLines("writer", "x", LIMIT, clock=self.clock, write=self.written.extend)

    def parsed(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.written]

    def suppressed(self) -> Counter[str]:
        told = [line for line in self.parsed() if line["message"] == "event lines left out"]
        return sum((Counter(line["suppressed"]) for line in told), Counter())


AMOUNTS = st.tuples(st.floats(0, 3), st.integers(0, 300), st.integers(0, 300))


@given(st.lists(AMOUNTS, min_size=1, max_size=20))
def test_the_limit_holds_and_failures_borrow_no_more_than_a_second(
    steps: list[tuple[float, int, int]],
) -> None:
    told = Told()
    granted = 0
    for seconds, failures, others in steps:
        told.clock.now += seconds
        of_failures, of_others = told.lines.grant(failures, others)
        assert 0 <= of_failures <= failures
        assert 0 <= of_others <= others
        assert not of_others or of_failures == failures
        granted += of_failures + of_others
        # What was there at first, what each second brought, and what was borrowed.
        assert granted <= LIMIT + told.clock.now * LIMIT + LIMIT


def test_failures_win_over_what_landed_before_them_in_the_same_second() -> None:
    lines = Told().lines
    assert lines.grant(0, 500) == (0, LIMIT)
    assert lines.grant(30, 500) == (30, 0)
    assert lines.grant(500, 0) == (LIMIT - 30, 0)
    assert lines.grant(1, 0) == (0, 0)


def test_rate_below_the_limit_writes_every_line_and_borrowed_lines_are_repaid() -> None:
    told = Told()
    for _ in range(1000):
        told.clock.now += 0.01
        assert told.lines.grant(0, 1) == (0, 1)
    told.lines.grant(0, LIMIT)
    assert told.lines.grant(LIMIT, 0) == (LIMIT, 0)
    told.clock.now += 1
    assert told.lines.grant(0, LIMIT) == (0, 0)
    told.clock.now += 1
    assert told.lines.grant(0, 2 * LIMIT) == (0, LIMIT)


def test_a_second_that_left_lines_out_has_one_line_that_says_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, timers = Told(), list[threading.Timer]()

    def start(timer: threading.Timer) -> None:
        timers.append(timer)

    monkeypatch.setattr(threading.Timer, "start", start)
    for _ in range(1000):
        told.lines.suppress({"landed": 7, "parked": 1, "waiting": 0})
    (timer,) = timers
    assert (timer.interval, timer.daemon, told.written) == (1, True, [])
    timer.function()
    (line,) = told.parsed()
    assert (line["suppressed"], line["lines_per_second"]) == ({"landed": 7000, "parked": 1000}, LIMIT)

    told.lines.suppress({"landed": 0})
    told.lines.suppress({"landed": 2})
    assert len(timers) == 2
    timers[1].function()
    told.lines.write_summary()
    assert told.suppressed() == {"landed": 7002, "parked": 1000}
    assert len(told.written) == 2


def test_suppressed_count_is_logged_a_second_later_without_another_event() -> None:
    told = Told()
    told.lines.suppress({"landed": 7})
    eventually(lambda: told.suppressed() == {"landed": 7})


def test_suppressed_count_is_logged_at_once_if_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    told = Told()
    monkeypatch.setattr(threading.Timer, "start", refuse)
    told.lines.suppress({"landed": 2})
    assert told.suppressed() == {"landed": 2}


@pytest.mark.parametrize(("level", "expected"), [("DEBUG", 7), ("INFO", 7), ("WARNING", 0), ("ERROR", 0)])
def test_they_are_of_the_level_info(level: str, expected: int) -> None:
    assert event_lines.lines_at_level(7, level) == expected


@given(st.integers(0, 50), st.integers(0, 50))
def test_a_sample_is_spread_over_all(count: int, most: int) -> None:
    places = event_lines.spread(count, most)
    assert len(places) == min(count, most)
    assert places == sorted(set(places))
    if 0 < most < count:
        gaps = {b - a for a, b in zip(places, [*places[1:], count], strict=True)}
        assert max(gaps) - min(gaps) <= 1


SPEAKERS = """
import logging, sys, threading
from shared import logs
from shared.event_lines import EventLines
logs.set_up("writer")
logs._PATIENCE_MS = 60_000
lines = EventLines("writer", "x", 1000)
def events():
    for n in range(40):
        lines.write("event", [{"n": n, "fill": "x" * size} for size in (0, 10, 300, 3000, 3000, 3000)])
def logged():
    for n in range(160):
        logging.getLogger("y").info("logged", extra={"fill": "y" * 500})
threads = [threading.Thread(target=each) for each in (events, logged)]
for each in threads: each.start()
for each in threads: each.join()
lines.suppress({"landed": 3})
"""


def test_lines_of_threads_and_processes_stay_whole_in_a_pipe_and_the_end_tells_what_was_left_out() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, select.PIPE_BUF)  # what is longer goes in pieces
    speakers = [subprocess.Popen([sys.executable, "-c", SPEAKERS], stderr=writing) for _ in range(2)]
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        lines = [orjson.loads(line) for line in stream]
    assert [each.wait(60) for each in speakers] == [0, 0]
    assert Counter(line["message"] for line in lines) == {
        "event": 480,
        "logged": 320,
        "event lines left out": 2,
    }
    assert [line["suppressed"] for line in lines if "suppressed" in line] == [{"landed": 3}] * 2


def test_a_line_looks_like_every_other(caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    told.lines.write("event", [{"receipt": "t/0/1"}])
    (line,) = told.parsed()
    assert list(line) == ["time", "level", "service", "logger", "message", "receipt"]
    assert (line["level"], line["service"], line["logger"]) == ("info", "writer", "x")
    assert not caplog.records
    assert logging.getLogger().handlers


CLOSED = """
import os, socket, sys
from shared.event_lines import EventLines
ours, theirs = socket.socketpair()
assert 2 in (ours.fileno(), theirs.fileno())
EventLines("writer", "x", 10).write("event", [{"n": 1}])
theirs.setblocking(False); ours.setblocking(False)
for each in (ours, theirs):
    try:
        assert not each.recv(100)
    except BlockingIOError:
        pass
"""


def test_a_closed_standard_error_is_not_a_connection_that_got_its_number() -> None:
    command = f'exec "{sys.executable}" -c "$PROGRAM" 2>&-'
    ended = subprocess.run(["/bin/sh", "-c", command], env={**os.environ, "PROGRAM": CLOSED}, check=False)
    assert ended.returncode == 0


STALLED = """
import sys
from shared.event_lines import EventLines
lines = EventLines("writer", "x", 1000)
for n in range(100):
    lines.write("event", [{"n": n, "fill": "x" * 3000}])
sys.stdout.write("went on")
sys.stdout.flush()
sys.stdin.read(1)
"""


def test_stalled_log_reader_blocks_no_process_and_unwritten_lines_are_counted_later() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", STALLED], stdin=pipe, stdout=pipe, stderr=pipe) as speaker:
        assert speaker.stdin is not None
        assert speaker.stdout is not None
        assert speaker.stderr is not None
        assert speaker.stdout.read(7) == b"went on"
        speaker.stdin.write(b"x")
        speaker.stdin.close()
        lines = [orjson.loads(line) for line in speaker.stderr]
    assert speaker.returncode == 0
    written = sum(line["message"] == "event" for line in lines)
    assert 0 < written < 100
    assert sum(line.get("suppressed", {}).get("unwritten", 0) for line in lines) in (100 - written, 0)
