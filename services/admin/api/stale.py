"""Refuses a change of a stale state, and names the operator who changed it, with the time.

Two operators often work on one problem: the second one needs the name of the first.
"""

from services.admin.api.problems import RefusalError
from services.admin.api.queries import State
from services.admin.store.read_sql import Act
from shared.errors import Fault, UserError


def require_current(state: State, tag: str, fault: Fault, last: Act | None) -> None:
    """Raise `UserError` unless If-Match names `tag`.

    `last`: the last entry of the audit log about the object; the error names its actor and time.
    """
    try:
        state.require(tag, fault)
    except UserError as e:
        if last is None:
            raise
        at = last.at.isoformat(timespec="seconds")
        detail = f"{e.detail}; the last change is by {last.actor} at {at}: {last.act}"
        raise RefusalError(fault, detail, changed_by=last.actor, changed_at=last.at.isoformat()) from None
