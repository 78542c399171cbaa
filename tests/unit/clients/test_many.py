"""Many events in one call: the same bounds and verdicts; a full queue reports how many were queued."""

import asyncio
import resource
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clients.python.onramp_client import AsyncOnramp, NewEvent, Onramp, QueueFullError
from tests.fixtures.raw_server import Asked, Bytes, Worst, page, problem, results
from tests.unit.clients.conftest import PATIENCE, Settled, until

CLIENT = Path(__file__).resolve().parents[3] / "clients" / "python"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def many(count: int, **payload: object) -> list[NewEvent]:
    return [
        {"event_name": "order_placed", "payload": {"n": n, **payload}, "id": f"e{n}"} for n in range(count)
    ]


def sent_ids(worst: Worst) -> list[str]:
    return [each for ids in worst.ids for each in ids]


def test_they_go_in_their_order_in_full_batches(worst: Worst, settled: Settled) -> None:
    worst.script = lambda asked: results(asked, e7="422 bad_envelope")
    with Onramp(worst.url, batch=100, connections=1, linger_seconds=PATIENCE, on_settled=settled) as onramp:
        assert onramp.send_many(many(250)) == [f"e{n}" for n in range(250)]
    assert [len(ids) for ids in worst.ids] == [100, 100, 50]
    assert sent_ids(worst) == [f"e{n}" for n in range(250)]
    assert settled.of("e7")["type"] == "/errors/bad_envelope"
    assert (onramp.tally.sent, onramp.tally.accepted, onramp.tally.rejected) == (250, 249, 1)


def test_each_is_what_send_would_make_of_it(worst: Worst) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    with Onramp(worst.url, version="3", connections=1) as onramp:
        onramp.send("a", {"é": 1}, id="one", timestamp=moment)
        onramp.send("b", {}, id="two", timestamp=moment, version="4")
        onramp.send_many(
            [
                {"event_name": "a", "payload": {"é": 1}, "id": "one", "timestamp": moment},
                {"event_name": "b", "payload": {}, "id": "two", "timestamp": moment, "version": "4"},
            ]
        )
        (made_up,) = onramp.send_many([{"event_name": "a", "payload": {}}])
    lines = [line for asked in worst.asked for line in asked.lines]
    assert lines[:2] == lines[2:4]
    assert sent_ids(worst)[4] == made_up


@pytest.mark.parametrize(
    "wrong", [{"payload": {"a": float("nan")}}, {"payload": {"a": object()}}, {"payload": {}, "bogus": 1}, {}]
)
def test_invalid_event_rejects_the_whole_call(worst: Worst, wrong: NewEvent) -> None:
    with Onramp(worst.url) as onramp, pytest.raises((ValueError, TypeError)):
        onramp.send_many([*many(3), {"event_name": "x", **wrong}])
    assert onramp.tally.sent == 0
    assert not worst.asked


@pytest.mark.parametrize("bounds", [{"queue_size": 10}, {"queue_bytes": 2_000}, {"spool_bytes": 2_000}])
def test_a_full_queue_says_which_were_taken(
    worst: Worst, settled: Settled, tmp_path: Path, bounds: dict[str, int]
) -> None:
    worst.script = lambda _: problem(503)
    spool = tmp_path if "spool_bytes" in bounds else None
    onramp = Onramp(worst.url, on_settled=settled, spool=spool, **bounds)  # type: ignore[arg-type]
    with pytest.raises(QueueFullError) as full:
        onramp.send_many(many(40, text="x" * 80))
    assert full.value.taken == [f"e{n}" for n in range(onramp.tally.sent)]
    assert 5 < onramp.tally.sent <= 10
    with pytest.raises(QueueFullError) as again:
        onramp.send_many(many(40, text="x" * 80)[len(full.value.taken) :])
    assert again.value.taken == []
    onramp.close(0.1)
    assert sorted(settled.outcomes) == sorted(full.value.taken)


def test_room_is_waited_for_by_each(worst: Worst) -> None:
    with Onramp(worst.url, queue_size=7, linger_seconds=0.0, connections=1) as onramp:
        onramp.send_many(many(100), block_seconds=PATIENCE)
    assert sent_ids(worst) == [f"e{n}" for n in range(100)]


def test_a_disk_that_is_full_says_which_were_taken(tmp_path: Path) -> None:
    program = (
        "from onramp_client import Onramp, QueueFullError\n"
        f"onramp = Onramp('http://127.0.0.1:1', spool={str(tmp_path)!r})\n"
        "events = [dict(event_name='x', payload={'text': 'x' * 1000}, id=f'e{n}') for n in range(20)]\n"
        "try: onramp.send_many(events)\n"
        "except QueueFullError as full: taken = full.taken\n"
        "assert taken == [f'e{n}' for n in range(len(taken))] and len(taken) == onramp.tally.sent\n"
        "try: onramp.send_many(events[len(taken):])\n"
        "except OSError: print(len(taken))\n"
        "onramp.close(0.0)\n"
    )

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=CLIENT,
        check=True,
        timeout=200,
        stdout=subprocess.PIPE,
        preexec_fn=limited,
    )
    assert 5 < int(done.stdout) < 10


def test_a_closed_client_takes_none(worst: Worst) -> None:
    onramp = Onramp(worst.url)
    onramp.close()
    with pytest.raises(ValueError, match="closed"):
        onramp.send_many(many(2))


@pytest.mark.anyio
async def test_async_calls_wait_for_room_in_the_queue_and_are_sent_in_call_order(
    worst: Worst, settled: Settled
) -> None:
    opened = threading.Event()

    def script(asked: Asked) -> Bytes:
        opened.wait(PATIENCE)
        return results(asked)

    worst.script = script
    async with AsyncOnramp(
        worst.url, queue_size=30, linger_seconds=0.0, connections=1, on_settled=settled
    ) as onramp:
        first = asyncio.ensure_future(onramp.send_many(many(250)))
        await asyncio.to_thread(until, lambda: worst.asked)  # The loop turns: nobody holds it.
        second = asyncio.ensure_future(onramp.send("order_placed", {}, id="last"))
        assert not first.done()
        opened.set()
        assert await asyncio.wait_for(first, PATIENCE) == [f"e{n}" for n in range(250)]
        assert await asyncio.wait_for(second, PATIENCE) == "last"
    assert sent_ids(worst) == [*(f"e{n}" for n in range(250)), "last"]
    assert set(settled.outcomes.values()) == {"accepted"}


@pytest.mark.anyio
async def test_in_a_loop_none_is_taken_when_one_is_no_event(worst: Worst) -> None:
    async with AsyncOnramp(worst.url) as onramp:
        with pytest.raises(ValueError, match="not JSON compliant"):
            await onramp.send_many([*many(300), {"event_name": "x", "payload": {"a": float("inf")}}])
        worst.first(page(502))
        await onramp.send_many(many(2))
    assert onramp.tally.accepted == onramp.tally.sent == 2


@pytest.mark.anyio
async def test_a_loop_has_its_turn_while_many_are_made(worst: Worst) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with AsyncOnramp(worst.url) as onramp:
        turning = asyncio.ensure_future(turn())
        await asyncio.sleep(0)
        before = turns
        await onramp.send_many(many(1_000))
        assert turns - before >= 20
        turning.cancel()
    assert onramp.tally.accepted == 1_000
