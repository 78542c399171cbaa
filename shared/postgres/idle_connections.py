"""Keeps connections open between uses, because each login (SCRAM) costs milliseconds of CPU time.

For services whose requests query the same databases again and again.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from psycopg2.extensions import TRANSACTION_STATUS_IDLE, connection

from shared.postgres.answering import PersistentConnection
from shared.postgres.connect import connect

#: Maximum idle connections of a process; above it the one that was used longest ago is closed.
MAX_IDLE: Final = 32

#: The process (a forked one must not use connections of its parent), the database's name in messages, and
#: the properties of a session that all of its uses share.
_Key = tuple[int, str, str, str, str, bool]


class IdleConnections:
    """At most one idle connection for each database and kind of session; for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: OrderedDict[_Key, PersistentConnection] = OrderedDict()

    @contextmanager
    def lent(
        self,
        database: str,
        dsn: str,
        patience_seconds: float,
        *,
        name: str,
        options: str,
        is_autocommit: bool = False,
    ) -> Iterator[connection]:
        """Lend a connection to the block, which must commit.  Raises like `answering`.

        `database`: its name in messages; `name` and `options`: as of `connect`.  A connection is closed if
        the block raises, or if it leaves a transaction open.
        """
        key = os.getpid(), database, dsn, name, options, is_autocommit

        def open_() -> connection:
            conn = connect(dsn, name=name, options=options)
            conn.autocommit = is_autocommit
            return conn

        with self._lock:
            lent = self._idle.pop(key, None)
        lent = lent or PersistentConnection(database, dsn, open_, patience_seconds)
        is_idle = False
        try:
            with lent.used() as conn:
                yield conn
                is_idle = conn.info.transaction_status == TRANSACTION_STATUS_IDLE
        finally:
            if is_idle:
                self._give_back(key, lent)
            else:
                lent.close()

    def _give_back(self, key: _Key, lent: PersistentConnection) -> None:
        surplus = []
        with self._lock:
            if (other := self._idle.pop(key, None)) is not None:
                surplus.append(other)
            self._idle[key] = lent
            if len(self._idle) > MAX_IDLE:
                surplus.append(self._idle.popitem(last=False)[1])
        for each in surplus:
            each.close()


IDLE: Final = IdleConnections()
