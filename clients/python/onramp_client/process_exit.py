"""The end of the process: a client that was not closed is flushed and closed all the same."""

import atexit
import os
import sys
from collections.abc import Callable


def register(close: Callable[[], object]) -> None:
    """Call `close` when this process ends; also a child of multiprocessing, which does not run atexit."""
    atexit.register(close)
    if (util := sys.modules.get("multiprocessing.util")) is not None:
        util.Finalize(None, _in_this_process(close), exitpriority=0)


def unregister(close: Callable[[], object]) -> None:
    """Do not call `close` at the end: the client is closed."""
    atexit.unregister(close)


def _in_this_process(close: Callable[[], object]) -> Callable[[], None]:
    registered_in = os.getpid()
    return lambda: None if os.getpid() != registered_in else (close(), None)[1]
