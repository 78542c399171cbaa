"""Pages of lists in memory, with signed cursors that belong to one list and reader."""

from collections.abc import Callable, Sequence
from typing import Any

from services.admin.api import cursors
from services.admin.api.operators import Caller
from services.admin.api.queries import ListQuery
from services.admin.store.control_sql import cursor_key, transaction

#: Returns the entries after a position; None is before the first.
Behind = Callable[[Any], Sequence[Any]]


def page(
    dsn: str, name: str, query: ListQuery, asking: Caller, behind: Behind
) -> tuple[list[Any], str | None]:
    """Return the positions of a page, and the cursor of the next page or None."""
    filters = {**query.filters(), "only": asking.only}
    with transaction(dsn) as conn:
        key = cursor_key(conn)
    after = None if query.cursor is None else cursors.decode(key, name, filters, query.cursor)[0]
    found = list(behind(after)[: query.limit + 1])
    shown = found[: query.limit]
    further = cursors.encode(key, name, filters, [shown[-1]]) if len(found) > query.limit else None
    return shown, further
