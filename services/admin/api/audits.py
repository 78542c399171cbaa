"""The routes of audits: one at a time, with progress, and the reports of those that are done."""

from typing import Any, Final

from fastapi import FastAPI

from services.admin.api.jobs import IdempotencyKey
from services.admin.api.problems import not_stored
from services.admin.api.queries import Actor, Id, Reason
from services.admin.api.rights import Asking
from services.admin.store import audits_sql
from services.admin.store.control_sql import transaction
from services.admin.store.read_sql import record_act
from shared.errors import AUDIT_RUNS, UserError

_SHOWN: Final = 50


class AuditRequest(Actor):
    """An audit: its reason, and whether every receipt is read (by default up to two million)."""

    reason: Reason
    deep: bool | None = None


def add_audits(app: FastAPI, dsn: str) -> None:
    """Add the routes."""

    @app.post("/v1/audits", status_code=202)
    def start_audit(asked: AuditRequest, asking: Asking, key: IdempotencyKey = None) -> dict[str, Any]:
        """Start an audit in the background: `onramp audit`, with its report stored.

        One runs at a time.  A request that is repeated with its `Idempotency-Key` within 24 hours starts no
        other.
        """
        actor = asking.acting(asked.actor)
        with transaction(dsn) as conn:
            number = None
            if key is not None:
                number = audits_sql.started_by(conn, actor, key, asked.reason, deep=asked.deep)
            if number is None:
                number = audits_sql.start(conn, actor, asked.reason, deep=asked.deep, key=key)
                if number is None:
                    raise UserError(AUDIT_RUNS, "one audit runs at a time")
                record_act(conn, actor, "start audit", f"audit {number}", asked.reason)
        return show_audit(number)

    @app.get("/v1/audits")
    def list_audits() -> dict[str, Any]:
        """The last audits, the newest first, without their reports."""
        with transaction(dsn) as conn:
            return {"audits": [each.as_dict() for each in audits_sql.audits(conn, _SHOWN)]}

    @app.get("/v1/audits/{number}")
    def show_audit(number: Id) -> dict[str, Any]:
        """One audit: its progress, and its report once it is done."""
        with transaction(dsn) as conn:
            found = audits_sql.audit(conn, number)
        if found is None:
            raise not_stored("audit")
        return found.as_dict()

    @app.post("/v1/audits/{number}/cancel")
    def cancel_audit(number: Id, said: Actor, asking: Asking) -> dict[str, Any]:
        """End a running audit; it has no report then."""
        actor = asking.acting(said.actor)
        with transaction(dsn) as conn:
            if audits_sql.cancel(conn, number):
                record_act(conn, actor, "cancel", f"audit {number}", None)
        return show_audit(number)
