"""Finding a Java that both Kafka and Spark run on.

Spark 4 supports Java 17 and 21 and nothing else; the broker runs on both as well.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from stack.errors import UnavailableError

SUPPORTED = (17, 21)

USUAL = (
    ("/usr/lib/jvm", "*/bin/java"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home/bin/java"),
    ("/opt/homebrew/opt", "openjdk*/bin/java"),
    ("/usr/local/opt", "openjdk*/bin/java"),
)
"""Folders and patterns below them where package managers put Java."""

_FIX = (
    "Install Java 17 or 21 and run again: 'apt-get install openjdk-17-jre-headless' on Debian or "
    "Ubuntu, 'dnf install java-21-openjdk-headless' on Fedora, 'brew install openjdk@21' on macOS; "
    "or set JAVA_HOME to one that is there."
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java found on this machine: the executable and its major version."""

    executable: Path
    major: int

    @property
    def home(self) -> Path:
        """The folder to hand to other programs as JAVA_HOME."""
        return self.executable.resolve().parent.parent


def find_java() -> Java:
    """Return the first supported Java of JAVA_HOME, PATH and the usual folders.

    Raises:
        UnavailableError: there is none; the message says how to install one.
    """
    rejected: list[str] = []
    for candidate in _candidates():
        major = _major_version(candidate)
        if major in SUPPORTED:
            return Java(executable=candidate, major=major)
        rejected.append(f"{candidate} is {f'Java {major}' if major else 'no working Java'}")
    if rejected:
        raise UnavailableError(f"No Java 17 or 21 was found: {'; '.join(rejected)}.", fix=_FIX)
    raise UnavailableError("No Java was found on this machine.", fix=_FIX)


def _candidates() -> list[Path]:
    candidates: list[Path] = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    for folder, pattern in USUAL:
        candidates.extend(sorted(Path(folder).glob(pattern)))
    return list(dict.fromkeys(candidates))


def _major_version(executable: Path) -> int | None:
    """Return the version that the executable reports: folder names and release files can be wrong."""
    try:
        answer = subprocess.run(
            [str(executable), "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(match.group(1)) if match else None
