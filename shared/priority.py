"""Comes after all other programs of this machine, for whatever has time while a live event has not.

Linux shares a processor among sessions first, and heeds `nice` only within one (autogroups, sched(7)): beside
services of other sessions a program that is merely nice has an equal share.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

NICE: Final = 10
_OF_SESSION: Final = Path("/proc/self/autogroup")


def come_last() -> None:
    """Lower this process's priority, and that of its session if the session is its own."""
    os.nice(NICE)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # another system, or one whose sessions are not told apart
            _OF_SESSION.write_text(str(NICE), "ascii")
