"""Determines the form of a request's body from its headers: envelopes, lines, or CloudEvents."""

from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from shared.errors import UNSUPPORTED_MEDIA_TYPE, UserError


class Form(Enum):
    """The body forms that `decode` can read."""

    ENVELOPES = auto()
    LINES = auto()
    CLOUDEVENT = auto()
    CLOUDEVENTS = auto()
    CLOUDEVENT_BINARY = auto()


_JSON: Final = b"application/json"
_FORMS: Final[Mapping[bytes, Form]] = {
    _JSON: Form.ENVELOPES,
    b"application/x-ndjson": Form.LINES,
    b"application/cloudevents+json": Form.CLOUDEVENT,
    b"application/cloudevents-batch+json": Form.CLOUDEVENTS,
}
#: Headers of a CloudEvent in binary mode: attributes in headers, data in the body.  One without its version
#: is rejected as a CloudEvent, and not read as an envelope.
_CE_REQUIRED: Final = frozenset({b"ce-specversion", b"ce-id", b"ce-source", b"ce-type"})
#: A structured event may have those headers too; its content type decides.
_CE_STRUCTURED: Final = b"application/cloudevents"


def form_of(headers: Mapping[bytes, bytes]) -> Form:
    """Return the form that the headers announce.  Raises `UserError` UNSUPPORTED_MEDIA_TYPE for any other."""
    content_type = headers.get(b"content-type", _JSON)
    if not _CE_REQUIRED.isdisjoint(headers) and not content_type.lower().startswith(_CE_STRUCTURED):
        return Form.CLOUDEVENT_BINARY
    return _announced(content_type)


@lru_cache(maxsize=64)
def _announced(content_type: bytes) -> Form:
    essence, _, parameters = content_type.partition(b";")
    form = _FORMS.get(essence.strip().lower())
    if form is None:
        raise UserError(UNSUPPORTED_MEDIA_TYPE, "this content type is not supported")
    if not charsets(parameters) <= {b"utf-8", b"utf8"}:
        raise UserError(UNSUPPORTED_MEDIA_TYPE, "this charset is not supported: send UTF-8")
    return form


def charsets(parameters: bytes) -> set[bytes]:
    """Return the charsets that the parameters of a content type name, in lower case; usually one or none."""
    named = (each.strip().lower().partition(b"=") for each in parameters.split(b";"))
    return {value.strip(b'"') for name, _, value in named if name == b"charset"}
