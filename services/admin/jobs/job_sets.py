"""The set of events of a new job, and its options: the operator's own, or those of a rehearsal."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from psycopg2.extensions import connection

from services.admin.store import jobs_sql, sets_sql
from services.admin.store.jobs_sql import Plan
from services.admin.store.read_sql import Only
from services.admin.store.sets_sql import EventSet
from shared.errors import NOT_STORED, SET_CHANGED, UserError


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
