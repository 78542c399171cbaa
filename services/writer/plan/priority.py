"""Gives way to all other programs of this machine, from the JVM's start on.

It goes on in a session of its own, which comes last with whatever it starts (`shared/priority.py`).
"""

import os
import signal
import threading
from typing import NoReturn

from shared.priority import come_last


def give_way() -> None:
    """Go on as a child that comes last; the process itself ends as the child does, and the child with it.

    Call it before there are threads.  Raise `SystemExit` in the process itself, with the child's exit code.
    """
    # Without a trace: there is nothing to be put in order.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    lives, held = os.pipe()
    child = os.fork()
    if child:
        os.close(lives)
        _end_as(child)
    os.close(held)
    os.setsid()
    come_last()
    threading.Thread(target=_end_with, args=(lives,), daemon=True).start()


def _end_as(child: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        os.kill(os.getpid(), -code)
    raise SystemExit(code)


def _end_with(parent: int) -> None:
    """End when the parent has, however it ended; it says nothing before."""
    os.read(parent, 1)
    os.kill(os.getpid(), signal.SIGTERM)
