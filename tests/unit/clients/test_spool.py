"""The spool: events survive a killed process, a truncated last line and an unreachable gateway."""

import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clients.python.onramp_client import Onramp, QueueFullError
from tests.fixtures.raw_server import Worst, problem, results
from tests.unit.clients.conftest import PATIENCE, Settled, send, until

CLIENT = Path(__file__).resolve().parents[3] / "clients" / "python"
NOWHERE = "http://127.0.0.1:1"


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def killed(folder: Path, count: int = 3) -> Path:
    """Leave the file of a process that took events and was killed."""
    program = (
        "import os, signal\nfrom onramp_client import Onramp\n"
        f"onramp = Onramp({NOWHERE!r}, spool={str(folder)!r})\n"
        f"for n in range({count}): onramp.send('x', {{}}, id=f'e{{n}}')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    known = set(files(folder)) if folder.exists() else set()
    done = subprocess.run([sys.executable, "-c", program], cwd=CLIENT, check=False, timeout=200)
    assert done.returncode == -signal.SIGKILL
    (left,) = set(files(folder)) - known
    return left


def replayed(worst: Worst, folder: Path, settled: Settled) -> Onramp:
    onramp = Onramp(worst.url, spool=folder, on_settled=settled, backoff_seconds=0.02)
    assert onramp.flush(PATIENCE)
    return onramp


def test_events_spooled_by_a_killed_process_are_sent_by_the_next_process(
    worst: Worst, settled: Settled, tmp_path: Path
) -> None:
    killed(tmp_path / "a" / "spool")
    onramp = replayed(worst, tmp_path / "a" / "spool", settled)
    assert settled.outcomes == {"e0": "accepted", "e1": "accepted", "e2": "accepted"}
    onramp.close()
    assert files(tmp_path / "a" / "spool") == []


def test_events_unsent_at_close_stay_spooled_and_are_sent_at_the_next_start(
    worst: Worst, settled: Settled, tmp_path: Path
) -> None:
    onramp = Onramp(NOWHERE, spool=tmp_path, on_settled=settled, give_up_seconds=0.0)
    send(onramp, "a", "b")
    assert onramp.close(0.1).spooled == 2
    assert settled.outcomes == {"a": "spooled", "b": "spooled"}
    replayed(worst, tmp_path, settled).close()
    assert settled.said[2:] != []
    assert sorted(each for ids in worst.ids for each in ids) == ["a", "b"]


def test_settled_events_are_not_sent_again_from_the_spool(
    worst: Worst, settled: Settled, tmp_path: Path
) -> None:
    worst.script = lambda asked: results(asked, b="422 bad_envelope", c="503 kafka_unreachable")
    onramp = Onramp(worst.url, spool=tmp_path, on_settled=settled, backoff_seconds=0.02)
    send(onramp, "a", "b", "c")
    until(lambda: len(settled.said) == 2)
    assert onramp.close(0.1).spooled == 1
    worst.asked.clear()
    worst.script = results
    replayed(worst, tmp_path, settled).close()
    assert worst.ids == [["c"]]


def test_truncated_or_corrupt_line_is_logged_and_other_lines_are_sent(
    worst: Worst, settled: Settled, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left = killed(tmp_path, 4)
    lines = left.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"x"', b'"y"')
    left.write_bytes(b"".join(lines)[:-10])
    with caplog.at_level(logging.WARNING, "onramp_client"):
        replayed(worst, tmp_path, settled).close()
    assert settled.outcomes == {"e0": "accepted", "e2": "accepted"}
    assert "2 damaged lines" in caplog.text
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"\0" * 5_000, b"+ zz\n", b"+\n-\n+ \n", bytes(range(256)) * 40]
)
def test_spool_file_without_valid_lines_is_removed_and_new_events_are_sent(
    worst: Worst, settled: Settled, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "1-a.spool").write_bytes(content)
    onramp = replayed(worst, tmp_path, settled)
    send(onramp, "a")
    assert onramp.close().accepted == 1
    assert files(tmp_path) == []


def test_files_are_adopted_one_after_another_but_never_a_living_ones(
    worst: Worst, settled: Settled, tmp_path: Path
) -> None:
    living = Onramp(NOWHERE, spool=tmp_path)
    send(living, "alive")
    killed(tmp_path)
    killed(tmp_path)
    onramp = replayed(worst, tmp_path, settled)
    assert len(settled.said) == 6
    onramp.close()
    assert "alive" not in settled.outcomes
    assert len(files(tmp_path)) == 1
    living.close(0.1)


def test_a_child_of_a_fork_has_a_file_of_its_own(worst: Worst, settled: Settled, tmp_path: Path) -> None:
    program = (
        "import os, signal\nfrom onramp_client import Onramp\n"
        f"onramp = Onramp({NOWHERE!r}, spool={str(tmp_path)!r})\n"
        "onramp.send('x', {}, id='parent')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    onramp.send('x', {}, id='child')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.waitpid(child, 0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=CLIENT, check=False, timeout=200)
    assert len(files(tmp_path)) == 2
    onramp = replayed(worst, tmp_path, settled)
    onramp.close()
    assert sorted(each for ids in worst.ids for each in ids) == ["child", "parent"]


def test_full_spool_raises_queue_full_and_its_files_stay_bounded(worst: Worst, tmp_path: Path) -> None:
    worst.script = lambda _: problem(503)
    onramp = Onramp(worst.url, spool=tmp_path, spool_bytes=10_000)
    with pytest.raises(QueueFullError, match="spool"):
        any(not onramp.send("order_placed", {"text": "x" * 100}) for _ in range(200))
    assert sum(file.stat().st_size for file in files(tmp_path)) <= 10_200
    assert onramp.close(0.1).spooled == onramp.tally.sent > 20


def test_settled_events_make_room(worst: Worst, settled: Settled, tmp_path: Path) -> None:
    worst.script = lambda asked: problem(503, retry_after="100") if "stays" in asked.ids else results(asked)
    onramp = Onramp(worst.url, spool=tmp_path, spool_bytes=10_000, batch=1, on_settled=settled)
    send(onramp, "stays")
    for n in range(300):
        onramp.send("order_placed", {"text": "x" * 100}, id=f"e{n}", block_seconds=PATIENCE)
        until(lambda n=n: len(settled.said) > n)  # type: ignore[misc]
    assert sum(file.stat().st_size for file in files(tmp_path)) <= 10_200
    assert onramp.close(0.1).spooled == 1
    settled.said.clear()
    worst.script = results
    replayed(worst, tmp_path, settled).close()
    assert settled.outcomes == {"stays": "accepted"}


def test_spool_files_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    onramp = Onramp(NOWHERE, spool=tmp_path / "spool")
    send(onramp, "a")
    assert [file.stat().st_mode & 0o777 for file in files(tmp_path / "spool")] == [0o600]
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700
    onramp.close(0.1)
