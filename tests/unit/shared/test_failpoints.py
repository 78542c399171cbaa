"""Failpoints, each in its own process: an armed failpoint kills, pauses or raises."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shared import failpoints

ROOT = Path(failpoints.__file__).parents[1]
PROGRAM = "from shared import failpoints; failpoints.reach('here'); print('went on')"


MEETS = "from shared import failpoints; failpoints.meet('here', [['ab', b'cd'], [None]]); print('went on')"


def start(program: str = PROGRAM, **env: str) -> "subprocess.Popen[str]":
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ONRAMP_")}
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**clean, "PYTHONPATH": str(ROOT), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("armed", [{}, {"ONRAMP_FAILPOINTS": ""}, {"ONRAMP_FAILPOINTS": "elsewhere=kill"}])
def test_nothing_happens_unless_armed(armed: dict[str, str]) -> None:
    with start(**armed) as process:
        assert process.communicate()[0] == "went on\n"


def test_kill_is_as_sudden_as_sigkill() -> None:
    with start(ONRAMP_FAILPOINTS="elsewhere=pause,here=kill") as process:
        assert process.communicate()[0] == ""
    assert process.returncode == -signal.SIGKILL


def test_kill_may_mean_another_process() -> None:
    with subprocess.Popen(["sleep", "60"]) as leader:
        with start(ONRAMP_FAILPOINTS="here=kill", ONRAMP_FAILPOINT_PID=str(leader.pid)) as process:
            assert process.communicate()[0] == "went on\n"
        assert leader.wait(10) == -signal.SIGKILL


def test_pause_creates_its_flag_file_and_ends_when_the_file_is_removed(tmp_path: Path) -> None:
    flag = tmp_path / "here"
    with start(ONRAMP_FAILPOINTS="here=pause", ONRAMP_FAILPOINT_DIR=str(tmp_path)) as process:
        deadline = time.monotonic() + 20
        while not flag.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert process.poll() is None
        flag.unlink()
        assert process.communicate()[0] == "went on\n"


@pytest.mark.parametrize("armed", ["", "elsewhere=raise", "here=raise:xy", "here=pause:ab"])
def test_value_passes_a_failpoint_unless_an_armed_raise_names_it(armed: str) -> None:
    with start(MEETS, ONRAMP_FAILPOINTS=armed) as process:
        assert process.communicate()[0] == "went on\n"


@pytest.mark.parametrize("armed", ["here=raise", "here=raise:b", "elsewhere=kill,here=raise:cd"])
def test_armed_raise_ends_the_process_with_a_failpoint_error(armed: str) -> None:
    with start(MEETS, ONRAMP_FAILPOINTS=armed) as process:
        out, error = process.communicate()
    assert out == ""
    assert "FailpointError: here" in error
