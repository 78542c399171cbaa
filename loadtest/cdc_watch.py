"""The time at which each change of a source became public, and its delay after the commit.

A table's counter in `onramp.table_settings` moves in the transaction that changes the public table, and a
connection of its own reads it every 10 ms: the first reading that counts a change is the moment, noted when
the answer is there.  It errs upwards, by at most the time between two readings.  Commits of a table are
numbered in the order of their answers, which is that of the log but for those that are answered at once.
"""

import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
import psycopg2
from psycopg2.extensions import connection

from loadtest.background import repeatedly
from loadtest.cdc_load import Times
from loadtest.cdc_stack import CdcStack
from loadtest.measure import spread
from stack.errors import StackError

_POLL_SECONDS: Final = 0.01
_CLIENTS: Final = 8
_COUNTERS: Final = "SELECT table_name, changes FROM onramp.table_settings WHERE source = %s"


class Watch:
    """Reads a source's counters while its block runs."""

    def __init__(self, conn: connection, source: str) -> None:
        self._conn = conn
        self._source = source
        self.progress: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.poll_times: list[float] = []

    def poll(self) -> None:
        """Take a reading now."""
        with self._conn.cursor() as cursor:
            cursor.execute(_COUNTERS, (self._source,))
            rows, now = cursor.fetchall(), time.monotonic()
        self.poll_times.append(now)
        for table, changes in rows:
            line = self.progress[table]
            if not line or line[-1][0] != changes:
                line.append((changes, now))

    def counts(self, table: str) -> int:
        """Return the number of a table's public changes."""
        return self.progress[table][-1][0] if self.progress.get(table) else 0

    def moments(self, table: str, before: int, changes: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the time at which each of the changes after the first `before` was read as public."""
        counts, times = (np.array(each) for each in zip(*self.progress[table], strict=True))
        return times[np.searchsorted(counts, before + 1 + np.arange(changes))]


@contextmanager
def watching(on: CdcStack, source: str) -> Iterator[Watch]:
    """Watch a source's counters."""
    with closing(psycopg2.connect(on.warehouse, application_name="onramp-bench")) as conn:
        conn.autocommit = True
        watch = Watch(conn, source)
        watch.poll()
        with repeatedly(_POLL_SECONDS, watch.poll):
            yield watch


def load(
    on: CdcStack, source: str, tables: Sequence[str], *, rate: float, seconds: float, first: int = 1
) -> dict[str, Any]:
    """Commit transactions at a rate; return the delay until each was public, without the first fifth."""
    with watching(on, source) as watch:
        before = {table: watch.counts(table) for table in tables}
        times = _send(on, source, tables, rate=rate, seconds=seconds, first=first)
        on.until(
            lambda: all(watch.counts(t) >= before[t] + len(lines) for t, lines in times.items()),
            "all changes are public",
        )
        if more := {t for t, lines in times.items() if watch.counts(t) != before[t] + len(lines)}:
            raise StackError(f"More changes came than were committed, of {', '.join(sorted(more))}.")
    return {
        "transactions": sum(map(len, times.values())),
        "tables": len(tables),
        "rate": rate,
        **_latencies(watch, before, times, seconds / 5),
        "looks_apart_ms": spread(np.array([b - a for a, b in pairwise(watch.poll_times)])),
    }


def _send(
    on: CdcStack, source: str, tables: Sequence[str], *, rate: float, seconds: float, first: int
) -> Times:
    order, out = on.folder / "order.json", on.folder / "times.json"
    order.touch(mode=0o600)
    said = {
        "dsn": on.source(source),
        "tables": list(tables),
        "rate": rate,
        "seconds": seconds,
        "clients": _CLIENTS,
        "first": first,
        "out": str(out),
    }
    order.write_text(json.dumps(said), "utf-8")
    subprocess.run([sys.executable, "-m", "loadtest.cdc_load", str(order)], check=True)
    times: Times = json.loads(out.read_text("utf-8"))
    return times


def _latencies(watch: Watch, before: Mapping[str, int], times: Times, warm_s: float) -> dict[str, Any]:
    warm_from = min(due for lines in times.values() for due, _ in lines) + warm_s
    commit_to_row, due_to_row, late = [], [], []
    for table, lines in times.items():
        due, committed = (np.array(each) for each in zip(*sorted(lines, key=itemgetter(1)), strict=True))
        public = watch.moments(table, before[table], len(lines))
        is_warm = due >= warm_from
        commit_to_row.append((public - committed)[is_warm])
        due_to_row.append((public - due)[is_warm])
        late.append((committed - due)[is_warm])
    return {
        "commit_to_row_ms": spread(np.concatenate(commit_to_row)),
        "due_to_row_ms": spread(np.concatenate(due_to_row)),
        "due_to_commit_ms": spread(np.concatenate(late)),
    }
