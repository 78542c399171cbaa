"""The processes of a part: found by id and start time, never by name."""

import os
import time
from contextlib import suppress

import psutil

_POLL_SECONDS = 0.02


def family_of(root: psutil.Process) -> set[psutil.Process]:
    """Return the process, its descendants, and the members of the session that it leads.

    Both searches are needed: Postgres' servers leave the session, and Spark's Python workers may outlive
    the parent that would name them as children.
    """
    family: set[psutil.Process] = set()
    try:
        if root.is_running():
            family = {root, *root.children(recursive=True)}
        elif psutil.pid_exists(root.pid):
            return family  # The id has been reused by another process, and so may a session of that id.
    except psutil.NoSuchProcess:
        pass  # The process has ended and may have left others in its session.
    return family | _session_of(root.pid)


def _session_of(leader: int) -> set[psutil.Process]:
    members: set[psutil.Process] = set()
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == leader:
                members.add(psutil.Process(pid))
        except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            continue
    return members


def kill_all(family: set[psutil.Process]) -> None:
    """Kill these processes.

    psutil compares the time a process was started, so no other process with a reused id is killed.
    """
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def wait_all(family: set[psutil.Process], seconds: float = 10) -> bool:
    """Wait until these processes have ended, for at most so many seconds; return whether they have."""
    deadline = time.monotonic() + seconds
    while any(is_alive(process) for process in family):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process still runs.

    A zombie counts as ended: the new parent of orphans may collect it late, and there is nothing left to
    wait for.
    """
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
