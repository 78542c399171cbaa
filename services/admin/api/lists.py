"""Pages of the control database's lists: how each is read, continued and shown."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from services.admin.api import cursors, views
from services.admin.api.operators import Caller
from services.admin.api.queries import ListQuery
from services.admin.store import read_sql
from services.admin.store.control_sql import cursor_key, transaction


class Listed(NamedTuple):
    """A list: how a page is read, where an entry is in it, and how it is shown."""

    name: str
    read: Callable[..., list[Any]]
    position: Callable[[Any], Sequence[Any]]
    view: Callable[[Any], dict[str, Any]]


GROUPS: Final = Listed("groups", read_sql.groups, lambda g: (g.last_seen, g.id), views.group)
PARTS: Final = Listed("parts", read_sql.parts, lambda p: (p.id,), views.part)
EVENTS: Final = Listed("events", read_sql.events, lambda e: (e.id,), views.event)
ACTS: Final = Listed("acts", read_sql.acts, lambda a: (a.id,), views.act)

#: Reads further members of a page in its transaction, from the connection, the filters and the entries.
More = Callable[[Any, dict[str, Any], list[Any]], dict[str, Any]]


def page(
    dsn: str, listed: Listed, query: ListQuery, asking: Caller, more: More | None = None
) -> dict[str, Any]:
    """Return one page of a list, and the cursor of the next one if there is one.

    The caller's rights are one of the filters, so a cursor is invalid for callers with other rights.
    """
    filters, limit = {**query.filters(), "only": asking.only}, query.limit
    with transaction(dsn) as conn:
        key = cursor_key(conn)
        after = None if query.cursor is None else cursors.decode(key, listed.name, filters, query.cursor)
        found = listed.read(conn, filters, after, limit + 1)
        further = more(conn, filters, found[:limit]) if more else {}
    answer: dict[str, Any] = {listed.name: [listed.view(each) for each in found[:limit]], "next": None}
    if len(found) > limit:
        answer["next"] = cursors.encode(key, listed.name, filters, listed.position(found[limit - 1]))
    return answer | further
