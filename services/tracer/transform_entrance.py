"""The entrance through a transform: a tracer of a gateway, whose row is the output of the built-in transform.

It is used while a transform service runs that transform, which it does once the registry has a transform.
"""

import http.client
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import orjson

from services.tracer.entrances import Entrance
from services.tracer.http_connection import connection_to
from shared import wire

_SECONDS: Final = 3.0


class TransformEntrance:
    """The entrance, and whether a service runs the transform, as its /status says."""

    def __init__(self, entrance: Entrance, services: Sequence[str]) -> None:
        """`services`: the URLs of the transform services."""
        self.entrance = entrance
        self._services = services
        self._is_running = False

    def is_running(self) -> bool:
        """Return the last answer: while no service answers, tracers are sent, and are late or lost."""
        answers = [answer for url in self._services if (answer := _answer_of(url)) is not None]
        if answers:
            self._is_running = any(answers)
        return self._is_running


def _answer_of(url: str) -> bool | None:
    """Return whether the service runs the transform of tracers; None without an answer."""
    connection = connection_to(url, _SECONDS)
    try:
        connection.request("GET", f"{urlsplit(url).path}/status")
        document = orjson.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    transforms = document.get("transforms") if isinstance(document, dict) else None
    return isinstance(transforms, dict) and wire.PROBE_EVENT in transforms
