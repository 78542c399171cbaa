"""Tests make their files in memory where there is room, and a failed run's logs outlive the folder."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fixtures import memory_folder


def test_a_folder_of_memory_needs_room_free_memory_and_execution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_folder, "MIN_FREE_BYTES", 0)
    monkeypatch.setattr(memory_folder, "MIN_AVAILABLE_BYTES", 0)
    assert memory_folder.is_suitable(tmp_path)
    assert not memory_folder.is_suitable(tmp_path / "absent")
    for limit in ("MIN_FREE_BYTES", "MIN_AVAILABLE_BYTES"):
        with monkeypatch.context() as changed:
            changed.setattr(memory_folder, limit, 1 << 60)
            assert not memory_folder.is_suitable(tmp_path)
    without_programs = SimpleNamespace(f_flag=os.ST_NOEXEC, f_bavail=1 << 40, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: without_programs)
    assert not memory_folder.is_suitable(tmp_path)


def test_the_folder_of_a_killed_run_is_removed_by_the_next_one(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    for pid in (ended.pid, os.getpid()):
        (tmp_path / f"{memory_folder.PREFIX}{pid}-abc").mkdir()
    memory_folder.remove_leftovers(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [f"{memory_folder.PREFIX}{os.getpid()}-abc"]


def test_logs_of_a_failed_run_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "run" / "kafka0" / "kafka.log"
    log.parent.mkdir(parents=True)
    log.write_text("ended\n", "utf-8")
    (log.parent / "data").write_bytes(bytes(10))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    copies = memory_folder.copy_logs(tmp_path / "run")
    assert [file.relative_to(copies) for file in copies.rglob("*") if file.is_file()] == [
        Path("kafka0/kafka.log")
    ]
