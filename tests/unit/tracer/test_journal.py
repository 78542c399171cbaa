"""The tracer's file: tracers in flight survive a crash, and a single process uses the file."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from services.tracer.journal import DAY, InUseError, Journal
from services.tracer.results import Change, Destination, Result, Tracer, Watch

HERE = Destination("onramp", "public.onramp_probe")
NOW = 1_000_000.0


def tracer(tracer_id: str = "t", sent_at: float = NOW) -> Tracer:
    return Tracer(tracer_id, "kafka", sent_at, {HERE: Watch()})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tracers.jsonl"


def test_a_kill_loses_no_tracer_and_no_result(file: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from tests.unit.tracer.test_journal import HERE, NOW, tracer
from services.tracer.journal import Journal
from services.tracer.results import Change, Result
journal = Journal.open(Path({str(file)!r}), NOW)
landed, flying = tracer("landed"), tracer("flying")
journal.add([landed, flying])
landed.accepted_at = NOW + 1
journal.accept(landed)
landed.watches[HERE].result, landed.watches[HERE].landed_at = Result.LANDED, NOW + 2
journal.change([Change(landed, HERE, Result.LANDED)])
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code], check=False, cwd=Path.cwd())
    assert killed.returncode == -signal.SIGKILL
    journal = Journal.open(file, NOW + 3)
    assert journal.tracers["landed"].accepted_at == NOW + 1
    assert journal.tracers["landed"].watches == {HERE: Watch(Result.LANDED, NOW + 2)}
    assert journal.tracers["flying"].watches == {HERE: Watch()}
    journal.close()


def test_a_line_that_was_cut_is_skipped(file: Path) -> None:
    journal = Journal.open(file, NOW)
    journal.add([tracer("whole"), tracer("cut")])
    journal.close()
    file.write_bytes(file.read_bytes()[:-20])
    again = Journal.open(file, NOW)
    assert ([*again.tracers], again.unreadable) == (["whole"], 1)
    again.add([tracer("next")])
    again.close()
    last = Journal.open(file, NOW)
    assert ([*last.tracers], last.unreadable) == (["whole", "next"], 0)
    last.close()


def test_tracers_of_yesterday_are_pruned(file: Path) -> None:
    journal = Journal.open(file, NOW)
    journal.add([tracer("old"), tracer("new", NOW + DAY)])
    journal.prune(NOW + DAY + 1)
    journal.close()
    again = Journal.open(file, NOW + DAY + 1)
    assert [*again.tracers] == ["new"]
    again.close()


def test_a_result_is_corrected_after_a_restart(file: Path) -> None:
    journal = Journal.open(file, NOW)
    lost = tracer()
    journal.add([lost])
    for result in (Result.LOST, Result.LATE):
        lost.watches[HERE].result = result
        journal.change([Change(lost, HERE, result)])
    journal.close()
    again = Journal.open(file, NOW)
    assert again.tracers["t"].watches[HERE].result is Result.LATE
    again.close()


def test_second_process_is_refused_and_exits_with_a_message(file: Path) -> None:
    journal = Journal.open(file, NOW)
    with pytest.raises(InUseError):
        Journal.open(file, NOW)
    env = {**os.environ, "ONRAMP_TRACER_FILE": str(file), "ONRAMP_WRITER_DSN": "postgresql://x@127.0.0.1:1/d"}
    second = subprocess.run(
        [sys.executable, "-m", "services.tracer"], check=False, env=env, capture_output=True, text=True
    )
    assert second.returncode == 1
    assert f"another tracer uses {file}" in second.stderr
    journal.close()
