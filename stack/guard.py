"""The guard: ends our children when we could not do it ourselves.

Whoever starts children (`onramp up`, a test run) may be ended by SIGKILL or a closed
terminal, and Kafka, Postgres and Spark would go on forever. The guard is a small process
that only waits: its standard input is a pipe that the starter holds open. As long as the
starter lives, lines tell the guard whom to watch; when the pipe closes, whoever is still
watched is asked to stop, last started first, and ended after a grace.

Lines: `+ PID SIGNAL GRACE_SECONDS` watches, `- PID` no longer watches.
"""

import signal
import sys
from contextlib import suppress

import psutil

from stack.process_groups import family_of, kill_all, wait_all

Watched = dict[int, tuple[psutil.Process, int, float]]


def main() -> None:
    """Watch until the pipe closes, then end whoever is left."""
    # A Ctrl-C reaches the whole terminal; the starter decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    watched: Watched = {}
    for line in sys.stdin:
        _note(watched, line.split())
    for process, ask_with, grace in reversed(watched.values()):
        _end(process, ask_with, grace)


def _note(watched: Watched, words: list[str]) -> None:
    match words:
        case ["+", pid, ask_with, grace]:
            try:
                watched[int(pid)] = (psutil.Process(int(pid)), int(ask_with), float(grace))
            except psutil.NoSuchProcess:
                return  # It ended before we looked; its starter will notice and say so.
        case ["-", pid]:
            watched.pop(int(pid), None)
        case _:
            raise ValueError(f"The guard was told {words!r}, which it does not understand.")


def _end(process: psutil.Process, ask_with: int, grace: float) -> None:
    family = family_of(process)
    with suppress(psutil.NoSuchProcess):  # Gone already: whom it started goes now.
        process.send_signal(ask_with)
        wait_all({process}, grace)
    family |= family_of(process)
    kill_all(family)
    wait_all(family)


if __name__ == "__main__":
    main()
