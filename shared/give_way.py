"""Gives a trial on past events a lower priority than all other programs of this machine, from its start on.

The program continues in a session of its own, which has the lowest priority, with all that it starts
(`shared/priority.py`).
"""

import os
import signal
import threading
from typing import NoReturn

from shared.priority import come_last


def give_way() -> None:
    """Continue in a child process with the lowest priority; parent and child end together.

    Call it before threads exist.  Raise `SystemExit` in the parent, with the child's exit code.
    """
    # Without a traceback: there is nothing to clean up.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child:
        os.close(read_end)
        _end_as(child)
    os.close(write_end)
    os.setsid()
    come_last()
    threading.Thread(target=_end_with, args=(read_end,), daemon=True).start()


def _end_as(child: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        os.kill(os.getpid(), -code)
    raise SystemExit(code)


def _end_with(parent: int) -> None:
    """End this process when the parent has ended for any reason; the parent never writes to the pipe."""
    os.read(parent, 1)
    os.kill(os.getpid(), signal.SIGTERM)
