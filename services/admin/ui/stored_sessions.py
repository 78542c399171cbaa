"""The part of sessions that all replicas of the service share: the secret that signs cookies, and logouts."""

import threading
import time
from collections.abc import Callable
from typing import Final

from services.admin.store import ended_sessions_sql
from services.admin.store.control_sql import cursor_key, transaction
from shared.errors import InfrastructureError

#: Seconds after which a logout at another replica is known here.
_POLL_SECONDS: Final = 2.0


class StoredSessions:
    """The stored part of sessions, in memory: an outage of the control database ends no session."""

    def __init__(self, dsn: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._dsn = dsn
        self._clock = clock
        self._secret: bytes | None = None
        self._ended: frozenset[str] = frozenset()
        self._next_poll = 0.0
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Read what is stored, at most every two seconds.

        Raises `InfrastructureError` while nothing was read yet.
        """
        with self._lock:
            if self._secret is not None and self._clock() < self._next_poll:
                return
            self._next_poll = self._clock() + _POLL_SECONDS
        try:
            with transaction(self._dsn) as conn:
                self._ended = ended_sessions_sql.read(conn)
                self._secret = cursor_key(conn)
        except InfrastructureError:
            if self._secret is None:
                raise

    def secret(self) -> bytes:
        """Return the secret that all replicas share.  Raises `InfrastructureError`."""
        if self._secret is None:
            self.refresh()
        assert self._secret is not None  # noqa: S101 - it was read, or the reading has raised
        return self._secret

    def end(self, session: str, seconds: float) -> None:
        """Store the end of a session.  Raises `InfrastructureError`."""
        with transaction(self._dsn) as conn:
            ended_sessions_sql.add(conn, session, seconds)
        self._ended |= {session}

    def has_ended(self, session: str) -> bool:
        """Return whether a session was logged out."""
        return session in self._ended
