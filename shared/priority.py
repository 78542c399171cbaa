"""Lowers a process's priority, for work that is less urgent than live events.

Linux shares a processor among sessions first, and applies `nice` only within one (autogroups, sched(7)): next
to
services of other sessions a program with only `nice` has an equal share.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

NICE: Final = 10
_OF_SESSION: Final = Path("/proc/self/autogroup")


def come_last() -> None:
    """Lower this process's priority, and its session's if it leads the session."""
    os.nice(NICE)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # another system, or a Linux without autogroups
            _OF_SESSION.write_text(str(NICE), "ascii")
