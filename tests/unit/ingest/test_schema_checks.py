"""Costly schemas: the event loop runs between two events, and one request has a limit of time."""

import asyncio
from itertools import count
from typing import Any

import pytest

from services.ingest.check import schema_checks
from shared.contracts import type_schemas
from shared.contracts.json_schema import CompiledSchema
from tests.fixtures.ingest import body, envelope, one
from tests.unit.ingest.conftest import LocalGateway, MakeGateway

pytestmark = pytest.mark.anyio

LINKS = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(10)}
#: 8,000 evaluations of each item: one event of 400 bytes is as much as a part.
COSTLY = {
    "properties": {"x": {"items": {"$ref": "#/$defs/a0"}}},
    "$defs": LINKS | {"a10": {"type": "integer"}},
}
#: One event may be as much as a part: it may have numbers that take long to compare.
PRICED = {"properties": {"price": {"multipleOf": 0.25, "minimum": 0.5}}}
REGISTRY = {
    "event_types": {
        "costly": {"schema": COSTLY},
        "priced": {"schema": PRICED},
        "usual": {"schema": {"required": ["x"]}},
    }
}
EVENTS = 6


def event(number: int, value: Any = 1) -> dict[str, Any]:
    return envelope(f"c-{number}", "costly", x=[value] * 200)


def cloudevent(number: int) -> dict[str, Any]:
    data = {"x": [1] * 200}
    return {"specversion": "1.0", "id": f"c-{number}", "source": "s", "type": "costly", "data": data}


class Calls:
    """The validator's calls, with the turns that the event loop had before each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns = 0
        self.before: list[int] = []
        is_valid = CompiledSchema.is_valid

        def counted(schema: CompiledSchema, payload: Any) -> bool:
            self.before.append(self.turns)
            return is_valid(schema, payload)

        monkeypatch.setattr(CompiledSchema, "is_valid", counted)

    async def beat(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def set_part_seconds(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let each part take this time of the processor."""
    readings = count(step=seconds)
    monkeypatch.setattr(schema_checks.time, "thread_time", lambda: next(readings))


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    set_part_seconds(monkeypatch, 0.01)


@pytest.fixture
def long_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    set_part_seconds(monkeypatch, 0.9)


@pytest.fixture
def gateway(make_gateway: MakeGateway) -> LocalGateway:
    return make_gateway(REGISTRY)


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize(
    ("kind", "batch"),
    [
        ("application/json", body([event(n) for n in range(EVENTS)])),
        ("application/cloudevents-batch+json", body([cloudevent(n) for n in range(EVENTS)])),
        # A heavy body, whose steps run in a thread.
        ("application/json", body([event(n) for n in range(EVENTS)]) + b" " * 130_000),
    ],
    ids=["envelopes", "CloudEvents", "heavy"],
)
async def test_the_loop_has_turns_between_costly_events_of_a_batch(
    gateway: LocalGateway, calls: Calls, kind: str, batch: bytes
) -> None:
    beats = asyncio.create_task(calls.beat())
    answer = await gateway.post(batch, content_type=kind)
    beats.cancel()

    assert answer.status_code == 202
    assert len(calls.before) == EVENTS
    assert sorted(set(calls.before)) == calls.before


@pytest.mark.usefixtures("short_parts")
async def test_a_request_waits_for_a_part_of_another_and_not_for_all(
    gateway: LocalGateway, calls: Calls
) -> None:
    batch = body([event(n) for n in range(EVENTS)])
    batches = [asyncio.create_task(gateway.post(batch)) for _ in range(2)]
    while len(calls.before) < 2:  # noqa: ASYNC110 - a few ms, which a pause would exceed
        await asyncio.sleep(0)
    answer = await gateway.post(one(name="costly", x=[1] * 200))

    assert answer.status_code == 202
    assert not any(each.done() for each in batches)
    assert {each.status_code for each in await asyncio.gather(*batches)} == {202}


async def test_cheap_events_are_checked_on_the_loop_at_once(gateway: LocalGateway, calls: Calls) -> None:
    answer = await gateway.post(body([envelope(f"u-{n}", "usual", x=n) for n in range(50)]))
    assert answer.status_code == 202
    assert len(calls.before) == 50
    assert set(calls.before) == {0}


async def test_parts_that_take_no_time_share_a_turn(
    gateway: LocalGateway, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_part_seconds(monkeypatch, 0)
    beats = asyncio.create_task(calls.beat())
    answer = await gateway.post(body([envelope(f"p-{n}", "priced", price=0.5) for n in range(50)]))
    beats.cancel()

    assert answer.status_code == 202
    assert len(calls.before) == 50
    assert len(set(calls.before)) <= 2  # those that are checked at once, and one turn


async def test_an_invalid_event_of_a_part_is_rejected_alone(gateway: LocalGateway) -> None:
    batch = [event(0), event(1, "no integer"), event(2), envelope("u", "usual"), event(3)]
    answer = await gateway.post(body(batch))
    results = answer.json()["results"]
    assert [each["status"] for each in results] == [202, 422, 202, 422, 202]
    assert results[1]["error"]["errors"][0]["pointer"] == "/payload/x/0"
    assert gateway.produced == 3


@pytest.mark.usefixtures("long_parts")
async def test_a_batch_beyond_its_time_is_accepted_in_part_and_its_rest_when_sent_again(
    gateway: LocalGateway, calls: Calls
) -> None:
    left = [event(n) for n in range(EVENTS)]
    rounds = []
    while left:
        answer = await gateway.post(body(left))
        results = answer.json()["results"]
        refused = [each for each in results if each["status"] == 429]
        assert {each["error"]["type"] for each in refused} <= {"/errors/batch_too_costly"}
        assert all(
            each["error"]["accepted"] is False and "smaller" in each["error"]["fix"] for each in refused
        )
        left = [one for one, result in zip(left, results, strict=True) if result["status"] == 429]
        rounds.append(len(results) - len(left))

    assert sum(rounds) == EVENTS
    assert len(rounds) == 2  # three parts of 0.9 s in each
    assert len(calls.before) == EVENTS  # a refused event was not checked


@pytest.mark.usefixtures("long_parts")
async def test_a_batch_of_which_nothing_is_accepted_asks_for_a_retry(gateway: LocalGateway) -> None:
    answer = await gateway.post(body([event(n, "no integer") for n in range(EVENTS)]))
    assert answer.status_code == 429
    assert answer.headers["retry-after"]
    assert [each["status"] for each in answer.json()["results"]] == [422] * 3 + [429] * 3


@pytest.mark.parametrize(("seconds", "listed"), [(0.1, 3), (0.4, 2), (0.6, 1)])
async def test_faults_of_a_batch_are_listed_for_a_limited_time(
    gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch, seconds: float, listed: int
) -> None:
    readings = count(step=seconds)
    monkeypatch.setattr(type_schemas, "thread_time", lambda: next(readings))
    answer = await gateway.post(body([envelope(f"u-{n}", "usual", y=n) for n in range(3)]))
    details = [each["error"]["detail"] for each in answer.json()["results"]]
    expected = ["the field x is missing"] * listed + ["other events of the batch say more"] * (3 - listed)
    assert details == expected
