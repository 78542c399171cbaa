"""The asyncio client behaves like the other one, and never blocks its event loop."""

import asyncio
import threading

import pytest

from clients.python.onramp_client import AsyncOnramp
from tests.fixtures.raw_server import Asked, Bytes, Worst, page, problem, results
from tests.unit.clients.conftest import PATIENCE, Settled, until


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_events_are_delivered_through_what_goes_wrong(worst: Worst, settled: Settled) -> None:
    worst.first(page(502), Bytes(b"", cut=True), problem(503), page(200))
    async with AsyncOnramp(worst.url, on_settled=settled, backoff_seconds=0.01) as onramp:
        await asyncio.gather(*(onramp.send("x", {"n": n}, id=f"e{n}") for n in range(50)))
    assert settled.outcomes == {f"e{n}": "accepted" for n in range(50)}
    assert onramp.tally.accepted == 50


@pytest.mark.anyio
async def test_a_delivery_is_waited_for(worst: Worst) -> None:
    worst.script = lambda asked: results(asked, bad="422 bad_envelope")
    async with AsyncOnramp(worst.url, linger_seconds=0.0) as onramp:
        good = await asyncio.wait_for(onramp.deliver("x", {}, id="good"), PATIENCE)
        bad = await asyncio.wait_for(onramp.deliver("x", {}, id="bad"), PATIENCE)
    assert (good[0], good[1]["receipt"]["topic"]) == ("accepted", "events.x")
    assert (bad[0], bad[1]["type"]) == ("rejected", "/errors/bad_envelope")


@pytest.mark.anyio
async def test_the_loop_goes_on_while_there_is_no_room(worst: Worst) -> None:
    opened = threading.Event()

    def script(asked: Asked) -> Bytes:
        opened.wait(PATIENCE)
        return results(asked)

    worst.script = script
    async with AsyncOnramp(worst.url, queue_size=1, linger_seconds=0.0) as onramp:
        await onramp.send("x", {})
        second = asyncio.ensure_future(onramp.send("x", {}))
        third = asyncio.ensure_future(onramp.send("x", {}))
        await asyncio.to_thread(until, lambda: worst.asked)  # The loop turns: nobody holds it.
        assert not await onramp.flush(0.01)
        assert not second.done()
        opened.set()
        await asyncio.gather(second, third)
    assert onramp.tally.accepted == 3


@pytest.mark.anyio
async def test_callbacks_are_called_in_the_loop_and_may_raise(worst: Worst) -> None:
    threads = set()

    def settled(*_: object) -> None:
        threads.add(threading.get_ident())
        raise LookupError("no")

    async with AsyncOnramp(worst.url, on_settled=settled) as onramp:
        await onramp.send("x", {})
        await onramp.send("x", {})
    assert threads == {threading.get_ident()}
    assert onramp.tally.accepted == 2


@pytest.mark.anyio
async def test_event_sent_by_a_cancelled_task_is_delivered(worst: Worst, settled: Settled) -> None:
    async with AsyncOnramp(worst.url, on_settled=settled, linger_seconds=PATIENCE) as onramp:
        task = asyncio.ensure_future(onramp.deliver("x", {}, id="a"))
        await asyncio.to_thread(until, lambda: onramp.tally.sent)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert settled.outcomes == {"a": "accepted"}
