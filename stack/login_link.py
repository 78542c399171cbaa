"""The link that logs an operator in to the web UI once; `onramp up` prints it."""

import http.client
import json
import time
from typing import Final
from urllib.parse import urlsplit

_TIMEOUT_SECONDS: Final = 2.0
#: Seconds that the admin service has to start; nothing else waits for it.
_START_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.2
_PATH: Final = "/ui/login/links"


def login_link(admin: str, key: str, seconds: float = _START_SECONDS) -> str | None:
    """Return a new login link for the holder of an operator's key, or None if the service returns none."""
    deadline = time.monotonic() + seconds
    while (path := _new_path(admin, key)) is None:
        if time.monotonic() >= deadline:
            return None
        time.sleep(_POLL_SECONDS)
    return admin + path


def _new_path(admin: str, key: str) -> str | None:
    connection = http.client.HTTPConnection(urlsplit(admin).netloc, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("POST", _PATH, headers={"Authorization": f"Bearer {key}", "Content-Length": "0"})
        answer = connection.getresponse()
        return str(json.load(answer)["path"]) if answer.status == http.client.OK else None
    except (OSError, http.client.HTTPException):
        return None  # The port is not open yet, or the process is busy: the caller retries.
    finally:
        connection.close()
