"""The gateway's flow: receive → decode → check → route → send.

Every way in (HTTP, syslog) comes through `accept`.  Each step is one call, and the step
is set before it runs, so whatever fails knows its place.  Every item leaves with exactly
one verdict: a receipt, or the error that refused it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, ParamSpec, TypeVar

from services.ingest.check.check import Checker
from services.ingest.decode.decode import Limits, decode
from services.ingest.request import BatchItem, RequestContext
from services.ingest.route import route
from services.ingest.sink import Sink
from shared.errors import OnrampError
from shared.steps import Step

P = ParamSpec("P")
T = TypeVar("T")

#: What is judged on the event loop takes it some 30 ms at most.
_HEAVY_BYTES: Final = 128 * 1024
_HEAVY_MARKS: Final = 5000
#: Few: each that computes makes the event loop wait for its turn.
_WORKERS: Final = ThreadPoolExecutor(2, thread_name_prefix="heavy-body")

Receive = Callable[[RequestContext], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Flow:
    """What the steps need; made once by `app.py`."""

    sink: Sink
    checker: Checker
    limits: Limits


async def accept(flow: Flow, arrival: RequestContext, receive: Receive) -> list[BatchItem]:
    """Take one request to Kafka.  Raises `OnrampError` when the request as a whole is refused."""
    arrival.step = Step.RECEIVE
    body = await receive(arrival)
    arrival.sender.quota.charge(0, len(body))  # what it takes to judge it is spent, whatever it is
    arrival.step = Step.DECODE
    heavy = is_heavy(body)
    judge = _elsewhere if heavy else _here
    items = await judge(decode, body, arrival, flow.limits)
    arrival.expect(len(items))
    arrival.sender.quota.charge(len(items), 0)
    arrival.step = Step.CHECK
    await judge(flow.checker.check, items, arrival)
    arrival.step = Step.ROUTE
    await judge(route, items, arrival)
    arrival.step = Step.SEND
    await send(flow.sink, items)
    return items


def is_heavy(body: bytes) -> bool:
    """Whether judging `body` might hold up the event loop: by its bytes, or by what they can be."""
    return len(body) > _HEAVY_BYTES or body.count(b",") + body.count(b"\n") > _HEAVY_MARKS


async def _here(step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return step(*args, **kwargs)


async def _elsewhere(step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return await asyncio.get_running_loop().run_in_executor(_WORKERS, partial(step, *args, **kwargs))


async def send(sink: Sink, items: list[BatchItem]) -> None:
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
