"""What goes through the client: an event, made once so that every retry of it is the same bytes."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Required, TypedDict

ACCEPTED: Final = "accepted"
REJECTED: Final = "rejected"
UNKNOWN: Final = "unknown"
KEPT: Final = "kept"

#: What the client remembers of the last problems it was told.
_MOST_PROBLEMS: Final = 10


class QueueFullError(Exception):
    """More events are waiting than the bounds allow: the gateway is slower than the sender, or away.

    `taken` has the ids of those that `send_many` could still take: the first of what it was given.
    """

    def __init__(self, told: str, taken: Sequence[str] = ()) -> None:
        super().__init__(told)
        self.taken = list(taken)


class Given(TypedDict, total=False):
    """What a sender may say of an event beside its name and payload; what is missing or None is made."""

    #: Give an id of your own if you may send the event again: the same id lands once.
    id: str | None
    #: When it happened; now.
    timestamp: datetime | None
    #: The producer's version of this event; that of the client.
    version: str | None


class NewEvent(Given):
    """An event that is to be sent, in the words of `send`."""

    event_name: Required[str]
    payload: Required[dict[str, Any]]


@dataclass(slots=True, eq=False)
class Event:
    """One event on its way; `ticket` is its place in the spool, if there is one."""

    id: str
    body: bytes
    give_up_at: float
    ticket: Any = None


#: An event, its outcome, and the gateway's answer or problem.
Verdict = tuple[Event, str, dict[str, Any]]


@dataclass
class Tally:
    """What became of the events.

    `unknown` ones were given up without a verdict; `kept` ones lie in the spool, for the next start.
    """

    sent: int = 0
    accepted: int = 0
    rejected: int = 0
    unknown: int = 0
    kept: int = 0
    #: How often `on_settled` raised.
    callback_errors: int = 0
    #: The last few problems that were told, for a log.
    problems: list[dict[str, Any]] = field(default_factory=list)

    def count(self, outcome: str, events: int) -> None:
        """So many more events have this outcome."""
        setattr(self, outcome, getattr(self, outcome) + events)

    def tell(self, problem: dict[str, Any]) -> None:
        """Remember a problem."""
        self.problems = [*self.problems[1 - _MOST_PROBLEMS :], problem]


def made(
    usual_version: str,
    event_name: str,
    payload: dict[str, Any],
    *,
    id: str | None = None,  # noqa: A002 - the envelope's own word
    timestamp: datetime | None = None,
    version: str | None = None,
) -> tuple[str, bytes]:
    """The event's id and its bytes.

    Raises:
        ValueError, TypeError: the payload is not JSON, or something else is given.
    """
    event_id = id or new_id()
    return event_id, envelope(
        event_name, payload, event_id=event_id, timestamp=timestamp, version=version or usual_version
    )


def envelope(
    event_name: str, payload: dict[str, Any], *, event_id: str, timestamp: datetime | None, version: str
) -> bytes:
    """The event's bytes.

    Raises:
        ValueError, TypeError: the payload is not JSON.
    """
    moment = timestamp or datetime.now(UTC)
    document = {
        "metadata": {"id": event_id, "timestamp": moment.isoformat(), "version": version},
        "event_name": event_name,
        "payload": payload,
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def new_id() -> str:
    """An id for an event that has none of its own."""
    return str(uuid.uuid4())
