"""One change over HTTP: based on the state that its sender has read, logged, and in force or refused."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final, NamedTuple

from fastapi.responses import JSONResponse, Response

from services.admin.api.operators import Caller
from services.admin.api.problems import RefusalError, not_stored
from services.admin.api.queries import Known, State
from services.admin.registry_api.schemas import Said
from services.admin.store.control_sql import transaction
from services.admin.store.read_sql import record_act
from services.ops.registry.change import Result, Wish, change_to
from services.ops.registry.change import State as Ended
from services.ops.registry.registry_reader import RegistryReader, RegistryReading, tag_of
from shared.errors import REGISTRY_CONFLICT, REGISTRY_REFUSED, InfrastructureError, UserError
from shared.registry import Snapshot
from shared.registry.memory import reasons

#: Returns the new registry from the one in force. Raises `ValueError` for an invalid change.
Make = Callable[[Snapshot], Snapshot]
_DONE: Final = frozenset({Ended.APPLIED, Ended.UNCHANGED, Ended.POSSIBLE})


class Act(NamedTuple):
    """An action and its subject, as the audit log records them."""

    name: str
    subject: str
    #: Whether it changes keys alone.
    of_keys: bool = False


class Changes:
    """Brings the routes' changes into force."""

    def __init__(self, dsn: str, desk: RegistryReader) -> None:
        self._dsn = dsn
        self._desk = desk

    def make(self, asking: Caller, act: Act, said: Said, state: State, make: Make) -> tuple[Result, str]:
        """Bring the registry that `make` returns into force; return the result, and the tag then in force.

        Raises:
            UserError: REGISTRY_CHANGED, REGISTRY_CONFLICT or REGISTRY_REFUSED; nothing was changed.
            InfrastructureError: Kafka, a database of destinations or the control database cannot be reached.
        """
        wish = Wish(asking.acting(said.actor), said.reason, said.accept, said.dry_run)
        with _repeatable(), self._desk.editing(of_keys=act.of_keys) as editor:
            self._require_current(state, tag_of(editor.chain), editor.chain.last)
            try:
                wanted = make(editor.chain.snapshot())
            except ValueError as e:
                raise RefusalError(REGISTRY_REFUSED, "; ".join(reasons(e))[:2000]) from None
            with transaction(self._dsn) as conn:
                record_act(conn, wish.actor, act.name, act.subject, said.reason)
                result = change_to(editor, wanted, wish, self._desk.places)
                _require_done(result)
                if result.state is not Ended.APPLIED:
                    conn.rollback()
            return result, tag_of(editor.chain)

    def _require_current(self, state: State, tag: str, last: int) -> None:
        """Raise `UserError` REGISTRY_CHANGED with the actor and the time of the last change."""
        try:
            state.require(tag)
        except UserError as e:
            for _, change in self._desk.changes([last] if last >= 0 else []):
                at = change.time.isoformat(timespec="seconds")
                detail = f"{e.detail}; the last change is by {change.actor} at {at}"
                raise RefusalError(
                    e.fault, detail, changed_by=change.actor, changed_at=change.time.isoformat()
                ) from None
            raise


@contextmanager
def _repeatable() -> Iterator[None]:
    """Add advice to the error when it is unknown whether the change is in force."""
    try:
        yield
    except InfrastructureError as e:
        detail = f"{e.detail}; repeat the change with the same If-Match: it is in force once at most"
        raise InfrastructureError(e.fault, detail) from None


def _require_done(result: Result) -> None:
    if result.state in _DONE:
        return
    fault = REGISTRY_CONFLICT if result.state is Ended.CONFLICT else REGISTRY_REFUSED
    said = {name: value for name, value in result.as_dict().items() if name not in {"reason", "offset"}}
    raise RefusalError(fault, result.reason, **said)


def answered(result: Result, tag: str, **more: Any) -> JSONResponse:
    """Return the answer to a change that is valid, or in force."""
    return JSONResponse({**result.as_dict(), **more}, headers={"etag": f'"{tag}"'})


def tagged(
    reading: RegistryReading, document: Any, known: Known | None = None, only: Sequence[str] | None = None
) -> Response:
    """Return a part of the registry in force, with the tag for changing it; 304 if the reader has it.

    `only`: the patterns of the events whose entries are in `document`.  The tag includes them: a caller with
    new rights would otherwise get 304 for the same state.
    """
    seen_by = "" if only is None else f"-{sha256(repr(only).encode()).hexdigest()[:8]}"
    tag = f"{reading.tag}{seen_by}"
    headers = {"etag": f'"{tag}"'}
    if known is not None and known.has(tag):
        return Response(status_code=304, headers=headers)
    return JSONResponse(document, headers=headers)


def require_there(there: bool, what: str) -> None:
    """Raise `UserError` NOT_STORED unless it exists and the caller may see it."""
    if not there:
        raise not_stored(what)
