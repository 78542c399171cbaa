"""The gateway's flow: receive → decode → check → route → send.

Every entrance (HTTP, syslog) calls `accept`.  Each step is one call, and `request.step` is set
before it runs, so an error knows where it happened.  Every item ends with exactly one verdict:
a receipt, or the error that rejected it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from services.ingest.check.check import Checker
from services.ingest.decode.decode import Limits, decode
from services.ingest.request import BatchItem, RequestContext
from services.ingest.route import route
from services.ingest.sink import Sink
from services.ingest.turns import Turns, check_turns
from shared.errors import OnrampError
from shared.path_steps import Step

Receive = Callable[[RequestContext], Awaitable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The dependencies of the steps; constructed once by `app.py`."""

    sink: Sink
    checker: Checker
    limits: Limits
    turns: Turns = field(default_factory=Turns)
    check_turns: Turns = field(default_factory=check_turns)


async def accept(flow: Flow, request: RequestContext, receive: Receive) -> list[BatchItem]:
    """Take one request to Kafka; return its items, each with its verdict.

    Raises:
        OnrampError: the request as a whole is rejected.
    """
    request.step = Step.RECEIVE
    body = await receive(request)
    request.sender.quota.charge(0, len(body))  # reading costs the same, accepted or not
    request.step = Step.DECODE
    async with flow.turns.of(body, request) as run:
        items = await run(decode, body, request, flow.limits)
        del body  # the items have its bytes: both would stay in memory while Kafka is slow
        request.reserve_answer(len(items))
        request.sender.quota.charge(len(items), 0)
        request.step = Step.CHECK
        checks = await run(flow.checker.check, items, request)
        while checks.has_parts:
            async with flow.check_turns.turn(request) as run_alone:
                await run_alone(checks.run_parts)
        request.step = Step.ROUTE
        await run(route, items, request)
    request.step = Step.SEND
    await send(flow.sink, items)
    return items


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
