"""What each part of the stack can be asked and told, and how a part that is one process does it."""

import http.client
from typing import Final, Protocol

from stack.errors import StackError
from stack.ports import LOOPBACK
from stack.processes import Child, Command

_PROBE_SECONDS: Final = 5.0
_HTTP_OK: Final = 200


class Part(Protocol):
    """Anything that is started, waited for, watched and stopped."""

    def start(self) -> None:
        """Start it."""

    def wait_ready(self) -> None:
        """Wait until it really works."""

    def check(self) -> None:
        """Raise if it has ended by itself."""

    def stop(self) -> None:
        """Stop it and everything it started."""

    @property
    def children(self) -> list[Child]:
        """Its processes, once it has been started."""


class PartProcess:
    """One process whose command is known only when the part starts: its port is chosen then."""

    def __init__(self, name: str) -> None:
        """Name the part as people know it; nothing runs before `_run`."""
        self._name = name
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        """The process id of the part itself.

        Raises:
            StackError: it has not been started.
        """
        return self._started().pid

    @property
    def children(self) -> list[Child]:
        """The part's process, if it has been started."""
        return [] if self._child is None else [self._child]

    def check(self) -> None:
        """Raise if it has ended by itself; a part that never ran has not."""
        if self._child is not None:
            self._child.check()

    def stop(self) -> None:
        """Stop it (open connections are closed); data and port stay."""
        if self._child is not None:
            self._child.stop()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._started().kill()

    def _run(self, command: Command) -> None:
        self._child = Child(command)
        self._child.start()

    def _started(self) -> Child:
        if self._child is None:
            raise StackError(f"{self._name} has not been started.")
        return self._child


def answers_ok(port: int, path: str) -> bool:
    """Ask once whether `path` on this machine's `port` answers 200."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_PROBE_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == _HTTP_OK
    except (OSError, http.client.HTTPException):
        return False  # Not listening yet, or busy: the caller asks again.
    finally:
        connection.close()
