"""Request models of these routes: parameters, bodies with their bounds, and the expected state."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import Path, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect

from services.admin.api.problems import RefusalError
from services.admin.api.queries import Actor, ListQuery
from services.ops.registry.key_overlap import DEFAULT_OVERLAP, SPAN
from shared import wire
from shared.errors import (
    BAD_REQUEST,
    BODY_TOO_LARGE,
    REGISTRY_REFUSED,
    UserError,
)
from shared.registry.texts import RETENTION
from shared.strict_json import loads

#: Maximum bytes of a whole registry, which is one Kafka record.
MAX_REGISTRY: Final = 15 << 20
#: Maximum bytes of one event type with its schema.
MAX_TYPE: Final = 2 << 20
_MAX_ELSE: Final = 64 << 10
_MAX_ERRORS: Final = 50
_TEXT: Final = r"^[^\x00]*$"
_TOPIC: Final = "[A-Za-z0-9._-]{1,249}"

M = TypeVar("M", bound=BaseModel)
TypeName = Annotated[str, Path(pattern=f"^{wire.EVENT_NAME.pattern}$", description="An event name.")]
KeyName = Annotated[str, Path(pattern="^[a-z0-9][a-z0-9-]{0,31}$", description="A key's id.")]
TopicName = Annotated[str, Path(pattern=f"^{_TOPIC}$", description="A topic, or the name of its event type.")]


class Said(Actor):
    """The actor, the reason and the options of a change."""

    dry_run: bool = False
    accept: bool = False
    reason: Annotated[
        str,
        Field(
            min_length=1,
            max_length=1024,
            pattern=r"^[^\x00]*[^\x00\s][^\x00]*$",
            description="Reason, stored with the change.",
        ),
    ]


class RotateSaid(Said):
    """A rotation: also the validity of the old secrets."""

    overlap: Annotated[str, Field(pattern=f"^{SPAN}$")] = DEFAULT_OVERLAP


class HistoryQuery(ListQuery):
    """A page of the history."""


class TypeQuery(ListQuery):
    """A page of event types."""


class TopicQuery(ListQuery):
    """A page of topics."""


class SampleQuery(BaseModel):
    """The number of newest records."""

    model_config = ConfigDict(extra="forbid")

    last: Annotated[int, Field(ge=1, le=100)] = 10


class CheckQuery(BaseModel):
    """The event type whose destinations are checked; all by default."""

    model_config = ConfigDict(extra="forbid")

    event_type: Annotated[str | None, Field(min_length=1, max_length=63, pattern=_TEXT)] = None


class DeleteSaid(Said):
    """A deletion: also whether parked events of the type remain parked."""

    parked: Literal["keep"] | None = None


class AccessQuery(BaseModel):
    """The key, the event, and a destination of its packets."""

    model_config = ConfigDict(extra="forbid")

    key: Annotated[str, Field(min_length=1, max_length=32)]
    event: Annotated[str, Field(min_length=1, max_length=128)]
    destination: Annotated[str, Field(max_length=256)] = ""


_Patterns = Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(max_length=1000)]


class NewKey(BaseModel):
    """A sender's key: patterns of event names that it may send (default: all), and of destinations."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9-]{0,31}$")]
    events: _Patterns = []
    destinations: _Patterns = []


class NewTopic(BaseModel):
    """A topic, or the event of that topic; omitted settings are those that the gateway would use."""

    model_config = ConfigDict(extra="forbid")

    topic: Annotated[str, Field(pattern=f"^{_TOPIC}$")]
    partitions: Annotated[int | None, Field(ge=1, le=1000, strict=True)] = None
    replication: Annotated[int | None, Field(ge=1, le=32767, strict=True)] = None
    retention: Annotated[str | None, Field(pattern=f"^{RETENTION}$")] = None


class TopicChange(BaseModel):
    """The topic's retention: 36h, 30d."""

    model_config = ConfigDict(extra="forbid")

    retention: Annotated[str, Field(pattern=f"^{RETENTION}$")]


#: The OpenAPI response of routes with `KnownIfGiven`.
UNCHANGED: Final[dict[int | str, dict[str, Any]]] = {304: {"description": "It is what If-None-Match names."}}


def body(max_bytes: int = _MAX_ELSE) -> Callable[[Request], Coroutine[Any, Any, bytes]]:
    """Return the dependency that reads a body of at most `max_bytes` bytes."""

    async def read(request: Request) -> bytes:
        chunks, size = list[bytes](), 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
                if size > max_bytes:
                    raise UserError(BODY_TOO_LARGE, f"the body has more than {max_bytes:,} bytes")
                chunks.append(chunk)
        except ClientDisconnect:
            raise UserError(BAD_REQUEST, "the body ended early") from None
        return b"".join(chunks)

    return read


def described(model: type[BaseModel], text: str = "") -> dict[str, Any]:
    """Return the OpenAPI description of a body that a route reads itself."""
    schema = model.model_json_schema(by_alias=True)
    return {
        "requestBody": {
            "required": True,
            "description": text,
            "content": {"application/json": {"schema": _inlined(schema)}},
        }
    }


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without references, because the document's components are elsewhere."""
    definitions = schema.pop("$defs", {})

    def inline(part: Any) -> Any:
        if isinstance(part, list):
            return [inline(each) for each in part]
        if not isinstance(part, dict):
            return part
        if reference := part.get("$ref"):
            rest = {name: value for name, value in part.items() if name != "$ref"}
            return inline(definitions[reference.rpartition("/")[2]]) | rest
        return {name: inline(value) for name, value in part.items()}

    return dict(inline(schema))


def document_of(given: bytes) -> dict[str, Any]:
    """Return a body as a JSON object. Raises `UserError`."""
    document = loads(given)
    if not isinstance(document, dict):
        raise UserError(REGISTRY_REFUSED, "the body is not a JSON object")
    return document


def valid(model: type[M], document: dict[str, Any]) -> M:
    """Return a document as a model. Raises `RefusalError` with every invalid place, without values."""
    try:
        return model.model_validate(document)
    except ValidationError as e:
        errors = [
            {"place": "/".join(("body", *map(str, each["loc"])))[:500], "detail": each["msg"][:500]}
            for each in e.errors(include_input=False, include_url=False)[:_MAX_ERRORS]
        ]
        raise RefusalError(REGISTRY_REFUSED, f"{e.error_count()} wrong", errors=errors) from None
