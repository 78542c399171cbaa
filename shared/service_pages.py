"""Reads a service's /figures over HTTP."""

import http.client
import urllib.error
import urllib.request
from typing import Final, TypeVar

import msgspec

from shared.figures import GatewayFigures, WriterFigures

_TIMEOUT_SECONDS: Final = 5.0
Figures = TypeVar("Figures", GatewayFigures, WriterFigures)


class PageError(Exception):
    """A page of a service cannot be read: the problem as a sentence, and what an operator can do."""

    def __init__(self, problem: str, *, fix: str) -> None:
        super().__init__(f"{problem} {fix}")
        self.problem = problem
        self.fix = fix


def read_figures(url: str, kind: type[Figures]) -> Figures:
    """Read the /figures of the service at `url`.

    Raises:
        PageError: it does not answer, or not with figures.
    """
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/figures", timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
            return msgspec.json.decode(answer.read(), type=kind)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise PageError(
            f"{url}/figures cannot be read: {_why(error)}.",
            fix="Is it up, and is this its address? It may have a port of its own for operators.",
        ) from error


def _why(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"it answers {error.code}"
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return type(reason).__name__ if isinstance(reason, Exception) else str(reason)
