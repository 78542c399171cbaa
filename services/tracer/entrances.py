"""The entrances over HTTP: the same tracer event in each form that a gateway accepts.

A new form is one entry of `FORMS`; another protocol implements `Entrance`. No tracer is sent twice, so a
second row is a duplicate that the pipeline made.
"""

import http.client
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, Protocol
from urllib.parse import urlsplit

import orjson

from services.tracer.http_connection import connection_to
from services.tracer.rows_sql import LANDING
from shared import wire

_SECONDS: Final = 10.0
_ACCEPTED: Final = 202
_SOURCE: Final = "onramp/tracer"
_JSON: Final = "application/json"


class RefusedError(Exception):
    """An entrance has not accepted a tracer; the text has no values."""


class Entrance(Protocol):
    """A way into Onramp that a gateway serves."""

    @property
    def name(self) -> str:
        """Return the entrance's name: the form, and the gateway's host and port."""

    @property
    def table(self) -> str:
        """Return the table of its rows."""

    def send(self, tracer_id: str) -> bool:
        """Send the tracer, and return whether the gateway has acknowledged it.  Raises `RefusedError`."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request's headers and body."""

    headers: dict[str, str]
    body: bytes


def _envelope(tracer_id: str, entrance: str, at: str) -> bytes:
    return orjson.dumps(
        {
            "metadata": {"id": tracer_id, "timestamp": at, "version": "1"},
            "event_name": wire.PROBE_EVENT,
            "payload": {"entrance": entrance},
        }
    )


def _single(tracer_id: str, entrance: str, at: str) -> Request:
    return Request({"content-type": _JSON}, _envelope(tracer_id, entrance, at))


def _batch(tracer_id: str, entrance: str, at: str) -> Request:
    return Request({"content-type": _JSON}, b"[%b]" % _envelope(tracer_id, entrance, at))


def _lines(tracer_id: str, entrance: str, at: str) -> Request:
    return Request({"content-type": "application/x-ndjson"}, _envelope(tracer_id, entrance, at) + b"\n")


def _attributes(tracer_id: str, at: str) -> dict[str, str]:
    return {"specversion": "1.0", "id": tracer_id, "source": _SOURCE, "type": wire.PROBE_EVENT, "time": at}


def _structured(tracer_id: str, entrance: str, at: str) -> Request:
    document = {**_attributes(tracer_id, at), "data": {"entrance": entrance}}
    return Request({"content-type": "application/cloudevents+json"}, orjson.dumps(document))


def _binary(tracer_id: str, entrance: str, at: str) -> Request:
    headers = {f"ce-{name}": value for name, value in _attributes(tracer_id, at).items()}
    return Request({"content-type": _JSON, **headers}, orjson.dumps({"entrance": entrance}))


#: By form: the request, and whether the row's id is that of a CloudEvent.
FORMS: Final[dict[str, tuple[Callable[[str, str, str], Request], bool]]] = {
    "single": (_single, False),
    "batch": (_batch, False),
    "ndjson": (_lines, False),
    "cloudevent": (_structured, True),
    "cloudevent_binary": (_binary, True),
}


#: Also the form of tracers for the built-in transform, which are sent into one gateway.
_ALL_FORMS: Final = FORMS | {wire.TRANSFORM_ENTRANCE: (_single, False)}


def row_id(entrance: str, tracer_id: str) -> str:
    """Return the id of the row of a tracer that was sent into `entrance`.

    A CloudEvent's is a hash, and a transform's output has the name of the transform in front.
    """
    name = entrance.partition("@")[0]
    if name == wire.TRANSFORM_ENTRANCE:
        return f"{wire.PROBE_EVENT}:{tracer_id}"
    form = FORMS.get(name)
    if form is None or not form[1]:
        return tracer_id
    return "ce-" + sha256(f"{_SOURCE}\0{tracer_id}".encode()).hexdigest()[:40]


@dataclass(frozen=True, slots=True)
class HttpEntrance:
    """One form at one gateway."""

    gateway: str
    form: str
    api_key: str

    @property
    def name(self) -> str:
        """Return the entrance's name: the form and the gateway's host and port."""
        return f"{self.form}@{urlsplit(self.gateway).netloc}"

    @property
    def table(self) -> str:
        """Return the table of its rows."""
        return LANDING

    def send(self, tracer_id: str) -> bool:
        """Send the tracer, and return True when the gateway has accepted it.  Raises `RefusedError`."""
        request = _ALL_FORMS[self.form][0](tracer_id, self.name, datetime.now(UTC).isoformat())
        headers = dict(request.headers)
        if self.api_key:
            headers["authorization"] = f"Bearer {self.api_key}"
        connection = connection_to(self.gateway, _SECONDS)
        try:
            connection.request("POST", f"{urlsplit(self.gateway).path}/v1/events", request.body, headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as e:
            raise RefusedError(f"no answer: {type(e).__name__}") from None
        finally:
            connection.close()
        if answer.status != _ACCEPTED:
            raise RefusedError(f"answered {answer.status}")
        return True
