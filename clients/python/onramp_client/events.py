"""Events and their outcomes. An event is serialized once, so that every retry has the same bytes."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Required, TypedDict

ACCEPTED: Final = "accepted"
REJECTED: Final = "rejected"
UNKNOWN: Final = "unknown"
SPOOLED: Final = "spooled"

#: Maximum number of last problems in the tally.
_MAX_PROBLEMS: Final = 10


class QueueFullError(Exception):
    """More events are waiting than the limits allow: the gateway is slower than the sender, or unreachable.

    `taken` has the ids of the events that `send_many` did queue: the first ones of its list.
    """

    def __init__(self, message: str, taken: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.taken = list(taken)


class Given(TypedDict, total=False):
    """Optional parts of an event; a missing or None part has a default."""

    #: Default: random. Set it if the event may be sent again: an id lands once.
    id: str | None
    #: When it happened.  Default: now.
    timestamp: datetime | None
    #: `metadata.version`.  Default: the client's.
    version: str | None


class NewEvent(Given):
    """An event to send: the arguments of `send`."""

    event_name: Required[str]
    payload: Required[dict[str, Any]]


@dataclass(slots=True, eq=False)
class Event:
    """A queued event; `ticket` identifies it in the spool, if there is one."""

    id: str
    body: bytes
    give_up_at: float
    ticket: Any = None


#: An event, its outcome, and the gateway's answer or problem.
Verdict = tuple[Event, str, dict[str, Any]]


@dataclass
class Tally:
    """The number of events by outcome.

    `unknown` events were given up without a verdict; `spooled` ones are in the spool for the next start.
    """

    sent: int = 0
    accepted: int = 0
    rejected: int = 0
    unknown: int = 0
    spooled: int = 0
    #: Calls of `on_settled` that raised.
    callback_errors: int = 0
    #: The last few problems, for a log.
    problems: list[dict[str, Any]] = field(default_factory=list)

    def count(self, outcome: str, events: int) -> None:
        """Count events of an outcome."""
        setattr(self, outcome, getattr(self, outcome) + events)

    def add_problem(self, problem: dict[str, Any]) -> None:
        """Add a problem, replacing the oldest if there are many."""
        self.problems = [*self.problems[1 - _MAX_PROBLEMS :], problem]


def make_event(
    default_version: str,
    event_name: str,
    payload: dict[str, Any],
    *,
    id: str | None = None,  # noqa: A002 - the envelope's name of it
    timestamp: datetime | None = None,
    version: str | None = None,
) -> tuple[str, bytes]:
    """Return the event's id and its bytes.

    Raises:
        ValueError, TypeError: the payload is not JSON, or an argument is of a wrong type.
    """
    event_id = id or new_id()
    return event_id, envelope(
        event_name, payload, event_id=event_id, timestamp=timestamp, version=version or default_version
    )


def envelope(
    event_name: str, payload: dict[str, Any], *, event_id: str, timestamp: datetime | None, version: str
) -> bytes:
    """Return the bytes of an event's envelope.

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
    """Return a random id."""
    return str(uuid.uuid4())
