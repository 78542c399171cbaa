"""Programs from Debian's packages, unpacked into the cache: nothing is installed and no root is needed.

apt downloads the packages from the configured sources and verifies them. For tested versions, the checksum is
compared once more.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from stack.cache import cache_dir, locked, sha256_of
from stack.errors import UnavailableError

_TIMEOUT_SECONDS: Final = 300
_FAILED: Final = "The Debian package {name} could not be fetched: {why}."
#: A line of `apt-get install --print-uris`: the URI, and the file, whose name begins with the package's.
_URI: Final = re.compile(r"^'[^']+' ([^_ ]+)_", re.MULTILINE)


def unpacked(name: str) -> Path | None:
    """Return the folder of a package that was unpacked before, or None."""
    folder = cache_dir("debian") / name
    return folder if folder.is_dir() else None


def ensure_package(name: str, known: Mapping[str, str], *, fix: str, has_libraries: bool = False) -> Path:
    """Return the folder in which a package is unpacked, fetching it if it is not.

    Safe when several processes do it at once: one fetches, the others wait for it.

    Args:
        name: the package.
        known: the SHA-256 of its files by their names; another file is verified by apt only.
        fix: instructions for a person.
        has_libraries: also unpack the packages that it depends on and that this machine has not installed.

    Raises:
        UnavailableError: there is no apt, it has no such package, or the checksum is not the known one.
    """
    folder = cache_dir("debian")
    with locked(folder / ".lock"):
        return unpacked(name) or _Download(name, folder, fix, has_libraries=has_libraries).unpacked(known)


def fetch(ensure: Callable[[], Path]) -> int:
    """Fetch a program if it is missing, and print its path; return an exit code."""
    try:
        print(ensure())
    except UnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


class _Download:
    """The download of one package."""

    def __init__(self, name: str, folder: Path, fix: str, *, has_libraries: bool) -> None:
        self._name = name
        self._folder = folder
        self._fix = fix
        self._has_libraries = has_libraries

    def unpacked(self, known: Mapping[str, str]) -> Path:
        """Return the folder of the unpacked package."""
        if not shutil.which("apt-get") or not shutil.which("dpkg"):
            raise self._error("this machine has no apt")
        # In the cache's own folder, so that the last step is a rename on one file system.
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".download-") as scratch:
            for package in self._packages(Path(scratch)):
                if (actual := sha256_of(package)) != known.get(package.name, actual):
                    raise self._error(
                        f"the SHA-256 of {package.name} is {actual}, the known one is {known[package.name]}"
                    )
                self._run(["dpkg", "-x", str(package), f"{scratch}/{self._name}"], Path(scratch))
            return Path(scratch, self._name).rename(self._folder / self._name)

    def _packages(self, scratch: Path) -> Sequence[Path]:
        """Return the downloaded files of the package, and of its libraries."""
        try:
            self._fetch(["apt-get"], scratch)
        except UnavailableError:
            # An image may have no package lists or old ones: lists in a folder of our own need no root.
            own = ["apt-get", "-o", f"Dir::State={scratch}/state", "-o", f"Dir::Cache={scratch}/cache"]
            own += ["-o", "Dir::State::status=/var/lib/dpkg/status"]
            (scratch / "state/lists/partial").mkdir(parents=True)
            (scratch / "cache/archives/partial").mkdir(parents=True)
            self._run([*own, "update"], scratch)
            self._fetch(own, scratch)
        return sorted(scratch.glob("*.deb"))

    def _fetch(self, apt: Sequence[str], scratch: Path) -> None:
        names = [self._name]
        if self._has_libraries:
            plan = ["install", "--print-uris", "--yes", "--quiet", "--no-install-recommends"]
            printed = self._run([*apt, "-o", "Debug::NoLocking=1", *plan, self._name], scratch)
            names = sorted({self._name, *_URI.findall(printed)})
        self._run([*apt, "download", *names], scratch)

    def _run(self, command: Sequence[str], folder: Path) -> str:
        """Run a command in a folder, and return its output."""
        try:
            answer = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            why = f"{' '.join(command[:2])} did not end in {_TIMEOUT_SECONDS} s"
            raise self._error(why) from error
        if answer.returncode != 0:
            said = (answer.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise self._error(f"{' '.join(command[:2])} ended with exit code {answer.returncode}: {said}")
        return answer.stdout

    def _error(self, why: str) -> UnavailableError:
        return UnavailableError(_FAILED.format(name=self._name, why=why), fix=self._fix)
