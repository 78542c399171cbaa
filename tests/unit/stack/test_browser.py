"""The browser of the tests is downloaded with missing libraries; without it tests report that."""

import os
from pathlib import Path

import pytest

from stack import browser
from stack.errors import UnavailableError
from tests.fixtures import fix_browser

#: apt-get that plans two packages, and downloads what it is asked for.
APT = """#!/bin/sh
echo "$*" >> "{log}"
case "$*" in
  *--print-uris*)
    echo "'http://debian.example/b.deb' chromium-headless-shell_1_amd64.deb 9 SHA256:0"
    echo "'http://debian.example/l.deb' libopus0_1.3_amd64.deb 9 SHA256:0" ;;
  *"download "*) for name in chromium-headless-shell libopus0; do echo x > ${{name}}_1_amd64.deb; done ;;
esac
"""
DPKG = """#!/bin/sh
mkdir -p "$3/usr/lib/chromium" "$3/usr/lib/x"; touch "$3/usr/lib/chromium/chromium-headless-shell"
touch "$3/usr/lib/x/libopus.so.0"
"""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("ONRAMP_CACHE", str(tmp_path / "cache"))
    return tmp_path


def give_apt(folder: Path) -> None:
    for tool in ("mkdir", "touch"):
        (folder / "bin" / tool).symlink_to(f"/bin/{tool}")
    for name, text in (("apt-get", APT.format(log=folder / "log")), ("dpkg", DPKG)):
        (folder / "bin" / name).write_text(text, "utf-8")
        (folder / "bin" / name).chmod(0o700)


def test_it_is_fetched_once_with_its_libraries(machine: Path) -> None:
    give_apt(machine)
    first = browser.ensure_browser()
    assert browser.ensure_browser() == browser.find_browser() == first
    assert first.program.is_file()
    assert first.env["LD_LIBRARY_PATH"].endswith(f"usr{os.sep}lib{os.sep}x")
    planned, downloaded = (machine / "log").read_text("utf-8").splitlines()
    assert planned.endswith("chromium-headless-shell")
    assert downloaded == "download chromium-headless-shell libopus0"


def test_tests_that_need_it_are_skipped_with_a_sentence_or_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(fix_browser.REQUIRED, raising=False)
    with pytest.raises(pytest.skip.Exception, match="make browser"):
        fix_browser.found()
    monkeypatch.setenv(fix_browser.REQUIRED, "1")
    with pytest.raises(pytest.fail.Exception, match=fix_browser.REQUIRED):
        fix_browser.found()


def test_browser_setup_without_apt_raises_an_error_that_names_apt() -> None:
    with pytest.raises(UnavailableError, match="has no apt"):
        browser.ensure_browser()
