"""The client of Kafka Connect's REST interface, limited to the requests that the agent sends."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from services.cdc.health.out_of_sync import Position

_SECONDS: Final = 15.0
#: The value of a row in a Java error message: the logs must not have it.
_VALUE: Final = re.compile(r'((?:[Ii]nput|[Vv]alue|[Ss]tring|[Ss]yntax)[^:"]*:? ?)".*"')
_MAX_REASON: Final = 300
#: The snapshot field of a connector's offset during its first snapshot, and during a requested one or after
#: its abort.
FIRST_SNAPSHOT: Final = "INITIAL"
ON_DEMAND: Final = "BLOCKING"


class ConnectError(Exception):
    """Kafka Connect is unreachable or refused the request; the text gives the reason without values."""


class RefusedError(ConnectError):
    """Kafka Connect answered 400: a configuration is wrong, or its login check at the source failed."""


class _MissingError(ConnectError):
    """Kafka Connect answered 404."""


_KINDS: Final[dict[int, type[ConnectError]]] = {
    HTTPStatus.NOT_FOUND: _MissingError,
    HTTPStatus.BAD_REQUEST: RefusedError,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorStatus:
    """The state of a connector and its tasks (`RUNNING`, `FAILED`, …), and the cause of a failure."""

    connector: str
    tasks: tuple[str, ...]
    reason: str = ""

    @property
    def has_failed(self) -> bool:
        """Return whether the connector or its task has failed."""
        return "FAILED" in (self.connector, *self.tasks)

    @property
    def is_stopped(self) -> bool:
        """Return whether the connector is stopped and none of its tasks runs."""
        return self.connector == "STOPPED" and not self.tasks


class ConnectApi:
    """The Kafka Connect worker at `url`.  Every method raises `ConnectError`."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def config(self, name: str) -> dict[str, str] | None:
        """Return a connector's configuration, or None when there is no such connector."""
        found: dict[str, str] | None = self._find("GET", name, "/config")
        return found

    def put_config(self, name: str, config: dict[str, str]) -> None:
        """Create or reconfigure a connector; its task restarts."""
        self._ask("PUT", name, "/config", config)

    def status(self, name: str) -> ConnectorStatus | None:
        """Return a connector's status; None when there is no such connector, or it has no status yet."""
        found = self._find("GET", name, "/status")
        if found is None:
            return None
        tasks = found["tasks"]
        traces = [part.get("trace", "") for part in (found["connector"], *tasks)]
        return ConnectorStatus(
            connector=found["connector"]["state"],
            tasks=tuple(task["state"] for task in tasks),
            reason=next((cause(trace) for trace in traces if trace), ""),
        )

    def restart(self, name: str) -> None:
        """Restart the connector and its failed tasks."""
        self._ask("POST", name, "/restart?includeTasks=true&onlyFailed=true")

    def stop(self, name: str) -> None:
        """End the connector's tasks until it is resumed; its offsets are retained."""
        self._ask("PUT", name, "/stop")

    def resume(self, name: str) -> None:
        """Resume a stopped connector."""
        self._ask("PUT", name, "/resume")

    def offsets(self, name: str) -> list[Any]:
        """Return a connector's offsets; empty when it has committed none."""
        found = self._find("GET", name, "/offsets")
        return [each for each in (found or {}).get("offsets", ()) if each.get("offset")]

    def position(self, name: str) -> Position:
        """Return whether a connector has offsets, and whether they belong to an unfinished first snapshot."""
        offsets = self.offsets(name)
        return Position(bool(offsets), snapshot_of(offsets) == FIRST_SNAPSHOT)

    def sent(self, name: str) -> int | None:
        """Return the LSN up to which Kafka has everything; None if Kafka Connect is unreachable."""
        try:
            return offset_lsn(self.offsets(name))
        except ConnectError:
            return None

    def delete_offsets(self, name: str) -> None:
        """Delete a stopped connector's offsets: it starts with a snapshot."""
        self._ask("DELETE", name, "/offsets")

    def delete(self, name: str) -> None:
        """Delete a connector; its offsets remain unless they are deleted before."""
        self._find("DELETE", name, "")

    def _find(self, method: str, name: str, path: str) -> Any:
        """Send a request for an object that may not exist; return None on 404.

        A worker that is starting answers 404 for all connectors until it has read its topics.
        """
        try:
            return self._ask(method, name, path)
        except _MissingError:
            self._send("GET", "/health")
        try:
            return self._ask(method, name, path)
        except _MissingError:
            return None

    def _ask(self, method: str, name: str, path: str, body: object = None) -> Any:
        return self._send(method, f"/connectors/{urllib.parse.quote(name)}{path}", body)

    def _send(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 - an operator's URL
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - an operator's URL
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                kind = _KINDS.get(error.code, ConnectError)
                raise kind(_refusal(method, path, error)) from None
        except (OSError, TimeoutError) as error:
            raise ConnectError(f"Kafka Connect at {self._url} does not answer: {error}") from None
        return json.loads(text) if text else {}


def _refusal(method: str, path: str, error: urllib.error.HTTPError) -> str:
    try:
        said = json.loads(error.read()).get("message", "")
    except (ValueError, OSError):
        said = "no reason given; it may be starting"
    return f"Kafka Connect answers {error.code} to {method} {path}: {said[:_MAX_REASON]}"


def snapshot_of(offsets: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the snapshot that `offsets` belong to (`INITIAL`, `BLOCKING`); None when it has finished."""
    return offsets[0]["offset"].get("snapshot") if offsets else FIRST_SNAPSHOT


def offset_lsn(offsets: Sequence[Mapping[str, Any]]) -> int:
    """Return the source's LSN in a connector's `offsets`; 0 when it has committed none."""
    found = (each["offset"].get(name) for each in offsets for name in ("lsn", "lsn_proc", "lsn_commit"))
    return max((int(lsn) for lsn in found if lsn is not None), default=0)


def cause(trace: str) -> str:
    """Return the last cause in a Java stack trace: the lines before it only wrap it."""
    lines = [line for line in trace.splitlines() if line and not line[0].isspace()]
    cause = lines[-1].removeprefix("Caused by: ") if lines else ""
    return _VALUE.sub(r'\1"…"', cause)[:_MAX_REASON]
