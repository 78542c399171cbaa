"""What a verb asks of the admin service: its answers as documents, its problems as sentences."""

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import typer

from services.cli.exits import Exit, complain
from services.cli.options import DATA_DIR

_SECONDS: Final = 30.0
_MOST: Final = 500
_OF_A_SERVER: Final = 500


class AdminApi:
    """The service at `url`.  What it refuses ends the verb with 1, and with 3 when it cannot be asked."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    @classmethod
    def at(cls, url: str | None) -> Self:
        """Return the service at `url`, without one that of `onramp up`."""
        from stack.addresses import known

        return cls(url or known(Path(os.environ.get("ONRAMP_DATA_DIR") or DATA_DIR)).admin)

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """Return a document."""
        document: dict[str, Any] = json.loads(self.read(path, **query))
        return document

    def read(self, path: str, **query: object) -> bytes:
        """Return an answer's bytes."""
        given = urllib.parse.urlencode({name: value for name, value in query.items() if value is not None})
        return self._ask(urllib.request.Request(f"{self._url}{path}?{given}"))  # noqa: S310 - as given

    def post(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Send a document and return the answer's."""
        request = urllib.request.Request(  # noqa: S310 - as given
            f"{self._url}{path}", json.dumps(document).encode(), {"Content-Type": "application/json"}
        )
        answer: dict[str, Any] = json.loads(self._ask(request))
        return answer

    def pages(self, listed: str, count: int, **filters: object) -> Iterator[dict[str, Any]]:
        """Yield the first `count` entries of a list, page by page."""
        cursor = None
        while count > 0:
            page = self.get(f"/v1/{listed}", limit=min(count, _MOST), cursor=cursor, **filters)
            yield from page[listed]
            count, cursor = count - len(page[listed]), page["next"]
            if cursor is None:
                return

    def _ask(self, request: urllib.request.Request) -> bytes:
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - as given
                body: bytes = answer.read()
                return body
        except urllib.error.HTTPError as error:
            complain(_sentence(error))
            code = Exit.UNAVAILABLE if error.code >= _OF_A_SERVER else Exit.FAILED
        except (OSError, ValueError):
            complain(f"the admin service at {self._url} does not answer: start it with `onramp admin`")
            code = Exit.UNAVAILABLE
        raise typer.Exit(code)


def _sentence(error: urllib.error.HTTPError) -> str:
    """Return a problem's words; of another answer its status."""
    try:
        problem = json.loads(error.read())
        wrong = "; ".join(f"{e['place']}: {e['detail']}" for e in problem.get("errors", ()))
        return f"{problem['title']} {wrong or problem['detail']}. {problem['fix']}"
    except (ValueError, KeyError, TypeError):
        return f"the admin service answers {error.code}: is it one?"
