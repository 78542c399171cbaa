"""CHECK: each item must be an envelope that its sender may send and that fits its event type."""

from collections.abc import Callable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from services.ingest.auth.api_keys import Sender
from services.ingest.auth.new_names import NewNameLimit
from services.ingest.check.schema_checks import SchemaChecks
from services.ingest.request import BatchItem, RequestContext
from shared import envelope, strict_json, wire
from shared.contracts.type_schemas import Schemas
from shared.errors import (
    BAD_ENVELOPE,
    EVENT_TOO_LARGE,
    NOT_GRANTED,
    RESERVED_EVENT_NAME,
    UNKNOWN_EVENT_NAME,
    OnrampError,
    UserError,
)
from shared.path_steps import Step
from shared.registry import ApiKey, EventType, Snapshot
from shared.registry.entries import EMPTY

_CONTEXT: Final = "/pipeline_context"


class _Destination(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: str = "postgres"
    vanity: str | None = None
    database: str | None = None
    schema: str = ""
    table: str = ""


class _Context(msgspec.Struct, frozen=True):
    destinations: Annotated[list[_Destination], Meta(min_length=1, max_length=100)]


_CONTEXTS: Final = msgspec.json.Decoder(_Context)


class Checker:
    """Checks items against one registry snapshot per request."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        schemas: Callable[[Snapshot], Schemas],
        new_names: NewNameLimit,
        max_event_bytes: int,
    ) -> None:
        self._snapshot = snapshot
        self._new_names = new_names
        self._max_event_bytes = max_event_bytes
        self._schemas_of = schemas
        self._schemas = Schemas(EMPTY)  # until there is a registry

    def check(self, items: list[BatchItem], request: RequestContext) -> SchemaChecks:
        """Set every item's envelope and event type, or the verdict that rejects it.

        Return the checks by costly schemas, whose parts must run before the items are accepted.
        """
        snapshot = self._snapshot()
        if snapshot is not self._schemas.snapshot:
            self._schemas = self._schemas_of(snapshot)
        # The result for a name applies to all its events in this request.
        admitted: dict[str, EventType | None] = {}
        #: Names whose type has rules for each event.
        demanding: set[str] = set()
        checks = SchemaChecks(self._schemas)
        for item in items:
            if item.verdict is None:
                try:
                    name = self._read(item, request.sender.key)
                    if name not in admitted:
                        admitted[name] = self._admit(name, request.sender, snapshot)
                        if self._demands(name, admitted[name]):
                            demanding.add(name)
                    item.event_type = admitted[name]
                    if item.event_type is not None and name in demanding:
                        _check_size(item, item.event_type)
                        if self._schemas.has(name):
                            checks.add(item, name)
                except OnrampError as error:
                    item.verdict = error.at(Step.CHECK).without_frames()
        return checks

    def _read(self, item: BatchItem, key: ApiKey | None) -> str:
        size = len(item.value)
        if size > self._max_event_bytes:
            raise UserError(EVENT_TOO_LARGE, f"{size} bytes; the limit is {self._max_event_bytes}")
        strict_json.check_depth(item.value, item.document)
        checked = item.envelope = envelope.parse(item.value)
        if checked.pipeline_context:
            _check_context(checked.pipeline_context, key)
        return checked.event_name

    def _admit(self, name: str, sender: Sender, snapshot: Snapshot) -> EventType | None:
        if wire.is_reserved(name):
            raise UserError(RESERVED_EVENT_NAME, "this event name is reserved for Onramp", "/event_name")
        if sender.key is not None and not sender.key.may_send(name):
            raise UserError(NOT_GRANTED, "the key may not send this event name", "/event_name")
        event_type = snapshot.event_types.get(name)
        if event_type is None and snapshot.unknown_names == "refuse":
            raise UserError(UNKNOWN_EVENT_NAME, "this event name is not registered", "/event_name")
        if event_type is None:
            self._new_names.admit(sender, name)
        return event_type

    def _demands(self, name: str, event_type: EventType | None) -> bool:
        return event_type is not None and (event_type.max_bytes is not None or self._schemas.has(name))


def _check_size(item: BatchItem, event_type: EventType) -> None:
    size = len(item.value)
    if event_type.max_bytes is not None and size > event_type.max_bytes:
        raise UserError(EVENT_TOO_LARGE, f"{size} bytes; this type's limit is {event_type.max_bytes}")


def _check_context(raw: msgspec.Raw, key: ApiKey | None) -> None:
    try:
        context = _CONTEXTS.decode(raw)
    except msgspec.DecodeError:
        raise UserError(
            BAD_ENVELOPE,
            "expected an object with destinations: type, vanity or database, schema, table",
            _CONTEXT,
        ) from None
    for index, wanted in enumerate(context.destinations):
        destination = f"{wanted.vanity or wanted.database or ''}.{wanted.schema}.{wanted.table}"
        if key is not None and not key.may_address(destination):
            pointer = f"{_CONTEXT}/destinations/{index}"
            raise UserError(NOT_GRANTED, "the key may not address this destination", pointer)
