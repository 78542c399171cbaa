"""Prometheus is found or downloaded with its verified checksum, and a missing one is reported."""

import hashlib
import os
from pathlib import Path

import pytest

from stack import debian, prometheus
from stack.errors import UnavailableError
from tests.fixtures import fix_prometheus

PACKAGE = b"a package's bytes"
FILE = "prometheus_1.0_amd64.deb"
#: apt-get keeps what it was asked; without `lists` it finds the package only after an update.
APT = """#!/bin/sh
echo "$*" >> "{log}"
case "$*" in
  "download "*) [ -z "{lists}" ] && {{ echo "E: Unable to locate package" >&2; exit 100; }} ;;
  *update) exit 0 ;;
esac
printf '%s' "{content}" > {file}
"""
DPKG = """#!/bin/sh
mkdir -p "$3/usr/bin"; touch "$3/usr/bin/prometheus" "$3/usr/bin/promtool"
"""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with only the shell's tools on its PATH, and an empty cache."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("ONRAMP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(prometheus, "_KNOWN", {FILE: hashlib.sha256(PACKAGE).hexdigest()})
    return tmp_path


def program(folder: Path, name: str, text: str) -> None:
    (folder / "bin" / name).write_text(text, "utf-8")
    (folder / "bin" / name).chmod(0o700)


def give_apt(folder: Path, content: str = PACKAGE.decode(), lists: str = "yes") -> None:
    for tool in ("mkdir", "touch"):
        (folder / "bin" / tool).symlink_to(f"/bin/{tool}")
    program(folder, "apt-get", APT.format(log=folder / "log", lists=lists, content=content, file=FILE))
    program(folder, "dpkg", DPKG)


def asked(folder: Path) -> list[str]:
    return (folder / "log").read_text("utf-8").splitlines()


def test_prometheus_on_the_path_is_used(machine: Path) -> None:
    for name in ("prometheus", "promtool"):
        program(machine, name, "#!/bin/sh\n")
    assert prometheus.ensure_programs().promtool == machine / "bin/promtool"


def test_it_is_fetched_once(machine: Path) -> None:
    give_apt(machine)
    first = prometheus.ensure_programs()
    assert prometheus.ensure_programs() == prometheus.find_programs() == first
    assert first.prometheus.is_file()
    assert asked(machine) == ["download prometheus"]


def test_without_lists_it_reads_lists_of_its_own(machine: Path) -> None:
    give_apt(machine, lists="")
    assert prometheus.ensure_programs().prometheus.is_file()
    assert [line.split()[-1] for line in asked(machine)] == ["prometheus", "update", "prometheus"]


def test_a_package_that_is_not_the_known_one_is_not_unpacked(machine: Path) -> None:
    give_apt(machine, content="other bytes")
    with pytest.raises(UnavailableError, match="SHA-256"):
        prometheus.ensure_programs()
    assert debian.unpacked("prometheus") is None
    assert [each.name for each in (machine / "cache/debian").iterdir()] == [".lock"]


def test_without_apt_it_says_what_to_do() -> None:
    with pytest.raises(UnavailableError, match=r"has no apt[\s\S]*on the PATH"):
        prometheus.ensure_programs()


def test_a_folder_without_it_is_named(machine: Path) -> None:
    with pytest.raises(UnavailableError, match=str(machine / "prometheus")):
        prometheus.ensure_programs(machine)


def test_tests_that_need_it_are_skipped_with_a_sentence_and_fail_in_ci(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="make prometheus"):
        fix_prometheus.found(None)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI runs every test"):
        fix_prometheus.found(None)


def test_its_services_are_the_targets(tmp_path: Path) -> None:
    programs = prometheus.Programs(tmp_path / "prometheus", tmp_path / "promtool")
    server = prometheus.Prometheus(tmp_path, {"onramp-writer": "http://127.0.0.1:81"}, programs=programs)
    [scraped] = server._configuration()["scrape_configs"]  # type: ignore[misc]
    assert scraped == {"job_name": "onramp-writer", "static_configs": [{"targets": ["127.0.0.1:81"]}]}
    assert os.fspath(prometheus.RULES).endswith("deploy/prometheus/rules")
