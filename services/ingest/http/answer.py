"""Builds the answer to a request from the verdicts of its items.

An envelope: 202 with its receipt, or the problem. A batch: 202 when all are accepted,
207 when some are, 422 when none is, always with one entry per event in the request's
order. A batch with no accepted event is a 503 if a retry may help.
"""

from typing import Any, Final

import msgspec

from services.ingest.asgi import Answer
from services.ingest.http import problems
from services.ingest.request import BatchItem, RequestContext
from services.ingest.sink import Receipt
from shared.contracts.type_schemas import MAX_REPORTED
from shared.errors import NONE_ACCEPTED, OnrampError, UserError
from shared.path_steps import Step

_JSON: Final = b"application/json"
_ACCEPTED: Final = 202
_SOME_ACCEPTED: Final = 207


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The result of one accepted event of a batch."""

    id: str
    receipt: Receipt
    status: int = _ACCEPTED


class SingleAccepted(msgspec.Struct, frozen=True, gc=False):
    """The answer to one accepted envelope."""

    accepted: bool
    id: str
    receipt: Receipt
    request_id: str


class BatchAnswer(msgspec.Struct, frozen=True, gc=False):
    """The answer to a batch with at least one accepted event."""

    accepted: int
    rejected: int
    results: list[Any]
    request_id: str


_ORDER: Final = list(Step)
_ENCODE: Final = msgspec.json.Encoder().encode


def answer(items: list[BatchItem], request: RequestContext, retry_after: int) -> Answer:
    """Return the answer to a request whose items all have their verdict."""
    if request.single:
        return _single(items[0], request, retry_after)
    results = _results(items)
    accepted = sum(isinstance(item.verdict, Receipt) for item in items)
    if not accepted:
        return _none_accepted(items, results, request, retry_after)
    body = _ENCODE(BatchAnswer(accepted, len(items) - accepted, results, request.request_id))
    return Answer(_ACCEPTED if accepted == len(items) else _SOME_ACCEPTED, _JSON, body)


def _single(item: BatchItem, request: RequestContext, retry_after: int) -> Answer:
    if isinstance(item.verdict, OnrampError):
        return problems.answer(item.verdict, request.request_id, retry_after)
    body = _ENCODE(SingleAccepted(True, _id(item), _receipt(item), request.request_id))
    return Answer(_ACCEPTED, _JSON, body)


def _none_accepted(
    items: list[BatchItem], results: list[Any], request: RequestContext, retry_after: int
) -> Answer:
    errors = [item.verdict for item in items if isinstance(item.verdict, OnrampError)]
    error = _summary(errors, f"none of {len(items)} events was accepted; results says why")
    return problems.answer(error, request.request_id, retry_after, results=results)


def _summary(errors: list[OnrampError], detail: str) -> OnrampError:
    """Return one error for the whole batch: whether a retry may help, and the last step reached."""
    retried = [error for error in errors if error.fault.retry]
    # An unknown outcome of one event makes the whole answer's outcome unknown.
    chosen = next((error for error in retried if error.accepted is None), retried[0] if retried else None)
    if chosen is None:
        return UserError(NONE_ACCEPTED, detail).at(max((error.step for error in errors), key=_ORDER.index))
    error = OnrampError(chosen.fault, detail).at(chosen.step)
    error.accepted = chosen.accepted
    return error


def _results(items: list[BatchItem]) -> list[Any]:
    """Return one entry per event, with at most `MAX_REPORTED` full problems: 10,000 of them are 10 MB."""
    results = []
    left = MAX_REPORTED
    for item in items:
        results.append(_result(item, in_full=left > 0))
        if isinstance(item.verdict, OnrampError):
            left -= max(1, len(getattr(item.verdict, "faults", ())))
    return results


def _result(item: BatchItem, *, in_full: bool) -> Any:
    if isinstance(item.verdict, OnrampError):
        problem = problems.problem(item.verdict) if in_full else problems.short_problem(item.verdict)
        event_id = None if item.envelope is None else _id(item)
        return {"status": problem["status"], "id": event_id, "error": problem}
    return Accepted(_id(item), _receipt(item))


def _id(item: BatchItem) -> str:
    assert item.envelope is not None  # noqa: S101 - only checked items are sent
    return item.envelope.metadata.id


def _receipt(item: BatchItem) -> Receipt:
    assert isinstance(item.verdict, Receipt)  # noqa: S101 - accept() leaves no other
    return item.verdict
