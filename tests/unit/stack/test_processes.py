"""Children end with everything they started, by id, even when they resist or have lost their parent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from stack.errors import StackError
from stack.process_groups import is_alive, wait_all
from stack.processes import Child, Command, tail_of, wait_for

ROOT = Path(__file__).resolve().parents[3]
StartChild = Callable[..., Child]

# Starts a grandchild that leaves the process group and says so when it is there.
PARENT = """
import subprocess, sys, time
code = "import os, time; os.setpgid(0, 0); print('grandchild', os.getpid(), flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", code])
time.sleep({sleep})
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[StartChild]:
    started: list[Child] = []

    def start(code: str, grace: float = 5.0) -> Child:
        argv = [sys.executable, "-c", code]
        made = Child(Command(name="thing", argv=argv, log=tmp_path / "thing.log", grace_seconds=grace))
        started.append(made)
        made.start()
        return made

    try:
        yield start
    finally:
        for each in started:
            each.kill()


def said(child: Child, word: str) -> list[str]:
    wait_for(lambda: word in child.tail(), child, 20, waiting_for=f"it has not said {word}")
    return child.tail().split()


def exited(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_stop_takes_the_grandchildren_along(child: StartChild) -> None:
    parent = child(PARENT.format(sleep=600))
    grandchild = psutil.Process(int(said(parent, "grandchild")[1]))
    parent.stop()
    assert not parent.running
    assert not is_alive(grandchild)


def test_kill_finds_grandchildren_whose_parent_is_gone(child: StartChild) -> None:
    parent = child(PARENT.format(sleep=0.2))
    grandchild = psutil.Process(int(said(parent, "grandchild")[1]))
    exited(parent.pid)
    assert grandchild.is_running()
    parent.kill()
    assert not is_alive(grandchild)


def test_child_that_ignores_the_signal_is_killed_after_the_grace_period(child: StartChild) -> None:
    stubborn = child(STUBBORN, grace=0.3)
    said(stubborn, "ready")
    began = time.monotonic()
    stubborn.stop()
    assert stubborn.exit_code == -signal.SIGKILL
    assert time.monotonic() - began >= 0.3


def test_a_child_that_ended_by_itself_is_reported_with_its_last_words(child: StartChild) -> None:
    ended = child("import sys; print('my last words'); sys.exit(7)")
    exited(ended.pid)
    with pytest.raises(StackError) as caught:
        ended.check()
    assert "thing ended with exit code 7" in str(caught.value)
    assert caught.value.log_tail == "my last words"


def test_waiting_ends_with_the_child(child: StartChild) -> None:
    ended = child("raise SystemExit(3)")
    with pytest.raises(StackError, match="thing ended with exit code 3"):
        wait_for(lambda: False, ended, 20, waiting_for="the impossible")


def test_waiting_ends_with_the_time(child: StartChild) -> None:
    slow = child("import time; print('still busy', flush=True); time.sleep(600)")
    said(slow, "busy")
    with pytest.raises(StackError, match=r"not ready after 0 seconds: the impossible") as caught:
        wait_for(lambda: False, slow, 0.1, waiting_for="the impossible")
    assert caught.value.log_tail == "still busy"


def test_waiting_ends_with_the_crash_of_another_part(child: StartChild) -> None:
    def check() -> None:
        raise StackError("gateway was ended by SIGKILL.")

    busy = child("import time; time.sleep(600)")
    with pytest.raises(StackError, match="gateway was ended"):
        wait_for(lambda: False, busy, 0.1, waiting_for="the impossible", check=check)


def test_command_that_cannot_start_raises_an_error_with_the_reason(tmp_path: Path) -> None:
    command = Command(name="thing", argv=[str(tmp_path / "nothing")], log=tmp_path / "log")
    with pytest.raises(StackError, match=r"thing could not be started: .*No such file"):
        Child(command).start()


def test_a_killed_starter_takes_its_children_along(tmp_path: Path) -> None:
    starter = f"""
import sys, time
from pathlib import Path
from stack.process_groups import is_alive, wait_all
from stack.processes import Child, Command
command = Command(name="thing", argv=[sys.executable, "-c", {STUBBORN!r}],
                  log=Path({str(tmp_path / "log")!r}), grace_seconds=0.2)
child = Child(command)
child.start()
print(child.pid, flush=True)
time.sleep(600)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        orphan = psutil.Process(int(process.stdout.readline()))
        process.kill()
        process.wait()
        assert wait_all({orphan}, 20)


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail_of(log) == ""
    log.write_text("\n".join(f"line {number}" for number in range(100_000)), "utf-8")
    assert tail_of(log, 2) == "line 99998\nline 99999"
