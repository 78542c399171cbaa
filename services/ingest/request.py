"""A request's context and items as they pass through the steps; at the end each item has one verdict."""

from collections.abc import Callable, Collection, Mapping

from services.ingest.auth.api_keys import ANONYMOUS, Sender
from services.ingest.body_form import Form
from services.ingest.sink import Record, SendResult
from shared.envelope import Envelope
from shared.path_steps import Step
from shared.registry import EventType


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
    """A request of any entrance. `step` is the step that runs, so an error knows where it happened."""

    __slots__ = (
        "address",
        "form",
        "headers",
        "received_at",
        "repeated",
        "request_id",
        "reserve_answer",
        "sender",
        "single",
        "step",
    )

    def __init__(
        self, request_id: str, received_at: str, headers: Mapping[bytes, bytes], address: str = ""
    ) -> None:
        #: Address of the client or of a proxy; empty if unknown.
        self.address = address
        self.request_id = request_id
        self.received_at = received_at
        self.headers = headers
        #: Names of repeated headers; `headers` has their values joined.
        self.repeated: Collection[bytes] = ()
        self.form = Form.ENVELOPES
        self.sender: Sender = ANONYMOUS
        self.step = Step.RECEIVE
        #: Called with the number of events before any is checked; may raise `OnrampError` for all.
        self.reserve_answer: Callable[[int], None] = _reserve_nothing
        #: Whether it is one envelope and not a batch: the answer is not a list.
        self.single = True

    @property
    def producer(self) -> str:
        """Return the sender's public name: the API key's id, or `anonymous`."""
        return self.sender.name

    @property
    def queue(self) -> str:
        """Return the name of its queue for turns: its key, or without a key its address."""
        return self.address if self.address and self.sender.key is None else self.sender.name


def _reserve_nothing(_: int) -> None:
    """Reserve nothing: an entrance without answers needs no room for them."""
