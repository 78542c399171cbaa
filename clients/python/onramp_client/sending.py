"""The methods that send: one event, many events, or the bytes of their envelopes."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from .events import Given, NewEvent, QueueFullError, make_event


class Sending(ABC):
    """Creates events; a subclass queues them."""

    def __init__(self, version: str) -> None:
        self._version = version

    def send(
        self, event_name: str, payload: dict[str, Any], *, block_seconds: float = 0.0, **given: Unpack[Given]
    ) -> str:
        """Queue an event and return its id.

        Raises:
            QueueFullError: there is no room within `block_seconds`.
            ValueError, TypeError: the payload is not JSON, or the client is closed.
            OSError: the spool cannot be written; the event was not taken.
        """
        event_id, body = make_event(self._version, event_name, payload, **given)
        self.send_bytes(event_id, body, block_seconds=block_seconds)
        return event_id

    def send_many(self, events: Iterable[NewEvent], *, block_seconds: float = 0.0) -> list[str]:
        """Queue events in order and return their ids; cheaper than one by one.

        Raises:
            QueueFullError: there is no room for all of them within `block_seconds`: its
                `taken` has the ids of the first ones, which were queued.
            ValueError, TypeError: a payload is not JSON, and none was taken; or the client is closed.
            OSError: the spool cannot be written; none was taken.
        """
        many = self.serialize(events)
        self.send_many_bytes(many, block_seconds=block_seconds)
        return [event_id for event_id, _ in many]

    def send_bytes(self, event_id: str, body: bytes, *, block_seconds: float = 0.0) -> None:
        """Queue the bytes of an envelope, one line of JSON; raises like `send`."""
        self.send_many_bytes(((event_id, body),), block_seconds=block_seconds)

    @abstractmethod
    def send_many_bytes(self, events: Iterable[tuple[str, bytes]], *, block_seconds: float = 0.0) -> None:
        """Queue ids and the bytes of their envelopes."""

    def serialize(self, events: Iterable[NewEvent]) -> list[tuple[str, bytes]]:
        """Return the events' ids and bytes; raises like `send_many`."""
        return [make_event(self._version, **event) for event in events]


def with_queued(error: QueueFullError | OSError, taken: Sequence[str]) -> QueueFullError | OSError:
    """Return an error with the ids of the events that were queued before `error`."""
    if not taken:
        return error
    message = f"the spool cannot be written: {error.strerror}" if isinstance(error, OSError) else str(error)
    return QueueFullError(message, taken)
