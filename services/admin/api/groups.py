"""The routes of groups: pages with the facets of each, one group, and decisions about one or many."""

from hashlib import sha256
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse

from services.admin.api import views
from services.admin.api.lists import GROUPS, page
from services.admin.api.operators import Caller
from services.admin.api.problems import RefusalError, not_stored
from services.admin.api.queries import GroupChange, GroupQuery, GroupsChange, Id, StateIfGiven
from services.admin.api.rights import Asking
from services.admin.api.stale import require_current
from services.admin.segments.folder import Segments
from services.admin.store import group_marks_sql, read_sql
from services.admin.store.bytes_sql import shown
from services.admin.store.control_sql import transaction
from shared.errors import GROUP_CHANGED

_SAMPLES: Final = 10


class Groups:
    """Reads groups and decides about them; for routes and pages."""

    def __init__(self, dsn: str, segments: Segments | None, personal: views.Personal) -> None:
        self._dsn = dsn
        self._segments = segments
        self._personal = personal

    def page(self, query: GroupQuery, asking: Caller) -> dict[str, Any]:
        """Return a page of groups, the number of groups in each state, and the tag of each group.

        All of it is read in one transaction, the facets of the page in one query.
        """
        groups: list[read_sql.Group] = []

        def more(conn: Any, filters: dict[str, Any], found: list[read_sql.Group]) -> dict[str, Any]:
            groups.extend(found)
            facets = read_sql.facets(conn, [each.id for each in found]) if query.facets else {}
            states = read_sql.event_states(conn, found)
            details = [{"by_state": states[each.id], "etag": tag_of(each)} for each in found]
            for each, detail in zip(found, details, strict=True):
                if query.facets:
                    detail["facets"] = views.facets(facets[each.id], each.cause, self._personal)
            return {"states": read_sql.group_states(conn, filters), "details": details}

        answer = page(self._dsn, GROUPS, query, asking, more)
        details = answer.pop("details")
        of = zip(answer["groups"], details, strict=True)
        return answer | {"groups": [group | detail for group, detail in of]}

    def one(self, number: int, asking: Caller) -> tuple[dict[str, Any], str]:
        """Return one group with facets and shapes of its events, and its tag."""
        with transaction(self._dsn) as conn:
            found = read_sql.group(conn, number, asking.only)
            if found is None:
                raise not_stored("group")
            last = read_sql.last_of_group(conn, number, _SAMPLES)
            facets = views.facets(read_sql.facets(conn, [number])[number], found.cause, self._personal)
            states = read_sql.event_states(conn, [found])[number]
        hidden = self._personal(found.cause.event_name)
        samples = views.samples(last, shown(self._dsn, self._segments, last), hidden)
        document = views.group(found) | {"by_state": states, "facets": facets, "samples": samples}
        return document, tag_of(found)

    def change(self, number: int, change: GroupChange, state: StateIfGiven, asking: Caller) -> None:
        """Change one group.  Raises `UserError`, and changes nothing, if it is not as it was read."""
        state.require_given()
        actor = asking.acting(change.actor)
        with transaction(self._dsn) as conn:
            found = group_marks_sql.locked_group(conn, number, asking.only)
            if found is None:
                raise not_stored("group")
            last = read_sql.last_act(conn, f"group {number}")
            require_current(state, tag_of(found), GROUP_CHANGED, last)
            _change(conn, found, change, actor)

    def change_many(self, change: GroupsChange, asking: Caller) -> list[dict[str, Any]]:
        """Change all of the named groups, or none; return them as they are then.

        Raises:
            UserError: NOT_STORED, or GROUP_CHANGED with every group that is not as it was read.
        """
        actor = asking.acting(change.actor)
        tags = {each.id: each.etag for each in change.groups}
        with transaction(self._dsn) as conn:
            locked = [group_marks_sql.locked_group(conn, number, asking.only) for number in sorted(tags)]
            found = [each for each in locked if each is not None]
            if len(found) < len(tags):
                raise not_stored("group")
            stale = [each.id for each in found if tags[each.id] not in {"*", tag_of(each)}]
            if stale:
                raise _stale([(number, read_sql.last_act(conn, f"group {number}")) for number in stale])
            for each in found:
                _change(conn, each, change, actor)
            now = [read_sql.group(conn, each.id, asking.only) for each in found]
        return [views.group(each) | {"etag": tag_of(each)} for each in now if each is not None]


def add_groups(app: FastAPI, groups: Groups) -> None:
    """Add the routes."""

    @app.get("/v1/groups")
    def list_groups(query: Annotated[GroupQuery, Query()], asking: Asking) -> dict[str, Any]:
        """Groups of parked events with one cause each, the group with the newest event first.

        `states` counts the groups that match the other filters by their state.
        """
        return groups.page(query, asking)

    @app.patch("/v1/groups")
    def change_groups(change: GroupsChange, asking: Asking) -> dict[str, Any]:
        """Acknowledge, ignore, resolve, open or assign many groups: all of them or none.

        Each is named with its `etag` as it was read; `stale` of a refusal names those that have changed.
        """
        return {"groups": groups.change_many(change, asking)}

    @app.get("/v1/groups/{number}")
    def show_group(number: Id, asking: Asking) -> JSONResponse:
        """One group, with the facets of its events, and ten of them as shapes.

        The ETag covers the decisions about the group, which a change names, and not its counts.
        """
        document, tag = groups.one(number, asking)
        return JSONResponse(document, headers={"etag": f'"{tag}"'})

    @app.patch("/v1/groups/{number}")
    def change_group(number: Id, change: GroupChange, state: StateIfGiven, asking: Asking) -> JSONResponse:
        """Acknowledge, ignore, resolve or open a group, or assign it.

        `If-Match` is the ETag of the group as it was read.
        """
        groups.change(number, change, state, asking)
        return show_group(number, asking)


def tag_of(found: read_sql.Group) -> str:
    """Return the ETag of the decisions about a group."""
    decided = repr((found.state, found.assignee)).encode()
    return f"{found.id}-{sha256(decided).hexdigest()[:8]}"


def _change(conn: Any, found: read_sql.Group, change: GroupChange, actor: str) -> None:
    changed = change.model_dump(exclude_unset=True, include={"state", "assignee"})
    group_marks_sql.change_group(conn, found.id, changed)
    said = ", ".join(f"{name} {value}" for name, value in changed.items())
    read_sql.record_act(conn, actor, f"set {said}", f"group {found.id}", change.reason)


def _stale(changed: list[tuple[int, read_sql.Act | None]]) -> RefusalError:
    stale = [
        {"id": number, "changed_by": act and act.actor, "changed_at": act and act.at.isoformat()}
        for number, act in changed
    ]
    numbers = ", ".join(str(number) for number, _ in changed[:_SAMPLES])
    actors = ", ".join(sorted({act.actor for _, act in changed if act}))
    by = f" by {actors}" if actors else ""
    return RefusalError(GROUP_CHANGED, f"{len(changed)} groups were changed{by}: {numbers}", stale=stale)
