"""The gateway's flow: receive → decode → check → route → send.

Every way in (HTTP, syslog) comes through `accept`.  Each step is one call, and the step
is set before it runs, so whatever fails knows its place.  Every item leaves with exactly
one verdict: a receipt, or the error that refused it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from services.ingest.check import Checker
from services.ingest.decode import decode
from services.ingest.items import Arrival, Item
from services.ingest.route import route
from services.ingest.sink import Sink
from shared.errors import OnrampError
from shared.steps import Step

Receive = Callable[[Arrival], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Flow:
    """What the steps need; made once by `app.py`."""

    sink: Sink
    checker: Checker
    max_batch: int


async def accept(flow: Flow, arrival: Arrival, receive: Receive) -> list[Item]:
    """Take one request to Kafka.  Raises `OnrampError` when the request as a whole is refused."""
    arrival.step = Step.RECEIVE
    body = await receive(arrival)
    arrival.step = Step.DECODE
    items = decode(body, arrival, flow.max_batch)
    arrival.sender.quota.charge(len(items), len(body))
    arrival.step = Step.CHECK
    flow.checker.check(items, arrival)
    arrival.step = Step.ROUTE
    route(items, arrival)
    arrival.step = Step.SEND
    await send(flow.sink, items)
    return items


async def send(sink: Sink, items: list[Item]) -> None:
    """Send what was routed and stamp each item with its one outcome."""
    routed = [item for item in items if item.record is not None]
    if routed:
        outcomes = await sink.send([item.record for item in routed if item.record is not None])
        for item, outcome in zip(routed, outcomes, strict=True):
            item.verdict = outcome
            if isinstance(outcome, OnrampError):
                outcome.at(Step.SEND)
    undecided = sum(item.verdict is None for item in items)
    if undecided:
        raise AssertionError(f"{undecided} of {len(items)} items have no verdict")
