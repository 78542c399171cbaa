"""Which databases are not available, as the writers' /readyz say."""

import http.client
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

import orjson

from services.tracer.http_connection import connection_to

_SECONDS: Final = 3.0
_AVAILABLE: Final = "landing"


def unavailable(writers: Iterable[str]) -> set[str]:
    """Return the databases that a writer reports as down, halted or draining; none if no writer answers."""
    return {name for url in writers for name in _of_one(url)}


def _of_one(url: str) -> Iterator[str]:
    connection = connection_to(url, _SECONDS)
    try:
        connection.request("GET", f"{urlsplit(url).path}/readyz")
        document = orjson.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException):
        return  # alerts about the writer say that it is down
    finally:
        connection.close()
    states = document.get("databases") if isinstance(document, dict) else None
    if isinstance(states, dict):
        yield from (name for name, state in states.items() if state != _AVAILABLE)
