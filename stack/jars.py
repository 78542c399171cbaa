"""The jars of the broker, by exact coordinates and checksum.

`jars.lock` names every jar with its SHA-256. Jars that the cache lacks are downloaded by coordinates from the
Maven repository of this machine's settings; a jar with another checksum is never used. No network is needed
once the cache is filled.
"""

import shutil
import tempfile
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from stack.cache import cache_dir, locked, sha256_of
from stack.errors import StackError, UnavailableError

LOCK_FILE = Path(__file__).with_name("jars.lock")
_DOWNLOADS_AT_ONCE = 4
_ATTEMPTS = 3
_TIMEOUT_SECONDS = 60

Progress = Callable[[int, int], None]
"""Called with (jars done, jars to download)."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar: `group:artifact:version` and the SHA-256 of its bytes."""

    coordinates: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The name in the cache; the group is part of it because artifacts' names repeat."""
        group, artifact, version = self.coordinates.split(":")
        return f"{group}.{artifact}-{version}.jar"


def read_lock(name: str, lock_file: Path = LOCK_FILE) -> list[Jar]:
    """Return the jars of one set in class path order.

    Raises:
        StackError: the lock file has no such set.
    """
    sets = tomllib.loads(lock_file.read_text("utf-8"))
    if name not in sets:
        raise StackError(f"{lock_file.name} has no set '{name}', only {', '.join(sets)}.")
    return [Jar(each["coordinates"], each["sha256"]) for each in sets[name]["jars"]]


def ensure_jars(
    name: str,
    *,
    lock_file: Path = LOCK_FILE,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Return the paths of one set's jars, downloading those that the cache lacks.

    Safe when several processes do it at once: one downloads, the others wait for it.

    Raises:
        UnavailableError: a download failed, or its checksum is not the locked one.
    """
    jars = read_lock(name, lock_file)
    folder = folder or cache_dir("jars")
    if missing := _missing(jars, folder):
        with locked(folder / ".lock"):
            # Checked again: another process may have downloaded them meanwhile.
            missing = _missing(jars, folder)
            _download_all(missing, folder, progress)
    return [folder / jar.file_name for jar in jars]


def missing_jars(name: str) -> list[Jar]:
    """Return the jars of one set that the cache lacks."""
    return _missing(read_lock(name), cache_dir("jars"))


def _missing(jars: list[Jar], folder: Path) -> list[Jar]:
    """Return the jars that are missing or have another checksum."""
    return [jar for jar in jars if sha256_of(folder / jar.file_name) != jar.sha256]


def _download_all(jars: list[Jar], folder: Path, progress: Progress | None) -> None:
    if not jars:
        return
    # In the cache's own folder, so that the last step is a rename on one file system.
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as scratch,
        ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool,
    ):
        arriving = pool.map(lambda jar: _download(jar, Path(scratch)), jars)
        for done, (jar, path) in enumerate(zip(jars, arriving, strict=True), start=1):
            path.replace(folder / jar.file_name)
            if progress:
                progress(done, len(jars))


def _download(jar: Jar, scratch: Path) -> Path:
    problem = ""
    for _ in range(_ATTEMPTS):
        try:
            path = fetch(jar.coordinates, scratch)
        except (OSError, RuntimeError) as error:  # requests' errors are OSErrors
            problem = f"{type(error).__name__}: {error}"
            continue
        actual = sha256_of(path)
        if actual == jar.sha256:
            return path
        path.unlink()
        problem = f"its SHA-256 is {actual}, the locked one is {jar.sha256}"
    raise UnavailableError(
        f"The jar {jar.coordinates} could not be downloaded: {problem}.",
        fix="Check that this machine reaches Maven Central (a proxy, a certificate?) and run again.",
    )


def fetch(coordinates: str, scratch: Path) -> Path:
    """Download one artifact into a repository layout below `scratch` and return its path."""
    from jgo.maven import MavenContext  # noqa: PLC0415 - slow to import, needed once per machine

    group, artifact, version = coordinates.split(":")
    context = MavenContext(repo_cache=scratch, timeout=_TIMEOUT_SECONDS)
    download = context.project(group, artifact).at_version(version).artifact()
    try:
        return Path(download.resolve())
    except (OSError, RuntimeError):
        # The next attempt would mistake a half-written file for the artifact.
        shutil.rmtree(scratch.joinpath(*group.split("."), artifact, version), ignore_errors=True)
        raise
