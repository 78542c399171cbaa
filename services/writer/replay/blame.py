"""Assigns the fault of replayed events that fail alone: to the events if their table takes others."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from services.writer.replay.staged_attempts import Staged
from shared.errors import UserError

#: Failures without a success after which a table is at fault: each may have taken a statement timeout.
_MAX: Final = 5


class Suspects:
    """The events of a page that were tried one by one."""

    def __init__(self, database: str) -> None:
        self._prefix = f"{database}."
        self._passed: set[str] = set()
        self._failed: dict[str, list[tuple[Staged, UserError]]] = defaultdict(list)

    def table_of(self, row: Staged) -> str:
        """Return the table (schema.table) for `row`, or its own key for a refused event."""
        if row.event.is_sorted_again:
            return str(row.event.key)
        return row.event.to or row.event.destination.removeprefix(self._prefix)

    def passed(self, row: Staged) -> None:
        """Record that `row` has an outcome of its own."""
        self._passed.add(self.table_of(row))

    def failed(self, row: Staged, error: UserError) -> None:
        """Record that `row` failed alone."""
        self._failed[self.table_of(row)].append((row, error))

    def tables_at_fault(self, *, at_end: bool = False) -> set[str]:
        """Return the tables at which `_MAX` events fail and none passes; `at_end`: two events suffice."""
        min_failures = 2 if at_end else _MAX
        failed = {t for t, rows in self._failed.items() if len(rows) >= min_failures}
        return failed - self._passed

    def rows_at_fault(self) -> Iterator[tuple[Staged, UserError]]:
        """Yield, with their errors, the rows that fail where others pass, and a table's only failure."""
        for table, failed in self._failed.items():
            if table in self._passed or len(failed) == 1:
                yield from failed
