"""Posting events to the gateway over one kept-alive connection, with patience.

Safe to repeat: an event's id makes it land once, however often it is sent. So an answer
that never came is answered by sending again.
"""

import http.client
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from stack.errors import UnavailableError

PATH = "/v1/events"
TIMEOUT_SECONDS = 30.0
_RETRIED = (429, 502, 503, 504)
_LONGEST_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class Reply:
    """The gateway's answer: the HTTP status and its JSON document."""

    status: int
    document: dict[str, Any]
    retry_after: float | None = None

    @property
    def retried(self) -> bool:
        """Whether the gateway asks to send the same again later."""
        return self.status in _RETRIED

    def results(self, ids: list[str]) -> list[dict[str, Any]]:
        """Return one entry per event sent, whatever the answer's form.

        Each has `status`, and `receipt` when it was accepted.
        """
        results: list[dict[str, Any]] | None = self.document.get("results")
        if results is not None:
            return results
        return [{"status": self.status, "id": each, **self.document} for each in ids]


class Poster:
    """One connection to the gateway; not for several threads at once."""

    def __init__(self, url: str, *, api_key: str | None = None) -> None:
        """Nothing is connected before the first `post`.

        Raises:
            ValueError: the URL is not an http or https one.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no http or https URL.")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
        self._path = parts.path.rstrip("/") + PATH
        self._url = url
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"

    def post(self, body: bytes) -> Reply:
        """Send one envelope or an array of them, once.

        Raises:
            OSError, http.client.HTTPException: no answer came; whether it was accepted is unknown.
        """
        try:
            self._connection.request("POST", self._path, body, self._headers)
            response = self._connection.getresponse()
            text = response.read()
        except BaseException:
            self._connection.close()  # What was half sent or half read must not be continued.
            raise
        after = response.getheader("Retry-After", "")
        return Reply(response.status, _document(text), float(after) if after.isdigit() else None)

    def post_patiently(
        self, body: bytes, *, seconds: float = 60.0, give_up: Callable[[], bool] = lambda: False
    ) -> Reply:
        """Send, and send again while the gateway is away or asks to come later.

        Raises:
            UnavailableError: no final answer within that time, or `give_up` said so.
        """
        deadline = time.monotonic() + seconds
        pause = 0.05
        while True:
            problem: str
            wait = pause
            try:
                reply = self.post(body)
            except (OSError, http.client.HTTPException) as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if not reply.retried:
                    return reply
                problem = f"it answered {reply.status}: {reply.document.get('detail', '')}"
                wait = reply.retry_after or pause
            if give_up() or time.monotonic() + wait > deadline:
                raise UnavailableError(
                    f"The gateway at {self._url} did not accept events: {problem}.",
                    fix="Is it running, and is Kafka? Its /readyz and its log say more.",
                )
            time.sleep(min(wait, _LONGEST_PAUSE))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _document(text: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {"detail": text[:200].decode("utf-8", errors="replace")}
    return document if isinstance(document, dict) else {"detail": "the answer is no JSON object"}
