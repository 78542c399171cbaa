"""A server with scripted answers, and a client that must not lose an event."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clients.python.onramp_client import Onramp
from tests.fixtures.raw_server import Worst, serving

#: Waits of a test end by what they wait for; this is for a machine that hangs, and `make mutants`
#: waits less, for it waits in vain so often.
PATIENCE = 33.0 * float(os.environ.get("ONRAMP_TEST_PATIENCE", "3"))


class Settled:
    """The outcome of each event as the client reported it."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, dict[str, Any]]] = []

    def __call__(self, event_id: str, outcome: str, said: dict[str, Any]) -> None:
        self.said.append((event_id, outcome, said))

    @property
    def outcomes(self) -> dict[str, str]:
        return {event_id: outcome for event_id, outcome, _ in self.said}

    def of(self, event_id: str) -> dict[str, Any]:
        return next(said for each, _, said in self.said if each == event_id)


@pytest.fixture
def worst() -> Iterator[Worst]:
    with serving() as server:
        yield server


@pytest.fixture
def settled() -> Settled:
    return Settled()


def send(onramp: Onramp, *ids: str, **payload: Any) -> None:
    for event_id in ids:
        onramp.send("order_placed", payload, id=event_id)


def sent(worst: Worst, settled: Settled, *ids: str, **options: Any) -> Onramp:
    """Send these and wait until all are settled."""
    onramp = Onramp(worst.url, on_settled=settled, **options)
    try:
        send(onramp, *ids)
        assert onramp.flush(PATIENCE)
    finally:
        onramp.close(1.0)
    return onramp


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
