"""The snapshots of lookups' tables, refreshed in the background and sent to the workers when they change.

Each database has threads of its own: in those of the event loop, a few slow tables would stop the driver of
all transforms.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from services.transform.driver.lane_jobs import Jobs
from services.transform.function.lookups import LookupTable
from services.transform.lane.spark_task import Shared
from services.transform.observe.metrics import TransformMetrics
from shared.backoff import Backoff
from shared.errors import InfrastructureError
from shared.registry.transforms import Lookup

log = logging.getLogger(__name__)

#: A snapshot older than this many refresh intervals is not used any more.
_MAX_AGE: Final = 10
#: Tables of one database that are read at a time.
_READS: Final = 4

#: Reads a snapshot; blocks, and raises an error of the database.
Read = Callable[[str, Lookup], LookupTable]


@dataclass(slots=True)
class _Snapshot:
    lookup: Lookup
    shared: Shared | None = None
    digest: str = ""
    read_at: float = -1e9
    due_at: float = 0.0
    #: Why the last read has failed.
    failure: str = ""


class LookupSnapshots:
    """The newest snapshot of each lookup."""

    def __init__(self, jobs: Jobs, read: Read, metrics: TransformMetrics) -> None:
        self._jobs = jobs
        self._read = read
        self._metrics = metrics
        self._snapshots: dict[str, _Snapshot] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._threads: dict[str, ThreadPoolExecutor] = {}

    def follow(self, lookups: Mapping[str, Lookup]) -> None:
        """Follow exactly `lookups`; start the reads that are due."""
        now = time.monotonic()
        for name in self._snapshots.keys() - lookups.keys():
            del self._snapshots[name]
        for name, lookup in lookups.items():
            known = self._snapshots.get(name)
            if known is None or known.lookup != lookup:
                known = self._snapshots[name] = _Snapshot(lookup)
            self._metrics.lookup_age.labels(name).set(self._age(known) / lookup.refresh_seconds)
            if now >= known.due_at and name not in self._reading:
                self._reading[name] = asyncio.create_task(self._refresh(name, known))

    async def _refresh(self, name: str, snapshot: _Snapshot) -> None:
        """Read one snapshot; a failure is logged and retried, with the last snapshot in use."""
        backoff = self._backoffs.setdefault(name, Backoff())
        loop, threads = asyncio.get_running_loop(), self._threads_of(snapshot.lookup.database)
        try:
            began = time.monotonic()
            table = await loop.run_in_executor(threads, self._read, name, snapshot.lookup)
            if table.digest != snapshot.digest:
                snapshot.shared = await loop.run_in_executor(threads, self._jobs.share, table)
                snapshot.digest = table.digest
            snapshot.read_at, snapshot.due_at = began, began + snapshot.lookup.refresh_seconds
            snapshot.failure = ""
            backoff.succeed()
        except Exception as e:  # noqa: BLE001 - any error of the database: the last snapshot stays in use
            snapshot.due_at = time.monotonic() + backoff.fail()
            reason = e.detail if isinstance(e, InfrastructureError) else type(e).__name__
            snapshot.failure = reason.removeprefix(f"lookup {name}: ")
            log.warning("could not read a lookup; retrying", extra={"lookup": name, "reason": reason})
        finally:
            del self._reading[name]

    def _threads_of(self, database: str) -> ThreadPoolExecutor:
        if database not in self._threads:
            self._threads[database] = ThreadPoolExecutor(_READS, f"lookups-{database}")
        return self._threads[database]

    def tables(self, names: tuple[str, ...]) -> dict[str, Shared] | str:
        """Return the tables for a run, or the reason why it must wait."""
        tables = {}
        for name in names:
            snapshot = self._snapshots.get(name)
            if snapshot is None or snapshot.shared is None:
                return _with(f"lookup {name} has not been read yet", snapshot.failure if snapshot else "")
            if self._age(snapshot) > _MAX_AGE * snapshot.lookup.refresh_seconds:
                age = f"the snapshot of lookup {name} is {self._age(snapshot):.0f} s old"
                return _with(age, snapshot.failure)
            tables[name] = snapshot.shared
        return tables

    def _age(self, snapshot: _Snapshot) -> float:
        return time.monotonic() - snapshot.read_at if snapshot.shared is not None else 0.0

    async def stop(self) -> None:
        """End the reads; a thread that waits for its database ends with the statement's timeout."""
        reads = list(self._reading.values())
        for read in reads:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)


def _with(text: str, reason: str) -> str:
    return f"{text}: {reason}" if reason else text
