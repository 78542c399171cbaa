"""The set of events of a new job, and its options: the operator's own, or those of a rehearsal."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from psycopg2.extensions import connection

from services.admin.store import jobs_sql, sets_sql
from services.admin.store.jobs_sql import Plan
from services.admin.store.read_sql import Only
from services.admin.store.sets_sql import EventSet
from shared import wire
from shared.errors import BAD_QUERY, NOT_STORED, SET_CHANGED, UserError
from shared.transform_replay import transform_of


class Wish(NamedTuple):
    """The filters of a job's set, its last event, and its options."""

    filters: Mapping[str, Any]
    upto: int | None
    plan: Plan


def set_and_plan(
    conn: connection, own: Wish, rehearsed: int | None, databases: Mapping[str, str]
) -> tuple[EventSet, Plan]:
    """Return the set and the options of a job: its own, or those of a visible rehearsal.

    Raises `UserError` as `rehearsed_set` does.
    """
    if rehearsed is not None:
        return rehearsed_set(conn, rehearsed, databases, own.filters.get("only"))
    return sets_sql.frozen(conn, own.filters, own.upto), own.plan


def with_transforms(
    conn: connection, kind: str, filters: dict[str, Any], to: str | None, deployed: Iterable[str]
) -> dict[str, Any]:
    """Return the filters of a job's set with those transforms whose events it takes.

    It takes the events of `deployed` transforms, unless they would land in the table `to`.
    """
    if kind not in {"rehearse", "replay"} or not sets_sql.has_transformed(conn):
        return filters
    taken = sorted(deployed) if to is None else []
    return {**filters, "transforms": [f"{wire.TRANSFORM_DESTINATION}{name}" for name in taken]}


def refuse_transformed(conn: connection, kind: str, events: EventSet) -> None:
    """Raise `UserError` BAD_QUERY if a job finds no event because transforms have parked all of them."""
    if "transforms" not in events.filters:
        return
    filters = {name: value for name, value in events.filters.items() if name != "transforms"}
    found = {each.destination for each in sets_sql.parked_for(conn, EventSet(filters, events.upto))}
    names = sorted(name for name in map(transform_of, found) if name is not None)
    if not names or len(names) < len(found):
        return
    raise UserError(
        BAD_QUERY,
        f"transform {', '.join(names)} has parked these events: {kind} them without `to`, while the "
        "transform is deployed, because they land in no table",
    )


def rehearsed_set(
    conn: connection, number: int, databases: Mapping[str, str], only: Only = None
) -> tuple[EventSet, Plan]:
    """Return the set and the plan of a rehearsal, for a replay.

    Raises `UserError` if it does not exist, is not done, or the state of an event of its set has changed.
    """
    job = jobs_sql.job(conn, number, only)
    if job is None or job.kind != "rehearse":
        raise UserError(NOT_STORED, "there is no rehearsal of this id")
    if job.state != "done":
        raise UserError(SET_CHANGED, f"rehearsal {number} is not done: it is {job.state}")
    counted = sets_sql.count(conn, "replay", job.events, databases)
    if counted != job.counted or sets_sql.has_changed(conn, job.events, job.created_at):
        raise UserError(SET_CHANGED, f"events of rehearsal {number} have changed: {counted} are open now")
    return job.events, job.plan._replace(with_triggers=False, rehearsed=number)
