"""Groups and events as the API shows them: masked, with a sentence, without payload values."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson

from services.admin.store.bytes_sql import Loaded
from services.admin.store.read_sql import Act, Event, Group, Part
from services.ops.parked.facets import Facets, is_personal
from services.ops.parked.fingerprint import Cause
from services.ops.parked.outcome_sentence import sentence
from services.ops.parked.title import title_of
from shared.mask import masked

#: Pointers to the personal fields of the events of a name.
Personal = Callable[[str | None], Sequence[str]]


def group(found: Group) -> dict[str, Any]:
    """Return a group."""
    return {
        "id": found.id,
        "title": title_of(found.cause, found.column_type),
        "sentence": sentence(found.cause),
        "state": found.state,
        "assignee": found.assignee,
        "events": found.events,
        "first_seen": found.first_seen.isoformat(),
        "last_seen": found.last_seen.isoformat(),
        "cause": found.cause._asdict(),
        "would_land_now": None if found.rehearsal is None else orjson.loads(found.rehearsal),
    }


def event(found: Event, *, whole: bool = False) -> dict[str, Any]:
    """Return an event as a document; `whole` includes its complete reason."""
    reason = orjson.loads(found.reason)
    said = found._asdict() | {"parked_at": found.parked_at.isoformat(), "detail": reason.get("detail")}
    return said | {"reason": reason} if whole else {n: v for n, v in said.items() if n != "reason"}


def part(found: Part) -> dict[str, Any]:
    """Return an entry of the segment index: one kind and hour."""
    return found._asdict() | {"hour": found.hour.isoformat()}


def act(found: Act) -> dict[str, Any]:
    """Return an entry of the audit log."""
    return found._asdict() | {"at": found.at.isoformat()}


def facets(found: Facets, cause: Cause, personal: Personal) -> dict[str, Any]:
    """Return the facets of a group; shapes of personal values are hidden too."""
    hidden = is_personal(cause.column, cause.place, personal(cause.event_name))
    return found.shown(shapes=not hidden)


def samples(events: Sequence[int], loaded: Loaded, hidden: Iterable[str]) -> list[Any]:
    """Return the shapes of events of one name."""
    return [shape(event, loaded, hidden) for event in events]


def shape(event: int, loaded: Loaded, hidden: Iterable[str]) -> Any:
    """Return the shape of an event, the reason why it is unknown, or None without a value.

    `hidden`: JSON Pointers to payload fields whose shapes are hidden.
    """
    if event in loaded.lost:
        return f"not read: {loaded.lost[event].fault.code}"
    return masked(loaded.values[event], hidden) if event in loaded.values else None
