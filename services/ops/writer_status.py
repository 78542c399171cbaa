"""The running writer's status: its /readyz, and the waiting events of its /figures."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from shared.figures import WriterFigures
from shared.service_pages import PageError, read_figures

_TIMEOUT_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class WriterStatus:
    """The status of a writer at one time."""

    #: The writer's /readyz.
    document: Mapping[str, Any]
    #: By database: the number of events that wait on Kafka, and the age of the oldest in seconds.
    on_kafka: Mapping[str, int]
    oldest: Mapping[str, float]

    @classmethod
    def of(cls, url: str) -> Self:
        """Query the writer at `url`.

        Raises:
            PageError: it does not answer.
        """
        databases = read_figures(url, WriterFigures).databases
        return cls(
            _readyz(url),
            {name: each.waiting_kafka for name, each in databases.items()},
            {name: each.oldest_kafka_seconds for name, each in databases.items()},
        )


def _readyz(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/readyz", timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
            body = answer.read()
    except urllib.error.HTTPError as error:  # it is not ready, and says why
        body = error.read()
    except (OSError, http.client.HTTPException) as error:
        raise PageError(f"{url}/readyz cannot be read: {type(error).__name__}.", fix="Is it up?") from error
    try:
        document: dict[str, Any] = json.loads(body)
    except ValueError as error:
        raise PageError(f"{url}/readyz is no writer's.", fix="Is this its address?") from error
    return document
