"""The guard: ends child processes when their starter could not.

A starter (`onramp up`, a test run) may be ended by SIGKILL or a closed terminal, and Kafka, Postgres and
Spark would never stop. The guard is a small process that only waits: its standard input is a pipe that the
starter holds open. Lines on the pipe name the processes to watch. When the pipe closes, the guard signals
each watched process to stop, last started first, and kills it after a grace period.

Lines: `+ PID SIGNAL GRACE_SECONDS` watches, `- PID` no longer watches.
"""

import signal
import sys
from contextlib import suppress

import psutil

from stack.process_groups import family_of, kill_all, wait_all

Watched = dict[int, tuple[psutil.Process, int, float]]


def main() -> None:
    """Watch until the pipe closes, then end the remaining processes."""
    # Ctrl-C reaches the whole terminal; the starter decides its effect.
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
                return  # The process ended first; its starter reports that.
        case ["-", pid]:
            watched.pop(int(pid), None)
        case _:
            raise ValueError(f"Unknown arguments of the guard: {words!r}.")


def _end(process: psutil.Process, ask_with: int, grace: float) -> None:
    family = family_of(process)
    with suppress(psutil.NoSuchProcess):  # The process has ended: its descendants are ended now.
        process.send_signal(ask_with)
        wait_all({process}, grace)
    family |= family_of(process)
    kill_all(family)
    wait_all(family)


if __name__ == "__main__":
    main()
