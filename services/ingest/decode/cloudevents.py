"""CloudEvents 1.0 over HTTP, mapped to envelopes (docs/sending.md holds the table).

``metadata.id`` is a hash of source and id, which together name an event in CloudEvents;
``event_name`` is the type in lower case with ``_`` for every other character than letters and digits; the
data
is the payload, an object unchanged and anything else as ``{"data": …}``. Attributes for which
the envelope has no field are stored in ``metadata.cloudevent``.
"""

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec
import orjson

from services.ingest.body_form import charsets
from shared import strict_json
from shared.errors import BAD_CLOUDEVENT, UserError

_SPECVERSION: Final = "1.0"
_NOT_ALPHANUMERIC: Final = re.compile(r"[^a-z0-9]+")
_ID_BYTES: Final = 20
#: Maximum length of a name in a pointer.
_MAX_NAME: Final = 80
_JSON_TYPE: Final = re.compile(r"[^/]+/(?:[^/]+\+)?json", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(r"[a-z0-9]+")
#: CloudEvents text has no control characters; a NUL separates source and id in the hash.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
#: Charsets of a text that is UTF-8.
_UTF8: Final = frozenset({b"utf-8", b"utf8", b"us-ascii"})
_OBJECT: Final = ord("{")
_DATA_NAMES: Final = frozenset({"data", "data_base64"})


class _Data(msgspec.Struct):
    """The data of a structured event, as the producer's own bytes."""

    data: msgspec.Raw = msgspec.Raw()


_DATA: Final = msgspec.json.Decoder(_Data)


def to_envelope(event: bytes, received_at: str) -> bytes:
    """Return the envelope of a structured event, which must be strict JSON.

    Raises:
        UserError: a required attribute is missing or does not follow the specification.
    """
    attributes = orjson.loads(event)
    if not isinstance(attributes, dict):
        raise UserError(BAD_CLOUDEVENT, "a CloudEvent is an object")
    for name in ("specversion", "id", "source", "type"):
        if not isinstance(attributes.get(name), str) or not attributes[name]:
            raise UserError(BAD_CLOUDEVENT, f"the attribute {name} must be a non-empty string", f"/{name}")
    if attributes["specversion"] != _SPECVERSION:
        raise UserError(BAD_CLOUDEVENT, f"only specversion {_SPECVERSION} is supported", "/specversion")
    for name, value in attributes.items():
        if isinstance(value, str) and name not in _DATA_NAMES and _CONTROL.search(value):
            raise UserError(BAD_CLOUDEVENT, "an attribute has no control characters", f"/{_pointed(name)}")
    # The data is copied as bytes, so that the number 1.10 stays 1.10.
    payload = _payload(attributes, bytes(_DATA.decode(event).data))
    metadata = orjson.dumps(_metadata(attributes, received_at))
    name_json = orjson.dumps(event_name(attributes["type"]))
    return b'{"metadata":%s,"event_name":%s,"payload":%s}' % (metadata, name_json, payload)


def event_name(kind: str) -> str:
    """Return the event name of a type: `com_example_order_placed` for `com.example.Order-Placed`."""
    return _NOT_ALPHANUMERIC.sub("_", kind.lower()).strip("_")


def event_id(source: str, identifier: str) -> str:
    """Return the envelope's id: equal only for equal source and id."""
    return "ce-" + sha256(f"{source}\0{identifier}".encode()).hexdigest()[: 2 * _ID_BYTES]


def from_headers(headers: Mapping[bytes, bytes], repeated: Collection[bytes], body: bytes) -> bytes:
    """Return the structured form of a binary event: attributes from `ce-` headers, data from the body.

    Raises:
        UserError: a header is not an attribute, is repeated or cannot be decoded.
    """
    attributes: dict[str, Any] = {}
    for name, value in headers.items():
        if name.startswith(b"ce-"):
            attribute = name[3:].decode("latin-1")
            if not _ATTRIBUTE.fullmatch(attribute) or attribute in _DATA_NAMES:
                raise UserError(BAD_CLOUDEVENT, "an attribute's name has lower-case letters and digits alone")
            if name in repeated:
                raise UserError(BAD_CLOUDEVENT, "this header came more than once", f"/{attribute}")
            attributes[attribute] = _decoded(value, attribute)
    if b"content-type" in repeated:
        raise UserError(BAD_CLOUDEVENT, "this header came more than once", "/datacontenttype")
    kind = headers.get(b"content-type", b"application/json")
    attributes["datacontenttype"] = kind.decode("latin-1")
    event = orjson.dumps(attributes)
    if not body:
        return event
    return b"%s,%s}" % (event[:-1], _binary_data(kind, body))


def _decoded(value: bytes, attribute: str) -> str:
    """Return an attribute of a header: unquoted, then percent-decoded once, as the binding says."""
    try:
        text = value.decode()
        if quoted := _QUOTED.fullmatch(text):
            text = re.sub(r"\\(.)", r"\1", quoted[1])
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise UserError(BAD_CLOUDEVENT, "the header is no percent-encoded UTF-8", f"/{attribute}") from None


def _binary_data(content_type: bytes, body: bytes) -> bytes:
    essence, _, parameters = content_type.partition(b";")
    kind = essence.strip().lower().decode("latin-1")
    if _JSON_TYPE.fullmatch(kind):
        strict_json.loads(body)  # parsed alone: it must not close the object that it is inserted into
        return b'"data":' + body
    if kind.startswith("text/") and charsets(parameters) <= _UTF8:
        try:
            return b'"data":' + orjson.dumps(body.decode())
        except UnicodeDecodeError:
            pass  # not text: stored as bytes
    return b'"data_base64":' + orjson.dumps(base64.b64encode(body).decode())


def _payload(attributes: dict[str, Any], data: bytes) -> bytes:
    if attributes.get("data_base64") is not None:
        return b'{"data_base64":%s}' % orjson.dumps(_base64_of(attributes))
    if not data:
        return b"{}"
    return data if data[0] == _OBJECT else b'{"data":%s}' % data


def _base64_of(attributes: dict[str, Any]) -> str:
    given = attributes["data_base64"]
    if attributes.get("data") is not None:
        raise UserError(BAD_CLOUDEVENT, "an event has data or data_base64, not both", "/data_base64")
    try:
        if isinstance(given, str):
            base64.b64decode(given, validate=True)
            return given
    except (binascii.Error, ValueError):
        pass  # rejected below
    raise UserError(BAD_CLOUDEVENT, "data_base64 is a text in base64", "/data_base64")


def _pointed(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")[:_MAX_NAME]


def _metadata(attributes: dict[str, Any], received_at: str) -> dict[str, Any]:
    return {
        "id": event_id(attributes["source"], attributes["id"]),
        "timestamp": received_at if attributes.get("time") is None else attributes["time"],
        "version": _SPECVERSION,
        "cloudevent": {name: value for name, value in attributes.items() if name not in _DATA_NAMES},
    }
