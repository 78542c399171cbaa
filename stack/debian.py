"""Programs from Debian's packages, unpacked into the cache: nothing is installed and no root is needed.

apt downloads the packages from the configured sources and verifies them. For tested versions, the checksum is
compared once more.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from stack.cache import cache_dir, locked, sha256_of
from stack.errors import UnavailableError

_TIMEOUT_SECONDS: Final = 300
_FAILED: Final = "The Debian package {name} could not be fetched: {why}."


def unpacked(name: str) -> Path | None:
    """Return the folder of a package that was unpacked before, or None."""
    folder = cache_dir("debian") / name
    return folder if folder.is_dir() else None


def ensure_package(name: str, known: Mapping[str, str], *, fix: str) -> Path:
    """Return the folder in which a package is unpacked, fetching it if it is not.

    Safe when several processes do it at once: one fetches, the others wait for it.

    Args:
        name: the package.
        known: the SHA-256 of its files by their names; a file with another name is apt's word alone.
        fix: what a person can do instead.

    Raises:
        UnavailableError: there is no apt, it has no such package, or the checksum is not the known one.
    """
    folder = cache_dir("debian")
    with locked(folder / ".lock"):
        return unpacked(name) or _fetch(name, known, folder, fix)


def _fetch(name: str, known: Mapping[str, str], folder: Path, fix: str) -> Path:
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise UnavailableError(_FAILED.format(name=name, why="this machine has no apt"), fix=fix)
    # In the cache's own folder, so that the last step is a rename on one file system.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as scratch:
        package = _download(name, Path(scratch), fix)
        if (actual := sha256_of(package)) != known.get(package.name, actual):
            why = f"the SHA-256 of {package.name} is {actual}, the known one is {known[package.name]}"
            raise UnavailableError(_FAILED.format(name=name, why=why), fix=fix)
        _run(name, ["dpkg", "-x", str(package), f"{scratch}/{name}"], Path(scratch), fix)
        return Path(scratch, name).rename(folder / name)


def _download(name: str, scratch: Path, fix: str) -> Path:
    try:
        _run(name, ["apt-get", "download", name], scratch, fix)
    except UnavailableError:
        # An image may have no package lists or old ones: lists in a folder of our own need no root.
        own = ["apt-get", "-o", f"Dir::State={scratch}/state", "-o", f"Dir::Cache={scratch}/cache"]
        own += ["-o", "Dir::State::status=/var/lib/dpkg/status"]
        (scratch / "state/lists/partial").mkdir(parents=True)
        (scratch / "cache/archives/partial").mkdir(parents=True)
        _run(name, [*own, "update"], scratch, fix)
        _run(name, [*own, "download", name], scratch, fix)
    (package,) = scratch.glob(f"{name}_*.deb")
    return package


def _run(name: str, command: list[str], folder: Path, fix: str) -> None:
    try:
        answer = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        why = f"{' '.join(command[:2])} did not end in {_TIMEOUT_SECONDS} s"
        raise UnavailableError(_FAILED.format(name=name, why=why), fix=fix) from error
    if answer.returncode != 0:
        said = (answer.stderr.strip().splitlines() or ["it said nothing"])[-1]
        why = f"{' '.join(command[:2])} ended with exit code {answer.returncode}: {said}"
        raise UnavailableError(_FAILED.format(name=name, why=why), fix=fix)
