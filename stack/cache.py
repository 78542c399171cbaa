"""The cache of downloads, shared by runs and projects: one folder per user."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_dir(*parts: str) -> Path:
    """Return (and create) a folder of the cache.

    `ONRAMP_CACHE` decides; else `$XDG_CACHE_HOME/onramp`, else `~/.cache/onramp`.
    """
    if chosen := os.environ.get("ONRAMP_CACHE"):
        base = Path(chosen).expanduser()
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onramp"
    folder = base.joinpath(*parts).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file exclusively: one of several processes works and the others wait.

    The kernel releases the lock when its holder dies, so a stale lock cannot exist.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sha256_of(path: Path) -> str | None:
    """Return the checksum of a file, or None if it does not exist."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
