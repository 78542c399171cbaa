"""The routes of holds: paused event types and blocked tables, and the decisions that end them.

A caller with rights for some events sees the holds of those types, and of tables that take only them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from fastapi import FastAPI

from services.admin.api.operators import Caller
from services.admin.api.problems import not_stored
from services.admin.api.queries import State, StateIfGiven
from services.admin.api.rights import Asking, landing_in
from services.admin.api.stale import require_current
from services.admin.store.control_sql import transaction
from services.admin.store.read_sql import last_act, record_act
from services.admin.waiting_api.each_database import Unreachable, each_database
from services.admin.waiting_api.schemas import HoldDecision, tag_of
from services.ops.operate import holds_sql
from services.ops.operate.holds_sql import Hold
from shared.errors import NOT_WAITING, WAITING_CHANGED, UserError
from shared.registry import Snapshot

RESUME: Final = "resume"
DEAD_LETTER: Final = "dead-letter"
#: Each decision with its effect, by the state of a hold.
_WAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "paused": {
        RESUME: "The waiting events land in their order; those that cannot land are parked.",
        DEAD_LETTER: "The waiting events and those that follow are parked until the hold ends.",
    },
    "blocked": {DEAD_LETTER: "The waiting events and those that follow are parked until the hold ends."},
    "resumed": {DEAD_LETTER: "The waiting events and those that follow are parked until the hold ends."},
}


class Holds:
    """The holds of all databases, and the decisions about them; for routes and pages."""

    def __init__(self, dsn: str, databases: Mapping[str, str], registry: Callable[[], Snapshot]) -> None:
        """`dsn`: the control database, which has the audit log."""
        self._dsn = dsn
        self._databases = databases
        self._registry = registry

    def all(self, asking: Caller) -> tuple[list[Hold], dict[str, str]]:
        """Return the holds that the caller sees, and the databases that did not answer, with the reason."""
        found = each_database(self._databases, holds_sql.holds)
        held = [hold for holds in found.values() if isinstance(holds, list) for hold in holds]
        unreached = {name: each.detail for name, each in found.items() if isinstance(each, Unreachable)}
        return [hold for hold in held if self.is_visible(asking, hold)], unreached

    def decide(self, act: str, said: HoldDecision, state: State, asking: Caller) -> dict[str, Any]:
        """End a hold by `act`, or try whether it can be ended; return the hold as it is then.

        Raises:
            UserError: NOT_STORED, IF_MATCH_MISSING, WAITING_CHANGED or NOT_WAITING; nothing was changed.
            InfrastructureError: the database or the control database cannot be reached.
        """
        state.require_given()
        held = self._require(asking, said)
        actor, subject = asking.acting(said.actor), subject_of(held)
        with transaction(self._dsn) as conn:
            require_current(state, tag_of_hold(held), WAITING_CHANGED, last_act(conn, subject))
            if act not in _WAYS.get(held.state, {}):
                raise UserError(NOT_WAITING, f"{subject} is {held.state}")
            record_act(conn, actor, act, subject, said.reason)
            if said.dry_run:
                conn.rollback()
            elif not self._end(act, held, actor, said.reason):
                conn.rollback()
                raise UserError(WAITING_CHANGED, f"{subject} has just changed")
        now = held if said.dry_run else self._find(said)
        return {"hold": now and view(now), "events": held.waiting, "dry_run": said.dry_run}

    def _require(self, asking: Caller, said: HoldDecision) -> Hold:
        if said.database not in self._databases:
            raise not_stored("database")
        held = self._find(said)
        if held is None or not self.is_visible(asking, held):
            raise not_stored("hold")
        return held

    def _find(self, said: HoldDecision) -> Hold | None:
        found = holds_sql.holds(said.database, self._databases[said.database])
        return next((hold for hold in found if (hold.kind, hold.name) == (said.kind, said.name)), None)

    def _end(self, act: str, held: Hold, actor: str, reason: str) -> bool:
        dsn = self._databases[held.database]
        if act == RESUME:
            return holds_sql.resume(held.database, dsn, held.name, of=held)
        return holds_sql.dead_letter(held.database, dsn, held.name, by=actor, reason=reason, of=held)

    def is_visible(self, asking: Caller, held: Hold) -> bool:
        """Return whether the caller sees every event type that waits behind the hold."""
        if asking.only is None:
            return True
        if held.kind == "type":
            return asking.sees(held.name)
        schema, _, table = held.name.partition(".")
        default = next(iter(self._databases), "")
        return asking.sees(*landing_in(self._registry(), held.database, schema, table, default))


def add_holds(app: FastAPI, holds: Holds) -> None:
    """Add the routes."""

    @app.get("/v1/holds")
    def list_holds(asking: Asking) -> dict[str, Any]:
        """Paused event types and blocked tables of every database, with the decisions that are possible."""
        found, unreached = holds.all(asking)
        return {"holds": [view(hold) for hold in found], "unreached": unreached}

    @app.post("/v1/holds/resume")
    def resume_hold(said: HoldDecision, state: StateIfGiven, asking: Asking) -> dict[str, Any]:
        """Resume a paused event type; `If-Match` is the hold's `etag` as it was read."""
        return holds.decide(RESUME, said, state, asking)

    @app.post("/v1/holds/dead-letter")
    def dead_letter_hold(said: HoldDecision, state: StateIfGiven, asking: Asking) -> dict[str, Any]:
        """Park the events behind a hold, and those that follow; `If-Match` is the hold's `etag`."""
        return holds.decide(DEAD_LETTER, said, state, asking)


def view(held: Hold) -> dict[str, Any]:
    """Return a hold as a document, with its tag and the possible decisions."""
    ways = [{"how": how, "effect": effect} for how, effect in _WAYS.get(held.state, {}).items()]
    return held.as_dict() | {"etag": tag_of_hold(held), "ways": ways}


def tag_of_hold(held: Hold) -> str:
    """Return the tag of a hold: its state, and not the number of events behind it."""
    return tag_of(held.database, held.kind, held.name, held.state, held.since)


def subject_of(held: Hold) -> str:
    """Return the hold's name in the audit log."""
    return f"{held.kind} {held.name} in {held.database}"
