"""Jobs: what runs, how far it is, who started it and why; cancel."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from fastapi import Query
from fastapi.responses import Response

from services.admin.api.queries import Actor, Id
from services.admin.ui.charts import Part
from services.admin.ui.routes import Ui
from services.admin.ui.view import View

_PAGE: Final = 50
_RUNNING: Final = frozenset({"running", "cancelling"})


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/jobs")
    def list_jobs(view: View, kind: Annotated[str, Query(max_length=20)] = "") -> Response:
        jobs = [job for job in view.call("GET /v1/jobs").document["jobs"] if kind in {"", job["kind"]}]
        return view.page(
            "jobs.html",
            title="Jobs",
            nav="jobs",
            cli="onramp errors jobs",
            poll=5,
            jobs=jobs[:_PAGE],
            more=max(len(jobs) - _PAGE, 0),
            kind=kind,
            running=sum(job["state"] in _RUNNING for job in jobs),
            share_of=_share_of,
        )

    @ui.get("/jobs/{number}")
    def show_job(view: View, number: Id) -> Response:
        job = view.call("GET /v1/jobs/{number}", number=number).document
        is_running = job["state"] in _RUNNING
        return view.page(
            "job.html",
            title=f"Job {number}",
            nav="jobs",
            cli="onramp errors jobs " + str(number),
            poll=1 if is_running else 0,
            job=job,
            parts=_parts(job),
            is_running=is_running,
        )

    @ui.get("/jobs/{number}/cancel")
    def ask_cancel(view: View, number: Id) -> Response:
        job = view.call("GET /v1/jobs/{number}", number=number).document
        rest = max(job["counted"] - job["changed"] - job["failed"], 0)
        return view.confirm(
            title=f"Cancel job {number}?",
            effect=f"The {job['kind']} ends before its next batch. It has handled {job['changed']:,} of "
            f"{job['counted']:,} events, which stay as they are; {rest:,} events are left out.",
            button="Cancel the job",
            action=f"/jobs/{number}/cancel",
            back=f"/jobs/{number}",
            nav="jobs",
            cli="onramp errors jobs --cancel " + str(number),
            is_danger=True,
        )

    @ui.post("/jobs/{number}/cancel")
    def cancel(view: View, number: Id) -> Response:
        view.call("POST /v1/jobs/{number}/cancel", number=number, said=Actor(actor=view.actor))
        return view.go(f"/jobs/{number}")


def _share_of(job: Mapping[str, Any]) -> Sequence[Part]:
    """Return the parts of a job's bar: done, failed and the rest."""
    done = max(job["changed"] - (job["failed"] if job["kind"] == "rehearse" else 0), 0)
    rest = max(job["counted"] - done - job["failed"], 0)
    return [Part("done", done, "land"), Part("failed", job["failed"], "err"), Part("left", rest, "flight")]


def _parts(job: Mapping[str, Any]) -> Sequence[Part]:
    return _share_of(job)
