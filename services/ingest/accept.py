"""The gateway's flow: receive → decode → check → route → send.

Every entrance (HTTP, syslog) calls `accept`.  Each step is one call, and `request.step` is set
before it runs, so an error knows where it happened.  Every item ends with exactly one verdict:
a receipt, or the error that rejected it.
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

#: A body within both limits takes at most some 30 ms of the event loop.
_HEAVY_BYTES: Final = 128 * 1024
_HEAVY_SEPARATORS: Final = 5000
#: Few: each thread that computes makes the event loop wait for the interpreter.
_THREADS: Final = ThreadPoolExecutor(2, thread_name_prefix="heavy-body")

Receive = Callable[[RequestContext], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Flow:
    """What the steps need; constructed once by `app.py`."""

    sink: Sink
    checker: Checker
    limits: Limits


async def accept(flow: Flow, request: RequestContext, receive: Receive) -> list[BatchItem]:
    """Take one request to Kafka; return its items, each with its verdict.

    Raises:
        OnrampError: the request as a whole is rejected.
    """
    request.step = Step.RECEIVE
    body = await receive(request)
    request.sender.quota.charge(0, len(body))  # reading it costs the same, whatever comes of it
    request.step = Step.DECODE
    heavy = is_heavy(body)
    run = _in_thread if heavy else _on_loop
    items = await run(decode, body, request, flow.limits)
    request.reserve_answer(len(items))
    request.sender.quota.charge(len(items), 0)
    request.step = Step.CHECK
    await run(flow.checker.check, items, request)
    request.step = Step.ROUTE
    await run(route, items, request)
    request.step = Step.SEND
    await send(flow.sink, items)
    return items


def is_heavy(body: bytes) -> bool:
    """Return whether `body` might hold up the event loop: by its size, or by how many values it can have."""
    return len(body) > _HEAVY_BYTES or body.count(b",") + body.count(b"\n") > _HEAVY_SEPARATORS


async def _on_loop(step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return step(*args, **kwargs)


async def _in_thread(step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, partial(step, *args, **kwargs))


async def send(sink: Sink, items: list[BatchItem]) -> None:
    """Send the items that have a record, and set each one's verdict to its outcome."""
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
