"""The rows of tracers in the lake: one table, which is read by the ids of the last tracers."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Final

from services.tracer.results import Destination
from shared.errors import LAKE_UNAVAILABLE, InfrastructureError
from shared.lake.storage import Storage, reason_of
from shared.patience import Patience, SilentError

#: Seconds of one reading: events in Postgres are evaluated after it.
_SECONDS: Final = 5.0
#: Rows are received after they were sent, but by another clock.
_CLOCKS: Final = timedelta(hours=1)


class LakeRows:
    """The table of tracers in the lake."""

    def __init__(self, storage: Storage, table: str, seconds: float = _SECONDS) -> None:
        """`seconds`: the limit of one reading."""
        self.destination = Destination.in_lake(table)
        self._storage = storage
        self._table = table
        self._seconds = seconds
        self._patience = Patience(at_once=1)

    def count(self, ids: Collection[str], since: float) -> dict[tuple[Destination, str], int]:
        """Return the number of rows of each id, sent since `since` (Unix seconds); none without the table.

        Raises `InfrastructureError`, for a storage that hangs after the limit.
        """
        try:
            rows = self._patience.call(lambda: self._count(ids, since), self._seconds)
        except SilentError:
            raise self._failure(f"no answer in {self._seconds:g} s") from None
        except Exception as e:  # of delta-rs, Arrow or the storage
            raise self._failure(reason_of(e)) from e
        return {(self.destination, each): count for each, count in rows.items()}

    def _count(self, ids: Collection[str], since: float) -> dict[str, int]:
        # Importing deltalake takes a second, and most tracers have no lake.
        from services.tracer import delta_rows  # noqa: PLC0415

        return delta_rows.count(self._storage, self._table, ids, datetime.fromtimestamp(since, UTC) - _CLOCKS)

    def _failure(self, detail: str) -> InfrastructureError:
        return InfrastructureError(LAKE_UNAVAILABLE, f"table {self._table} of the lake: {detail[:300]}")
