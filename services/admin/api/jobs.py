"""The routes of jobs: a set is counted first, and a job changes exactly the counted events."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Annotated, Any, Final

import orjson
from fastapi import Depends, FastAPI, Header, Query, Request

from services.admin.api.lists import Listed, page
from services.admin.api.operators import Caller
from services.admin.api.problems import not_stored
from services.admin.api.queries import Actor, Id, JobQuery, JobRequest
from services.admin.api.rights import Asking, require_own_tables
from services.admin.jobs import job_sets
from services.admin.store import jobs_sql, results_sql, sets_sql
from services.admin.store.control_sql import transaction
from services.admin.store.jobs_sql import Job, Plan
from services.admin.store.read_sql import record_act
from services.ops.fixes import exact
from services.ops.fixes.steps import Fix
from shared.errors import BAD_QUERY, NO_FILTER, UserError
from shared.registry import Snapshot

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[\x21-\x7e]{1,128}$",
        description="1 to 128 visible characters, the same for each try of one request.",
    ),
]
_RESULT: Final = ("outcome", "reason", "events")


def add_jobs(app: FastAPI, dsn: str, databases: Mapping[str, str], registry: Callable[[], Snapshot]) -> None:
    """Add the routes."""

    @app.post("/v1/jobs", status_code=202)
    def start_job(
        asked: JobRequest,
        asking: Asking,
        fix: Annotated[str | None, Depends(_fix_of)],
        digest: Annotated[bytes, Depends(_sha256_of)],
        key: IdempotencyKey = None,
    ) -> dict[str, Any]:
        """Discard, restore, rehearse or replay a set of events in the background; with `dry_run` count it.

        Give the `upto` of the count to change these very events, and its `events` as `expect` to be refused
        when they are no longer as many.  A replay of a rehearsal (`rehearsed`) is refused when the state of
        any event of its set has changed since.  A request that is repeated with its `Idempotency-Key` within
        24 hours starts no other job.
        """
        actor, only = asking.acting(asked.actor), asking.only
        require_same_database(asked.to, databases)
        filters = _set_of(asked) | ({} if only is None else {"only": only})
        with transaction(dsn) as conn:
            given = None if key is None or asked.dry_run else (key, digest)
            if given and (job := jobs_sql.started_by(conn, actor, *given)):
                return _shown(dsn, job, asking)
            is_edited = asked.filters.edits is not None and asked.kind in {"rehearse", "replay"}
            filters = job_sets.with_transforms(conn, asked.kind, filters, asked.to, _deployed(registry()))
            own = job_sets.Wish(filters, asked.upto, Plan(fix, is_edited, asked.to, asked.with_triggers))
            events, plan = job_sets.set_and_plan(conn, own, asked.rehearsed, databases)
            if only is not None and (plan.to is not None or plan.edits_payloads):
                parked_for = sets_sql.parked_for(conn, events)
                require_own_tables(asking, plan.to, parked_for, databases, registry())
            counted = sets_sql.count(conn, asked.kind, events, databases)
            if not counted:
                job_sets.refuse_transformed(conn, asked.kind, events)
            if asked.dry_run:
                return {"kind": asked.kind, "events": counted, "upto": events.upto}
            jobs_sql.require_as_counted(asked.kind, counted, asked.expect)
            by = (actor, asked.reason)
            job = jobs_sql.add(conn, asked.kind, events, by, rate=asked.rate, counted=counted, plan=plan)
            record_act(conn, actor, f"start {asked.kind}", f"job {job}", asked.reason)
            if given:
                jobs_sql.keep_request(conn, actor, *given, job)
        return _shown(dsn, job, asking)

    _add_rest(app, dsn)


def _add_rest(app: FastAPI, dsn: str) -> None:
    @app.get("/v1/jobs")
    def list_jobs(query: Annotated[JobQuery, Query()], asking: Asking) -> dict[str, Any]:
        """Jobs, the newest first."""
        return page(dsn, _JOBS, query, asking)

    @app.get("/v1/jobs/{number}")
    def show_job(number: Id, asking: Asking) -> dict[str, Any]:
        """One job: its progress, and the outcomes of its events by cause."""
        return _shown(dsn, number, asking)

    @app.post("/v1/jobs/{number}/cancel")
    def cancel_job(number: Id, said: Actor, asking: Asking) -> dict[str, Any]:
        """End a job before its next batch; its changes so far remain."""
        actor = asking.acting(said.actor)
        with transaction(dsn) as conn:
            seen = jobs_sql.job(conn, number, asking.only) is not None
            if seen and jobs_sql.cancel(conn, number):
                record_act(conn, actor, "cancel", f"job {number}", None)
        return _shown(dsn, number, asking)


def _shown(dsn: str, number: int, asking: Caller) -> dict[str, Any]:
    with transaction(dsn) as conn:
        found = jobs_sql.job(conn, number, asking.only)
        results = results_sql.read(conn, number)
    if found is None:
        raise not_stored("job")
    return _view(found) | {"results": [dict(zip(_RESULT, row, strict=True)) for row in results]}


def _deployed(registry: Snapshot) -> list[str]:
    """Return the transforms that have a function."""
    return [name for name, transform in registry.transforms.items() if transform.source is not None]


def _set_of(asked: JobRequest) -> dict[str, Any]:
    """Return the filters of the requested set.  Raises `UserError` without a filter."""
    filters = asked.filters.model_dump(exclude_none=True)
    if not filters and asked.rehearsed is None:
        raise UserError(NO_FILTER, "filters: at least one is required")
    return filters


def require_same_database(to: str | None, databases: Mapping[str, str]) -> None:
    """Raise `UserError` if a database is named: an event stays in its own."""
    name, _, table = (to or "").partition(".")
    if name in databases and "." in table:
        raise UserError(
            BAD_QUERY, f"to: give schema.table, without the database ({name}): events stay in theirs"
        )


async def _sha256_of(request: Request) -> bytes:
    """Return the digest of a request's body."""
    return sha256(await request.body()).digest()


async def _fix_of(request: Request) -> str | None:
    """Return the fix of a request as it is stored, from its bytes: a float would lose digits of numbers."""
    document = exact.loads(await request.body())
    found = document.get("fix") if isinstance(document, dict) else None
    return None if found is None else Fix(found).text


def filters_of(text: str) -> dict[str, Any]:
    """Return the filters of a job as a caller sees them.

    Those of a replay also name all deployed transforms, which a caller for some events does not see.
    """
    filters: dict[str, Any] = orjson.loads(text)
    return {name: value for name, value in filters.items() if name != "transforms"}


def _view(job: Job) -> dict[str, Any]:
    said = job._asdict() | {"filters": filters_of(job.filters), "created_at": job.created_at.isoformat()}
    said |= {"samples": orjson.loads(job.samples or "[]")}
    return said | {"finished_at": job.finished_at.isoformat() if job.finished_at else None}


_JOBS: Final = Listed("jobs", jobs_sql.jobs, lambda job: (job.id,), _view)
