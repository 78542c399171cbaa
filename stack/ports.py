"""Finding TCP ports on loopback, so that several stacks can run on one machine."""

import fcntl
import socket
from contextlib import ExitStack
from random import SystemRandom

from stack.cache import cache_dir

LOOPBACK = "127.0.0.1"

#: Below the ports of outgoing connections: those begin at 32768 on Linux, at 49152 elsewhere.
_SERVERS = range(20_000, 32_768)
#: Not seeded: test runs on one machine must choose different ports.
_CHANCE = SystemRandom()


def is_free(port: int) -> bool:
    """Return whether a server could listen on this port of loopback now.

    The wildcard address is tried too: a foreign server that listens on all interfaces would otherwise
    share the port number with ours.
    """
    for host in (LOOPBACK, "0.0.0.0"):  # noqa: S104 - bound for an instant, never listened on
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As servers do: a port in TIME_WAIT after a restart is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True


def free_ports(count: int) -> list[int]:
    """Return that many different free ports.

    They are not from the system's range of outgoing connections: another program's connection could take
    such a port before our server binds it.
    """
    chosen: list[int] = []
    for port in _CHANCE.sample(_SERVERS, len(_SERVERS)):
        if len(chosen) == count:
            break
        if is_free(port):
            chosen.append(port)
    return chosen


def free_port() -> int:
    """Return one free port."""
    return free_ports(1)[0]


class UsualPorts:
    """The usual ports, each reserved for one stack: stacks that start at once get different ports.

    A port is bound seconds after it was chosen, and would appear free to all of them until then.
    """

    def __init__(self) -> None:
        self._reservations = ExitStack()

    def pick(self, usual: int) -> int:
        """Return the usual port if it is free and not reserved by another stack, else another one."""
        return usual if is_free(usual) and self._hold(usual) else free_port()

    def close(self) -> None:
        """Release the ports."""
        self._reservations.close()

    def _hold(self, port: int) -> bool:
        file = (cache_dir("ports") / str(port)).open("a", encoding="utf-8")
        try:
            # The kernel releases the lock when its holder dies.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._reservations.enter_context(file)
        return True
