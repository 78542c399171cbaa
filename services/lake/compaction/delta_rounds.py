"""A round over the lake's tables: compact, drop expired dates, checkpoint, vacuum; one table at a time.

A table that fails delays no other table: its error is logged, and the next round tries again.
"""

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from services.lake.compaction.delta_compact import compact
from services.lake.compaction.delta_drop import drop
from services.lake.compaction.delta_maintain import checkpoint_if_due, vacuum
from services.lake.compaction.delta_replace import ContendedError
from services.lake.compaction.delta_rewrite import RowCountError
from services.lake.compaction.metrics import CompactionMetrics
from services.lake.compaction.retention import Confirmation, expired
from services.lake.compaction.settings import CompactionSettings
from shared.lake.delta_files import read_files
from shared.lake.delta_log import open_table, owner_of
from shared.lake.delta_storage import list_tables
from shared.lake.status import MaintainedTable
from shared.lake.storage import Storage, reason_of

log = logging.getLogger(__name__)

#: Errors of the storage, of a damaged table, and of files that are not as the log says.
ERRORS: Final = (OSError, DeltaError, pa.ArrowException, ContendedError, RowCountError)
_HOUR: Final = 3600.0


class Rounds:
    """Stores the times of work that is not due in each round."""

    def __init__(
        self,
        storage: Callable[[], Storage],
        settings: CompactionSettings,
        metrics: CompactionMetrics,
        is_stopped: Callable[[], bool],
    ) -> None:
        """`storage` is read for each round, because its credentials may change."""
        self._storage = storage
        self._settings = settings
        self._metrics = metrics
        self._is_stopped = is_stopped
        self._confirmation = Confirmation(settings.confirm_seconds, time.monotonic)
        self._vacuumed: dict[str, float] = {}
        #: The tables by name; replaced as a whole, because threads of HTTP read it.
        self.status: dict[str, MaintainedTable] = {}

    def run(self, keep_days: Mapping[str, int]) -> None:
        """Work on each table once.  `keep_days` by table; dates of other tables are not dropped."""
        try:
            storage = self._storage()
            tables = list_tables(storage)
        except ERRORS as error:
            log.warning("the lake's storage cannot be listed", extra={"reason": reason_of(error)})
            return
        self.status = {name: table for name, table in self.status.items() if name in tables}
        for name in tables:
            if self._is_stopped():
                return
            try:
                self._table(storage, name, keep_days.get(name))
            except Exception as error:  # noqa: BLE001 - of a library: the other tables are maintained
                self._metrics.failures.labels(name).inc()
                known = self.status.get(name, MaintainedTable())
                self._set(name, msgspec.structs.replace(known, error=reason_of(error)))
                log.warning(
                    "the maintenance of a table failed", extra={"table": name, "reason": reason_of(error)}
                )

    def _table(self, storage: Storage, name: str, keep_days: int | None) -> None:
        table = open_table(storage, name)
        if table is None or owner_of(table) is None:
            return  # a table of another program
        self._metrics.prepare(name)
        for done in compact(table, self._settings.policy, datetime.now(UTC), is_stopped=self._is_stopped):
            self._metrics.rewritten.labels(name).inc(done.files_before)
            self._metrics.superseded.labels(name).inc(done.superseded)
            if done.partitions:
                log.info("rewrote the files of a table", extra={"table": name, **done.as_dict()})
        self._drop(table, name, keep_days)
        if checkpoint_if_due(table, self._settings.checkpoint_commits):
            log.info("wrote a checkpoint", extra={"table": name, "version": table.version()})
        self._vacuum(table, name)
        self._show(table, name)

    def _drop(self, table: DeltaTable, name: str, keep_days: int | None) -> None:
        now = datetime.now(UTC)
        old = [] if keep_days is None else expired(read_files(table), keep_days, now)
        for partition in self._confirmation.confirmed(name, old, keep_days or 0, now):
            rows = drop(table, partition)
            self._metrics.dropped.labels(name).inc(rows)
            log.info(
                "dropped the rows of a date",
                extra={"table": name, "partition": str(partition), "keep_days": keep_days, "rows": rows},
            )

    def _vacuum(self, table: DeltaTable, name: str) -> None:
        now, last = time.monotonic(), self._vacuumed.get(name)
        if last is not None and now - last < self._settings.vacuum_hours * _HOUR:
            return
        deleted = vacuum(table, self._settings.retention_hours)
        self._vacuumed[name] = now
        self._metrics.vacuumed.labels(name).inc(len(deleted))
        if deleted:
            log.info("deleted files without a reference", extra={"table": name, "files": len(deleted)})

    def _show(self, table: DeltaTable, name: str) -> None:
        files = [file for each in read_files(table).values() for file in each]
        small = sum(file.bytes < self._settings.policy.small_bytes for file in files)
        self._metrics.files.labels(name).set(len(files))
        self._metrics.small_files.labels(name).set(small)
        self._metrics.bytes.labels(name).set(sum(file.bytes for file in files))
        self._metrics.last_round.labels(name).set(time.time())
        rewritten = max((file.added_ms / 1000 for file in files if file.is_compacted), default=None)
        if rewritten is not None:
            self._metrics.last_compaction.labels(name).set(rewritten)
        rows = [file.rows for file in files]
        current = MaintainedTable(
            rows=None if None in rows else sum(filter(None, rows)),
            files=len(files),
            small_files=small,
            bytes=sum(file.bytes for file in files),
            last_compaction_at=rewritten,
            last_round_at=time.time(),
        )
        self._set(name, current)

    def _set(self, name: str, table: MaintainedTable) -> None:
        self.status = self.status | {name: table}
