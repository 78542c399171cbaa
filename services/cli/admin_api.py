"""Client of the admin service: answers as documents, problems as sentences."""

import http.client
import json
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import orjson
import typer

from services.cli.exits import Exit, complain
from services.cli.options import DATA_DIR

#: The file of --key-file, which is an option of all verbs of `onramp errors`.
KEY_FILE: Final[ContextVar[Path | None]] = ContextVar("key_file", default=None)
_THIS_MACHINE: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_SECONDS: Final = 30.0
#: Timeout of file transfers: the service checks a whole file before it answers.
_FILE_SECONDS: Final = 600.0
_MAX: Final = 500
_OF_A_SERVER: Final = 500


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which would send the key to another server."""

    def redirect_request(self, *_: object) -> None:
        """Return None: follow no redirect."""


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


class AdminApi:
    """The service at `url`.  A refusal ends the verb with 1, an unreachable service with 3."""

    def __init__(self, url: str, key: str = "") -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    @classmethod
    def at(cls, url: str | None) -> Self:
        """Return the client for `url` with the operator's key; without `url` for `onramp up`.

        The key that `onramp up` created is sent only to its own service.
        """
        from stack.addresses import known
        from stack.dev_key import known_operator_key

        folder = Path(os.environ.get("ONRAMP_DATA_DIR") or DATA_DIR)
        own = known(folder).admin
        found = url or own
        made = known_operator_key(folder) if found == own else None
        return cls(found, operators_key(found) or made or "")

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """Return a document."""
        document: dict[str, Any] = json.loads(self.read(path, **query))
        return document

    def read(self, path: str, **query: object) -> bytes:
        """Return an answer's bytes."""
        given = urllib.parse.urlencode({name: value for name, value in query.items() if value is not None})
        return self._ask(f"{path}?{given}")

    def post(self, path: str, document: Mapping[str, Any], **headers: str) -> dict[str, Any]:
        """Send a document and return the answer's."""
        answer: dict[str, Any] = json.loads(self._ask(path, orjson.dumps(document), "POST", headers))
        return answer

    def change(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Read the state at a path, send a change with its ETag, and return the answer's document."""
        request = urllib.request.Request(f"{self._url}{path}", headers=self._headers)  # noqa: S310 - as given
        with self._answer(request, _SECONDS) as answer:
            state = {"If-Match": str(answer.headers["etag"])}
        changed: dict[str, Any] = json.loads(self._ask(path, orjson.dumps(document), "PATCH", state))
        return changed

    def send(self, path: str, document: Mapping[str, Any]) -> bytes:
        """Send a document and return the answer's bytes."""
        return self._ask(path, json.dumps(document).encode())

    def upload(self, path: str, file: BinaryIO, size: int, kind: str, **query: str) -> dict[str, Any]:
        """Send a file's `size` bytes in parts, and return the answer's document."""
        headers = self._headers | {"Content-Type": kind, "Content-Length": str(size)}
        url = f"{self._url}{path}?{urllib.parse.urlencode(query)}"
        with self._answer(urllib.request.Request(url, file, headers, method="POST"), _FILE_SECONDS) as answer:  # noqa: S310
            found: dict[str, Any] = json.loads(answer.read())
            return found

    def copy(self, path: str, document: Mapping[str, Any], file: BinaryIO) -> Mapping[str, str]:
        """Send a document, and write the answer's bytes into a file; return the answer's headers."""
        headers = self._headers | {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{self._url}{path}", orjson.dumps(document), headers)  # noqa: S310
        with self._answer(asked, _FILE_SECONDS) as answer:
            shutil.copyfileobj(answer, file)
            return {name.lower(): value for name, value in answer.headers.items()}

    def pages(
        self, listed: str, count: int, member: str | None = None, /, **filters: object
    ) -> Iterator[dict[str, Any]]:
        """Yield the first `count` entries of a list, page by page."""
        cursor = None
        while count > 0:
            page = self.get(f"/v1/{listed}", limit=min(count, _MAX), cursor=cursor, **filters)
            entries = page[member or listed]
            yield from entries
            count, cursor = count - len(entries), page["next"]
            if cursor is None:
                return

    def _ask(
        self,
        path: str,
        body: bytes | None = None,
        method: str | None = None,
        more: Mapping[str, str] | None = None,
    ) -> bytes:
        headers = self._headers | ({} if body is None else {"Content-Type": "application/json"})
        headers |= more or {}
        url = f"{self._url}{path}"
        request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310 - as given
        with self._answer(request, _SECONDS) as answer:
            found: bytes = answer.read()
            return found

    @contextmanager
    def _answer(self, request: urllib.request.Request, seconds: float) -> Iterator[Any]:
        try:
            with _OPENER.open(request, timeout=seconds) as answer:
                yield answer
                return
        except urllib.error.HTTPError as error:
            complain(_sentence(error))
            code = Exit.UNAVAILABLE if error.code >= _OF_A_SERVER else Exit.FAILED
        except (OSError, ValueError, http.client.HTTPException):
            complain(f"the admin service at {self._url} does not answer: start it with `onramp admin`")
            code = Exit.UNAVAILABLE
        raise typer.Exit(code)


def operators_key(url: str) -> str:
    """Return the key of --key-file or ONRAMP_ADMIN_KEY, never of an argument, which `ps` shows.

    Ends the verb if the key would be sent unencrypted over the network.
    """
    file = KEY_FILE.get()
    try:
        key = (
            Path(file).read_text("utf-8").strip() if file else os.environ.get("ONRAMP_ADMIN_KEY", "").strip()
        )
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(
            f"it cannot be read: {type(error).__name__}", param_hint="--key-file"
        ) from None
    where = urllib.parse.urlsplit(url)
    if key and where.scheme != "https" and where.hostname not in _THIS_MACHINE:
        complain(f"a key would be read on its way to {url}: give an address that begins with https://")
        raise typer.Exit(Exit.FAILED)
    return key


def _sentence(error: urllib.error.HTTPError) -> str:
    """Return a problem's title, detail and fix, or another answer's status."""
    try:
        problem = json.loads(error.read())
        wrong = "; ".join(f"{e['place']}: {e['detail']}" for e in problem.get("errors", ()))
        return f"{problem['title']} {wrong or problem['detail']}. {problem['fix']}"
    except (ValueError, KeyError, TypeError):
        return f"the answer has the status {error.code}: is {error.url} the admin service?"
