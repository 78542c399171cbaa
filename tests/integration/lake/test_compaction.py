"""Compaction by real processes: killed, concurrent and during appends, without lost or doubled rows."""

import os
import subprocess
import sys
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from services.lake.compaction.delta_compact import compact
from services.lake.compaction.delta_replace import replace_files
from services.lake.compaction.delta_rewrite import rewrite
from services.lake.compaction.policy import Policy
from shared.lake.delta_files import Partition, read_files
from tests.fixtures.delta_tables import FIRST_DAY, append, logged_files, receipts, small_files

PROGRAM = [sys.executable, "-m", "tests.integration.lake.compaction_program"]
DAY = Partition("_date", FIRST_DAY.isoformat())


def start(*arguments: str, failpoint: str = "") -> subprocess.Popen[str]:
    env = {**os.environ, "ONRAMP_FAILPOINTS": failpoint}
    return subprocess.Popen([*PROGRAM, *arguments], env=env, stdout=subprocess.PIPE, text=True)


def finish(*programs: subprocess.Popen[str]) -> list[str]:
    outputs = [program.communicate(timeout=120)[0] for program in programs]
    assert [program.returncode for program in programs] == [0] * len(programs)
    return outputs


def expected(**commits: int) -> list[tuple[int, int]]:
    return [(int(p[1:]), offset) for p, upto in commits.items() for offset in range(upto)]


@pytest.mark.parametrize("failpoint", ["lake.compaction_files_written", "lake.compaction_committed"])
def test_a_killed_compaction_loses_and_doubles_nothing(tmp_path: Path, failpoint: str) -> None:
    uri = str(tmp_path / "flights")
    small_files(uri, 6)
    killed = start("compact", uri, failpoint=f"{failpoint}=kill")
    killed.communicate(timeout=60)
    assert killed.returncode == -9
    assert receipts(Path(uri)) == expected(p0=60)
    deque(compact(DeltaTable(uri), Policy(min_small_files=4), datetime.now(UTC)), maxlen=0)
    assert receipts(Path(uri)) == expected(p0=60)
    assert len(logged_files(Path(uri))) == 1


@pytest.mark.full
def test_two_compactions_beside_two_appenders_lose_and_double_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "flights")
    small_files(uri, 4)
    appenders = [start("append", uri, str(partition), "25") for partition in (0, 1)]
    rewrites = 0
    while any(program.poll() is None for program in appenders):
        rewrites += sum(map(int, finish(start("compact", uri), start("compact", uri))))
    finish(*appenders)
    assert rewrites > 1
    assert receipts(Path(uri)) == expected(p0=250, p1=250)
    table = DeltaTable(uri)
    assert table.count() == 500
    assert table.transaction_version("onramp/qDFWO7kHTUmfqVJPNmyO4w/1/landed") == 250


def test_a_second_rewrite_of_the_same_files_is_superseded(tmp_path: Path) -> None:
    small_files(uri := str(tmp_path / "flights"), 4)
    first, second = DeltaTable(uri), DeltaTable(uri)
    new = [
        rewrite(t, DAY, read_files(t)[DAY], target_bytes=Policy().target_bytes, closes=False)
        for t in (first, second)
    ]
    assert replace_files(first, new[:1]) == new[:1]
    append(uri, 1, 10)
    assert replace_files(second, new[1:]) == []
    assert receipts(Path(uri)) == expected(p0=40, p1=10)


def test_a_commit_whose_reply_was_lost_counts_as_committed(tmp_path: Path) -> None:
    small_files(uri := str(tmp_path / "flights"), 4)
    table = DeltaTable(uri)
    new = rewrite(table, DAY, read_files(table)[DAY], target_bytes=Policy().target_bytes, closes=False)
    replace_files(DeltaTable(uri), [new])  # as if by this process, unknown to it
    assert replace_files(table, [new]) == [new]
    assert receipts(Path(uri)) == expected(p0=40)


def test_an_optimize_of_another_engine_supersedes_ours(tmp_path: Path) -> None:
    small_files(uri := str(tmp_path / "flights"), 4)
    table = DeltaTable(uri)
    new = rewrite(table, DAY, read_files(table)[DAY], target_bytes=Policy().target_bytes, closes=False)
    DeltaTable(uri).optimize.compact()
    assert replace_files(table, [new]) == []
    assert receipts(Path(uri)) == expected(p0=40)
