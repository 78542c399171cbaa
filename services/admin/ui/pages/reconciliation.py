"""Reconciliation: the last audit as a page that can be printed, and the button that starts another."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi.responses import Response

from services.admin.api.audits import AuditRequest
from services.admin.api.queries import Actor, Id
from services.admin.ui.formats import quantity
from services.admin.ui.routes import Ui
from services.admin.ui.view import PageView, View

_RUNNING: Final = frozenset({"running", "cancelling"})
_MAX_FINDINGS: Final = 200


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/reconciliation")
    def last_audit(view: View) -> Response:
        audits = view.call("GET /v1/audits").document["audits"]
        return _page(view, audits, audits[0]["id"] if audits else None)

    @ui.get("/reconciliation/{number}")
    def one_audit(view: View, number: Id) -> Response:
        return _page(view, view.call("GET /v1/audits").document["audits"], number)

    @ui.post("/reconciliation")
    def start(view: View) -> Response:
        deep = {"all": True, "totals": False}.get(view.form.get("receipts", ""))
        reason = view.form.get("reason") or "started on the page"
        asked = AuditRequest(reason=reason, deep=deep, actor=view.actor)
        found = view.call("POST /v1/audits", asked=asked, key=view.once).document
        return view.go(f"/reconciliation/{found['id']}")

    @ui.post("/reconciliation/{number}/cancel")
    def cancel(view: View, number: Id) -> Response:
        view.call("POST /v1/audits/{number}/cancel", number=number, said=Actor(actor=view.actor))
        return view.go(f"/reconciliation/{number}")


def _page(view: PageView, audits: list[dict[str, Any]], number: int | None) -> Response:
    shown = None
    if number is not None:
        shown = view.call("GET /v1/audits/{number}", number=number).document
    is_running = any(each["state"] in _RUNNING for each in audits)
    report = shown and shown["report"]
    return view.page(
        "reconciliation.html",
        title="Reconciliation",
        nav="reconciliation",
        cli="onramp audit",
        poll=2 if is_running else 0,
        audits=audits[:10],
        audit=shown,
        report=report,
        sentence_of=_sentence(report) if report else "",
        findings=report["findings"][:_MAX_FINDINGS] if report else [],
        columns=_columns(report) if report else [],
        is_running=is_running,
        may_start=view.may("POST /v1/audits"),
    )


def _sentence(report: Mapping[str, Any]) -> str:
    read = sum(line["read"] for line in report["partitions"])
    if report["findings"]:
        return f"Not reconciled: {quantity(len(report['findings']), 'violation')}."
    if report["balanced"]:
        return (
            f"Reconciled: {quantity(read, 'record')} of "
            f"{quantity(len(report['partitions']), 'partition')}, no finding."
        )
    return "No violation, but not everything could be checked."


def _columns(report: Mapping[str, Any]) -> list[str]:
    """Return the outcomes that any partition has, in the order of their first use."""
    return list(dict.fromkeys(name for line in report["partitions"] for name in line["outcomes"]))
