"""What goes through the client: an event, made once so that every retry of it is the same bytes."""

import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

ACCEPTED: Final = "accepted"
REJECTED: Final = "rejected"
UNKNOWN: Final = "unknown"
KEPT: Final = "kept"

#: What the client remembers of the last problems it was told.
_MOST_PROBLEMS: Final = 10


class QueueFullError(Exception):
    """More events are waiting than the bounds allow: the gateway is slower than the sender, or away."""


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
