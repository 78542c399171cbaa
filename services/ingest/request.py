"""What one request becomes on its way: an arrival and its items, each with one verdict at the end."""

from collections.abc import Callable, Mapping

from services.ingest.auth.api_keys import ANONYMOUS, Sender
from services.ingest.body_form import Form
from services.ingest.sink import Record, SendResult
from shared.envelope import Envelope
from shared.registry import EventType
from shared.steps import Step


class BatchItem:
    """One event of a request.  Rejecting sets `verdict` and never removes the item."""

    __slots__ = ("document", "envelope", "event_type", "record", "value", "verdict")

    def __init__(self, value: bytes, document: object, verdict: SendResult | None = None) -> None:
        self.value = value
        self.document = document
        self.envelope: Envelope | None = None
        self.event_type: EventType | None = None
        self.record: Record | None = None
        self.verdict = verdict


class RequestContext:
    """One request, however it came in.  `step` says where it is, so a failure knows its place."""

    __slots__ = ("expect", "form", "headers", "received_at", "request_id", "sender", "single", "step")

    def __init__(self, request_id: str, received_at: str, headers: Mapping[bytes, bytes]) -> None:
        self.request_id = request_id
        self.received_at = received_at
        self.headers = headers
        self.form = Form.ENVELOPES
        self.sender: Sender = ANONYMOUS
        self.step = Step.RECEIVE
        #: Told how many events there are, before any is judged; may refuse them all.
        self.expect: Callable[[int], None] = _any_number
        #: One envelope rather than a batch: it is answered without a list.
        self.single = True

    @property
    def producer(self) -> str:
        """The sender's public name."""
        return self.sender.name


def _any_number(_: int) -> None:
    """Who answers nobody needs no room for an answer."""
