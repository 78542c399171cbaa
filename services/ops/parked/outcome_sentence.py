"""The error of a group of parked events as a sentence, without their values."""

from collections.abc import Mapping
from typing import Any

from services.ops.parked.fingerprint import OTHERS, Cause, cause_of
from shared.errors import FIX_DOES_NOT_APPLY, TABLE, TRANSFORM_FAILED


def sentence(cause: Cause) -> str:
    """Return the sentence: the error table's title, and the place."""
    if cause.code == OTHERS.code:
        of = f" of event {cause.event_name}" if cause.event_name else ""
        return f"Causes beyond the maximum number of groups{of}."
    fault = TABLE.get(cause.code or "")
    title = fault.title.rstrip(".") if fault else f"Error {cause.code}"
    parts = [
        cause.event_name and f"event {cause.event_name}",
        cause.destination and f"for {cause.destination}",
        cause.column and f"column {cause.column}",
        cause.place and f"{_kind_of(cause)} {cause.place}",
        cause.sqlstate and f"SQLSTATE {cause.sqlstate}",
        cause.json_type and f"the value there is {_article(cause.json_type)}",
    ]
    said = ", ".join(part for part in parts if part)
    return f"{title}: {said}." if said else f"{title}."


def sentence_of(reason: Mapping[str, Any]) -> str:
    """Return an event's error as a sentence that is equal for equal causes."""
    if reason.get("code") not in TABLE or reason["code"] == FIX_DOES_NOT_APPLY.code:
        return str(reason.get("detail") or "no reason is known")
    return sentence(cause_of(reason, None)._replace(json_type=None))


def _kind_of(cause: Cause) -> str:
    """Return the word before the place of a cause."""
    if cause.code == TRANSFORM_FAILED.code:
        return "raised"
    return "at" if (cause.place or "").startswith("/") else "constraint"


def _article(json_type: str) -> str:
    if json_type in {"null", "absent"}:
        return json_type
    return f"{'an' if json_type[0] in 'aio' else 'a'} {json_type}"
