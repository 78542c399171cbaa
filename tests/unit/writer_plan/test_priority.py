"""A plan has the lowest priority on the machine, and exits as if it had no child process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.fixtures.writer import eventually

# Whoever runs the tests by `nohup` has SIGHUP ignored, which a program inherits.
_SAY = """
import os, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from shared.give_way import give_way
give_way()
"""
_TELL = """
at = os.path.exists('/proc/self/autogroup') and open('/proc/self/autogroup').read().split()
print(os.nice(0), os.getsid(0) == os.getpid(), *(at[1:] if at else ()))
sys.exit(4)
"""
_STAY = "print(os.getpid(), flush=True); time.sleep(600)"


@contextmanager
def _running() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a program with lowered priority that waits; yield it, and its child process."""
    command = [sys.executable, "-c", _SAY + _STAY]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as program:
        assert program.stdout is not None
        child = int(program.stdout.readline())
        try:
            yield program, child
        finally:
            program.kill()
            if _is_there(child):
                os.kill(child, signal.SIGKILL)


def _is_there(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_it_has_the_lower_priority_as_a_program_and_as_a_session() -> None:
    done = subprocess.run([sys.executable, "-c", _SAY + _TELL], capture_output=True, text=True, check=False)
    before = os.nice(0)
    of_session = ["nice", "10"] if Path("/proc/self/autogroup").exists() else []
    assert done.stdout.split() == [str(min(before + 10, 19)), "True", *of_session], done.stderr
    assert done.returncode == 4


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_program_and_its_child_without_a_traceback(ending: signal.Signals) -> None:
    with _running() as (program, child):
        program.send_signal(ending)
        _, said = program.communicate(timeout=60)
        eventually(lambda: not _is_there(child), 60)
    assert (program.returncode, said) == (-ending, "")


def test_child_ends_when_its_parent_is_killed() -> None:
    with _running() as (program, child):
        program.kill()
        eventually(lambda: not _is_there(child), 60)


def test_it_ends_as_the_child_that_is_killed() -> None:
    with _running() as (program, child):
        os.kill(child, signal.SIGKILL)
        assert program.wait(60) == -signal.SIGKILL
