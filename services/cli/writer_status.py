"""The running writer's status: its /readyz, and the waiting events of its /metrics."""

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Final, Self

from services.cli import metric_pages
from stack.errors import UnavailableError

_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class WriterStatus:
    """The status of a writer at one time."""

    document: dict[str, Any]
    #: By database: how many events wait on Kafka, and for how long the oldest has (seconds).
    on_kafka: dict[str, float]
    oldest: dict[str, float]

    @classmethod
    def of(cls, url: str) -> Self:
        """Query the writer at `url`.

        Raises:
            UnavailableError: it does not answer.
        """
        look = metric_pages.read(url)
        return cls(
            _readyz(url),
            look.sums("onramp_writer_waiting_events", "database", where="kafka"),
            look.most("onramp_writer_oldest_waiting_seconds", "database", where="kafka"),
        )


def _readyz(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/readyz", timeout=_SECONDS) as answer:  # noqa: S310
            body = answer.read()
    except urllib.error.HTTPError as error:  # it is not ready, and says why
        body = error.read()
    except (OSError, http.client.HTTPException) as error:
        raise UnavailableError(
            f"{url}/readyz cannot be read: {type(error).__name__}.", fix="Is it up?"
        ) from error
    try:
        document: dict[str, Any] = json.loads(body)
    except ValueError as error:
        raise UnavailableError(f"{url}/readyz is no writer's.", fix="Is this its address?") from error
    return document
