"""A browser without a window, for tests of the web UI: Debian's Chromium, unpacked into the cache.

`python -m stack.browser` fetches it.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack import debian
from stack.errors import UnavailableError

_PACKAGE: Final = "chromium-headless-shell"
_KNOWN: Final[Mapping[str, str]] = {
    "chromium-headless-shell_156.0.8078.108-1~deb12u1_amd64.deb": (
        "b914e14c9f1322df5a6fb53533e137042e11fe7a1bdfdf589ce381eeb2abbc0c"
    ),
}
_FIX: Final = "On Debian or Ubuntu run `make browser`."
_PROGRAM: Final = Path("usr/lib/chromium/chromium-headless-shell")


@dataclass(frozen=True, slots=True)
class Browser:
    """The program, and the environment in which it finds its libraries."""

    program: Path
    env: Mapping[str, str]


def find_browser() -> Browser:
    """Return the browser of the cache.

    Raises:
        UnavailableError: it was not fetched.
    """
    if folder := debian.unpacked(_PACKAGE):
        return _browser_in(folder)
    raise UnavailableError("This machine has no browser for tests.", fix=_FIX)


def ensure_browser() -> Browser:
    """Return the browser, fetching Debian's package and its libraries where there is none.

    Raises:
        UnavailableError: it cannot be fetched.
    """
    return _browser_in(debian.ensure_package(_PACKAGE, _KNOWN, fix=_FIX, has_libraries=True))


def _browser_in(folder: Path) -> Browser:
    program = folder / _PROGRAM
    if not program.is_file():
        raise UnavailableError(f"There is no {program}.", fix=_FIX)
    libraries = sorted({str(each.parent) for each in folder.glob("usr/lib/**/*.so*")})
    return Browser(program, {"LD_LIBRARY_PATH": ":".join(libraries)})


if __name__ == "__main__":
    sys.exit(debian.fetch(lambda: ensure_browser().program))
