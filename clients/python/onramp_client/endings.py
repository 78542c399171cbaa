"""Ends of a process that say nothing: what was sent just before them is flushed all the same."""

import atexit
import os
import sys
from collections.abc import Callable


def at_end(close: Callable[[], object]) -> None:
    """Call `close` when this process ends, a child of multiprocessing as well, which knows no atexit."""
    atexit.register(close)
    if (util := sys.modules.get("multiprocessing.util")) is not None:
        util.Finalize(None, _in_this_process(close), exitpriority=0)


def forget(close: Callable[[], object]) -> None:
    """It is closed already."""
    atexit.unregister(close)


def _in_this_process(close: Callable[[], object]) -> Callable[[], None]:
    born = os.getpid()
    return lambda: None if os.getpid() != born else (close(), None)[1]
