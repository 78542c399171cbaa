"""CloudEvents 1.0 over HTTP, mapped to envelopes (docs/sending.md holds the table).

``metadata.id`` is a hash of source and id, which together name an event in CloudEvents;
``event_name`` is the type in lower case with ``_`` for what is no letter or digit; the data
is the payload, an object as it is and anything else as ``{"data": …}``.  Attributes for which
the envelope has no field are kept in ``metadata.cloudevent``.
"""

import base64
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import orjson

from shared import strict_json
from shared.errors import BAD_CLOUDEVENT, UserError

_SPECVERSION: Final = "1.0"
_NOT_ALPHANUMERIC: Final = re.compile(r"[^a-z0-9]+")
_ID_BYTES: Final = 20
_JSON_TYPE: Final = re.compile(r"[^/]+/(?:[^/]+\+)?json", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(r"[a-z0-9]{1,20}")
_OBJECT: Final = ord("{")
_DATA_NAMES: Final = frozenset({"data", "data_base64"})


class _Data(msgspec.Struct):
    """The data of a structured event, as the producer's own bytes."""

    data: msgspec.Raw = msgspec.Raw()


_DATA: Final = msgspec.json.Decoder(_Data)


def to_envelope(event: bytes, received_at: str) -> bytes:
    """Return the envelope of a structured event, which must be strict JSON.

    Raises:
        UserError: a required attribute is missing or not what the specification says.
    """
    attributes = orjson.loads(event)
    if not isinstance(attributes, dict):
        raise UserError(BAD_CLOUDEVENT, "a CloudEvent is an object")
    for name in ("specversion", "id", "source", "type"):
        if not isinstance(attributes.get(name), str) or not attributes[name]:
            raise UserError(BAD_CLOUDEVENT, f"the attribute {name} must be a non-empty string", f"/{name}")
    if attributes["specversion"] != _SPECVERSION:
        raise UserError(BAD_CLOUDEVENT, f"only specversion {_SPECVERSION} is supported", "/specversion")
    # The data is copied as bytes: a number written as 1.10 stays 1.10.
    payload = _payload(attributes, bytes(_DATA.decode(event).data))
    metadata = orjson.dumps(_metadata(attributes, received_at))
    name_json = orjson.dumps(event_name(attributes["type"]))
    return b'{"metadata":%s,"event_name":%s,"payload":%s}' % (metadata, name_json, payload)


def event_name(kind: str) -> str:
    """Return the event name of a type: of `com.example.Order-Placed` `com_example_order_placed`."""
    return _NOT_ALPHANUMERIC.sub("_", kind.lower()).strip("_")


def event_id(source: str, identifier: str) -> str:
    """Return the envelope's id: equal for equal source and id, and for nothing else."""
    return "ce-" + sha256(f"{source}\0{identifier}".encode()).hexdigest()[: 2 * _ID_BYTES]


def from_headers(headers: Mapping[bytes, bytes], body: bytes) -> bytes:
    """Return the structured form of a binary event: attributes from `ce-` headers, data from the body."""
    attributes: dict[str, Any] = {
        name[3:].decode(): unquote(value.decode("latin-1"))
        for name, value in headers.items()
        if name.startswith(b"ce-") and _ATTRIBUTE.fullmatch(name[3:].decode("latin-1"))
    }
    kind = headers.get(b"content-type", b"application/json").decode("latin-1")
    attributes["datacontenttype"] = kind
    event = orjson.dumps(attributes)
    if not body:
        return event
    return b"%s,%s}" % (event[:-1], _binary_data(kind.partition(";")[0].strip(), body))


def _binary_data(kind: str, body: bytes) -> bytes:
    if _JSON_TYPE.fullmatch(kind):
        strict_json.loads(body)  # by itself: it must not close the object that it is put into
        return b'"data":' + body
    if kind.startswith("text/"):
        try:
            return b'"data":' + orjson.dumps(body.decode())
        except UnicodeDecodeError:
            pass  # no text after all: kept as bytes
    return b'"data_base64":' + orjson.dumps(base64.b64encode(body).decode())


def _payload(attributes: dict[str, Any], data: bytes) -> bytes:
    if "data_base64" in attributes:
        return b'{"data_base64":%s}' % orjson.dumps(attributes["data_base64"])
    if not data:
        return b"{}"
    return data if data[0] == _OBJECT else b'{"data":%s}' % data


def _metadata(attributes: dict[str, Any], received_at: str) -> dict[str, Any]:
    return {
        "id": event_id(attributes["source"], attributes["id"]),
        "timestamp": attributes.get("time", received_at),
        "version": _SPECVERSION,
        "cloudevent": {name: value for name, value in attributes.items() if name not in _DATA_NAMES},
    }
