"""Flushes and closes clients that were not closed at the end of the process."""

import atexit
import os
import sys
from collections.abc import Callable


def register(close: Callable[[], object]) -> None:
    """Call `close` when this process ends, including a multiprocessing child, which does not run atexit."""
    atexit.register(close)
    if (util := sys.modules.get("multiprocessing.util")) is not None:
        util.Finalize(None, _in_this_process(close), exitpriority=0)


def unregister(close: Callable[[], object]) -> None:
    """Unregister `close` of a closed client."""
    atexit.unregister(close)


def _in_this_process(close: Callable[[], object]) -> Callable[[], None]:
    registered_in = os.getpid()
    return lambda: None if os.getpid() != registered_in else (close(), None)[1]
