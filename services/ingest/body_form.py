"""Which form a request's body has, by its headers: envelopes, lines of them, or CloudEvents."""

from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from shared.errors import UNSUPPORTED_MEDIA_TYPE, UserError


class Form(Enum):
    """The forms of a body that `decode` can read."""

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
#: The header that marks a CloudEvent in binary mode: attributes in headers, data in the body.
CE_VERSION: Final = b"ce-specversion"


def form_of(headers: Mapping[bytes, bytes]) -> Form:
    """Return the form that the headers announce.  Raises `UserError` UNSUPPORTED_MEDIA_TYPE for any other."""
    if CE_VERSION in headers:
        return Form.CLOUDEVENT_BINARY
    return _announced(headers.get(b"content-type", _JSON))


@lru_cache(maxsize=64)
def _announced(content_type: bytes) -> Form:
    essence, _, parameters = content_type.partition(b";")
    form = _FORMS.get(essence.strip().lower())
    if form is None:
        raise UserError(UNSUPPORTED_MEDIA_TYPE, "this content type is not supported")
    charset = parameters.strip().lower().partition(b"charset=")[2].strip(b'"')
    if charset not in {b"", b"utf-8", b"utf8"}:
        raise UserError(UNSUPPORTED_MEDIA_TYPE, "this charset is not supported: send UTF-8")
    return form
