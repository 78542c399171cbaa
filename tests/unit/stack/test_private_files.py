"""Files in the data folder are private to their owner, however they were created."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.errors import UnavailableError
from stack.interrupts import Interrupts
from stack.plan import Plan
from stack.private_files import private_folder, secret
from stack.report import Silent
from stack.up import Stack


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def made() -> str:
    return "made"


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """A test whose runner gives no rights to others would prove nothing."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_new_folder_is_its_owners_alone(tmp_path: Path) -> None:
    private_folder(tmp_path / "data")
    assert mode(tmp_path / "data") == 0o700


def test_an_older_wider_folder_is_narrowed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    private_folder(tmp_path / "data")
    assert mode(tmp_path / "data") == 0o700


def test_world_writable_folder_is_refused_and_its_mode_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    with pytest.raises(UnavailableError, match="everybody writes to"):
        private_folder(tmp_path / "tmp")
    assert mode(tmp_path / "tmp") == 0o777


def test_the_stack_narrows_its_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    stack = Stack(Plan(data_dir=tmp_path / "data"), Silent(), Interrupts())

    def no_jars() -> None:
        raise UnavailableError("far enough", fix="")

    monkeypatch.setattr(stack, "_get_jars", no_jars)
    with pytest.raises(UnavailableError, match="far enough"):
        stack.start()
    stack.stop()
    assert mode(tmp_path / "data") == 0o700


def test_a_secret_is_made_once_and_its_owners_alone(tmp_path: Path) -> None:
    assert secret(tmp_path / "key", made) == secret(tmp_path / "key", lambda: "another") == "made"
    assert mode(tmp_path / "key") == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "key"]


def test_an_older_wider_secret_is_narrowed(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("older\n")
    assert secret(tmp_path / "key", made) == "older"
    assert mode(tmp_path / "key") == 0o600


@pytest.mark.parametrize("text", ["", "\n", "  \n"])
def test_an_empty_secret_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    assert secret(tmp_path / "key", made) == "made"
    assert (tmp_path / "key").read_text() == "made\n"


def test_a_disk_that_is_full_leaves_no_half_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        secret(tmp_path / "key", made)
    assert not (tmp_path / "key").exists()
