"""The interface of a part of the stack, and its implementation for a part with one process."""

import http.client
from typing import Final, Protocol

from stack.errors import StackError
from stack.ports import LOOPBACK
from stack.processes import Child, Command

_PROBE_SECONDS: Final = 5.0
_HTTP_OK: Final = 200


class Part(Protocol):
    """A part that is started, waited for, watched and stopped."""

    def start(self) -> None:
        """Start the part."""

    def wait_ready(self) -> None:
        """Wait until the part is ready."""

    def check(self) -> None:
        """Raise if the part has ended by itself."""

    def stop(self) -> None:
        """Stop the part and every process that it started."""

    @property
    def children(self) -> list[Child]:
        """The part's processes, once it has been started."""


class PartProcess:
    """One process whose command is known only when the part starts: its port is chosen then."""

    def __init__(self, name: str) -> None:
        """Set the part's display name; nothing runs before `_run`."""
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
        """Stop the part (open connections are closed); data and port stay."""
        if self._child is not None:
            self._child.stop()

    def kill(self) -> None:
        """End the part at once, as a crash would."""
        self._started().kill()

    def _run(self, command: Command) -> None:
        self._child = Child(command)
        self._child.start()

    def _started(self) -> Child:
        if self._child is None:
            raise StackError(f"{self._name} has not been started.")
        return self._child


def answers_ok(port: int, path: str) -> bool:
    """Return whether one request of `path` on this machine's `port` is answered with 200."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_PROBE_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == _HTTP_OK
    except (OSError, http.client.HTTPException):
        return False  # The port is not open yet, or the process is busy: the caller retries.
    finally:
        connection.close()
