"""Jobs: what runs, how far it is, who started it and why; cancel."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi.responses import Response

from services.admin.api.queries import Actor, Id, JobQuery
from services.admin.ui.charts import Part
from services.admin.ui.formats import command, quantity
from services.admin.ui.routes import Ui
from services.admin.ui.view import View

_RUNNING: Final = frozenset({"running", "cancelling"})


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/jobs")
    def list_jobs(view: View) -> Response:
        query = JobQuery.model_validate(view.filters)
        found = view.call("GET /v1/jobs", query=query).document
        running = view.call("GET /v1/jobs", query=JobQuery(state="running", limit=500)).document["jobs"]
        return view.page(
            "jobs.html",
            title="Jobs",
            nav="jobs",
            cli="onramp errors jobs",
            poll=5,
            jobs=found["jobs"],
            cursor=found["next"],
            filters={"kind": query.kind, "cursor": query.cursor},
            kind=query.kind or "",
            running=len(running),
            share_of=share_of,
        )

    @ui.get("/jobs/{number}")
    def show_job(view: View, number: Id) -> Response:
        job = view.call("GET /v1/jobs/{number}", number=number).document
        is_running = job["state"] in _RUNNING
        return view.page(
            "job.html",
            title=f"Job {number}",
            nav="jobs",
            cli=command("onramp errors jobs", number),
            poll=1 if is_running else 0,
            job=job,
            parts=share_of(job),
            is_running=is_running,
        )

    @ui.get("/jobs/{number}/cancel")
    def ask_cancel(view: View, number: Id) -> Response:
        job = view.call("GET /v1/jobs/{number}", number=number).document
        rest = max(job["counted"] - job["changed"] - job["failed"], 0)
        return view.confirm(
            title=f"Cancel job {number}?",
            effect=f"The {job['kind']} ends before its next batch. It has handled {job['changed']:,} of "
            f"{quantity(job['counted'], 'event')}, which stay as they are; "
            f"{quantity(rest, 'event is', 'events are')} left out.",
            button="Cancel the job",
            action=f"/jobs/{number}/cancel",
            back=f"/jobs/{number}",
            nav="jobs",
            cli=command("onramp errors jobs", number, "--cancel"),
            is_danger=True,
        )

    @ui.post("/jobs/{number}/cancel")
    def cancel(view: View, number: Id) -> Response:
        view.call("POST /v1/jobs/{number}/cancel", number=number, said=Actor(actor=view.actor))
        return view.go(f"/jobs/{number}")


def share_of(job: Mapping[str, Any]) -> Sequence[Part]:
    """Return the parts of a job's bar: done, failed and the rest."""
    done = max(job["changed"] - (job["failed"] if job["kind"] == "rehearse" else 0), 0)
    rest = max(job["counted"] - done - job["failed"], 0)
    return [Part("done", done, "land"), Part("failed", job["failed"], "err"), Part("left", rest, "flight")]
