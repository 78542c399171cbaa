"""Evaluates an answer for each event of a batch: settled, or sent again, whole or in halves.

Only the gateway's documents settle an event: a receipt, or a problem that says that the
event is certainly not on Kafka. After any other answer, e.g. of a proxy, events are sent again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .events import ACCEPTED, REJECTED, Event, Verdict

#: Statuses of a whole request whose bytes would be rejected again. 404 and 405 are about
#: the address, 401 and 403 about the key: both are fixed elsewhere.
_FINAL: Final = frozenset({400, 413, 415, 422, 431})
#: Statuses of one event in a batch.
_FIXED_ELSEWHERE: Final = frozenset({401, 403, 404, 405, 408, 425, 429})
#: Statuses after which a batch is sent in halves: the gateway or a proxy accepts less at once.
_HALVED: Final = frozenset({408, 413})
_ACCEPTED: Final = 202
_TOO_LARGE: Final = 413
_TOO_SLOW: Final = 408
_CLIENT_ERRORS: Final = range(400, 500)
_KINDS: Final = frozenset({"application/json", "application/problem+json"})
_PROBLEMS: Final = "/errors/"


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(slots=True)
class Evaluation:
    """The evaluation of an answer for a batch's events."""

    settled: list[Verdict] = field(default_factory=list)
    #: Parts that are sent again, each separately.
    again: list[list[Event]] = field(default_factory=list)
    #: Whether the parts are sent without waiting.
    at_once: bool = False
    #: The gateway's document or the client's own problem, for a log; without any value of the events.
    problem: dict[str, Any] = field(default_factory=dict)


def evaluate(events: list[Event], answer: Answer) -> Evaluation:
    """Return the evaluation of `answer` for `events`."""
    document = _document(answer)
    results = document.get("results")
    if isinstance(results, list) and len(results) == len(events):
        return _each(events, results, document)
    if _is_final(answer, document) or answer.status == _TOO_LARGE:
        return _rejected(events, document or _foreign(answer))
    parts = _halves(events) if answer.status in _HALVED else [events]
    return Evaluation(again=parts, problem=document or _foreign(answer))


def unsent(events: list[Event], problem: dict[str, Any]) -> Evaluation:
    """Return the halves of a batch whose connection broke while the body was sent: a smaller one may pass."""
    return Evaluation(again=_halves(events), problem=problem)


def _each(events: list[Event], results: list[Any], document: dict[str, Any]) -> Evaluation:
    evaluation = Evaluation(problem=document)
    again = []
    for event, result in zip(events, results, strict=True):
        verdict = _verdict(event, result)
        if verdict is None:
            again.append(event)
        else:
            evaluation.settled.append(verdict)
    if again:
        evaluation.again = [again]
        evaluation.problem = _first_problem(results) or document
    return evaluation


def _verdict(event: Event, result: Any) -> Verdict | None:
    if not isinstance(result, dict):
        return None
    status, error = result.get("status"), result.get("error")
    if status == _ACCEPTED and result.get("id") == event.id and isinstance(result.get("receipt"), dict):
        return event, ACCEPTED, result
    if status in _FIXED_ELSEWHERE or status not in _CLIENT_ERRORS:
        return None
    return (event, REJECTED, error) if isinstance(error, dict) and _is_problem(error) else None


def _rejected(events: list[Event], problem: dict[str, Any]) -> Evaluation:
    """Settle an event that was rejected alone; split a rejected batch, of which one event may be at fault."""
    if len(events) == 1:
        return Evaluation(settled=[(events[0], REJECTED, problem)], problem=problem)
    return Evaluation(again=_halves(events), at_once=True, problem=problem)


def _halves(events: list[Event]) -> list[list[Event]]:
    half = len(events) // 2
    return [part for part in (events[:half], events[half:]) if part]


def _is_final(answer: Answer, document: dict[str, Any]) -> bool:
    return answer.status in _FINAL and _is_problem(document)


def _is_problem(document: dict[str, Any]) -> bool:
    """Return whether the gateway itself says that the event is certainly not on Kafka."""
    return document.get("accepted") is False and str(document.get("type")).startswith(_PROBLEMS)


def _document(answer: Answer) -> dict[str, Any]:
    if answer.headers.get("content-type", "").partition(";")[0].strip().lower() not in _KINDS:
        return {}
    try:
        document = json.loads(answer.content)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _foreign(answer: Answer) -> dict[str, Any]:
    """Return a problem for an answer that is not from the gateway, without its text, which may be a page."""
    kind = answer.headers.get("content-type", "nothing")[:100]
    return {"status": answer.status, "detail": f"not an answer of the gateway: {answer.status} with {kind}"}


def _first_problem(results: list[Any]) -> dict[str, Any]:
    errors = (result.get("error") for result in results if isinstance(result, dict))
    return next((error for error in errors if isinstance(error, dict)), {})
