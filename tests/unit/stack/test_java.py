"""A Java version that Spark does not support is refused; the message names it and the remedy."""

from pathlib import Path

import pytest

from stack import java
from stack.errors import UnavailableError


def fake_java(folder: Path, version: str) -> Path:
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n", "utf-8")
    executable.chmod(0o755)
    return executable


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without JAVA_HOME, PATH and usual folders."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "USUAL", ())
    monkeypatch.setattr(java.shutil, "which", lambda _: None)
    return monkeypatch


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21.0.2", 21), ("21", 21)])
def test_17_and_21_are_taken(tmp_path: Path, only: pytest.MonkeyPatch, version: str, major: int) -> None:
    executable = fake_java(tmp_path, version)
    only.setenv("JAVA_HOME", str(tmp_path))
    found = java.find_java()
    assert (found.major, found.executable, found.home) == (major, executable, tmp_path)


def test_another_version_is_passed_over_for_a_good_one(tmp_path: Path, only: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "old", "11.0.1")
    good = fake_java(tmp_path / "new", "17.0.1")
    only.setenv("JAVA_HOME", str(tmp_path / "old"))
    only.setattr(java.shutil, "which", lambda _: str(good))
    assert java.find_java().executable == good


def test_a_wrong_version_alone_is_named(tmp_path: Path, only: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "25.0.1")
    only.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UnavailableError, match=r"java is Java 25\.\nInstall Java 17 or 21"):
        java.find_java()


@pytest.mark.usefixtures("only")
def test_missing_java_error_says_how_to_install_java() -> None:
    with pytest.raises(UnavailableError, match=r"No Java was found.*\nInstall Java 17 or 21"):
        java.find_java()
