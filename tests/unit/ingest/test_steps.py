"""The step of an error is the one that failed, and `accepted` is null only if the outcome is unknown."""

import asyncio
import pickle
from collections.abc import Sequence

import pytest

from services.ingest import accept as flow
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.send.kafka_producer import ProducerManager
from services.ingest.send.kafka_sink import KafkaSink
from services.ingest.send.late_requests import fail_late
from services.ingest.send.partition_queue import (
    BatchResult,
    InFlightBatch,
    PartitionQueue,
    RequestSlice,
)
from services.ingest.send.send_timer import SendTimer
from services.ingest.sink import MemorySink, Record, SendResult
from shared.errors import (
    BAD_JSON,
    EVENT_TOO_LARGE,
    KAFKA_UNAVAILABLE,
    KAFKA_UNREACHABLE,
    SHUTTING_DOWN,
    InfrastructureError,
    OnrampError,
    UserError,
)
from shared.path_steps import Step
from shared.settings import KafkaSettings
from tests.fixtures.ingest import body, envelope, one, record, until
from tests.unit.ingest.conftest import LocalGateway, MakeGateway

pytestmark = pytest.mark.anyio


def broken(*_: object) -> None:
    raise RuntimeError


@pytest.mark.parametrize("step", ["decode", "route"])
async def test_our_own_fault_before_send_is_surely_not_on_kafka(
    gateway: LocalGateway, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, step, broken)
    answer = await gateway.post(one())

    assert answer.status_code == 500
    assert (answer.json()["step"], answer.json()["accepted"]) == (step, False)


async def test_a_request_refused_as_a_whole_names_the_step_it_came_to(
    gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UserError(EVENT_TOO_LARGE, "which the table has at another step")

    monkeypatch.setattr(flow, "decode", refuse)

    assert (await gateway.post(one())).json()["step"] == "decode"


class OddSink(MemorySink):
    """Answers every record with the same."""

    def __init__(self, error: OnrampError | Exception) -> None:
        super().__init__()
        self.error = error

    async def send(self, records: Sequence[Record]) -> list[SendResult]:
        if isinstance(self.error, OnrampError):
            return [self.error for _ in records]
        raise self.error


@pytest.mark.parametrize(
    ("error", "accepted"),
    [
        (RuntimeError(), None),
        (InfrastructureError(SHUTTING_DOWN, "stopped"), False),
        (UserError(EVENT_TOO_LARGE, "too large"), False),
        (InfrastructureError(KAFKA_UNAVAILABLE, "late"), None),
        (InfrastructureError(KAFKA_UNAVAILABLE, "refused").surely(accepted=False), False),
    ],
)
@pytest.mark.parametrize("content", [one("a"), body([envelope("a")])])
async def test_send_failure_reports_step_send_and_whether_the_event_is_accepted(
    gateway: LocalGateway, error: Exception, accepted: bool | None, content: bytes
) -> None:
    object.__setattr__(gateway.app.flow, "sink", OddSink(error))
    answer = await gateway.post(content)

    assert (answer.json()["step"], answer.json()["accepted"]) == ("send", accepted)
    for result in answer.json().get("results", []):
        assert (result["error"]["step"], result["error"]["accepted"]) == ("send", accepted)


async def test_a_fault_that_can_happen_at_two_steps_names_the_one(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(max_event_bytes=300)
    answer = await gateway.post(body([envelope() | {"payload": {"a": "x" * 400}}, {}]))

    assert [each["error"]["step"] for each in answer.json()["results"]] == ["check", "check"]
    assert answer.json()["step"] == "check"
    assert (await gateway.post(b'{"a":' + b"[" * 70 + b"]" * 70 + b"}")).json()["step"] == "check"


async def test_a_large_event_behind_small_ones_is_refused_alone(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(max_event_bytes=300)  # a small one first: then all are parsed at once
    large = envelope() | {"payload": {"a": "x" * 400}}
    answer = await gateway.post(body([envelope(), large]))

    small, refused = answer.json()["results"]
    assert "receipt" in small
    assert refused["error"]["type"] == "/errors/event_too_large"


async def test_batch_refused_at_decode_reports_step_decode(gateway: LocalGateway) -> None:
    answer = await gateway.post(b"[NaN, 1e999]")

    assert answer.json()["type"] == "/errors/none_accepted"
    assert answer.json()["step"] == "decode"


async def waiting_slices(*, is_sent: bool) -> list[RequestSlice]:
    batch = InFlightBatch(1000)
    batch.is_sent = is_sent
    new_future = asyncio.get_running_loop().create_future
    batch.slices += [RequestSlice(batch, 0, [0], new_future()) for _ in range(2)]
    return batch.slices


@pytest.mark.parametrize("is_sent", [False, True])
async def test_batch_that_times_out_is_not_accepted_if_unsent_and_unknown_if_sent(
    is_sent: bool,
) -> None:
    slices = await waiting_slices(is_sent=is_sent)
    fail_late(slices, 10)

    assert [accepted(slice_.future.result()) for slice_ in slices] == [None if is_sent else False] * 2
    assert slices[0].batch.abandoned  # and so it never leaves


async def test_a_batch_that_others_wait_for_may_take_the_late_ones_along() -> None:
    late, other = await waiting_slices(is_sent=False)
    fail_late({late}, 10)

    assert accepted(late.future.result()) is None
    assert not other.future.done()
    fail_late({other}, 10)
    assert accepted(other.future.result()) is False


def queue_that_never_sends() -> PartitionQueue:
    producers = ProducerManager(broken, 15)
    queue = PartitionQueue(
        "events.a",
        0,
        timer=SendTimer(producers, 3600),
        producers=producers,
        budget=ByteBudget(2**20),
        on_stale_metadata=broken,
        codec=0,
    )
    queue.batch_bytes = 1000
    return queue


async def test_record_does_not_join_a_batch_that_waited_between_two_seals() -> None:
    queue = queue_that_never_sends()
    queue.seal()
    (first,) = queue.put([record("events.a", "1")], [0])
    queue.seal()
    (soon,) = queue.put([record("events.a", "2")], [0])
    queue.seal()
    (later,) = queue.put([record("events.a", "3")], [0])

    assert soon.batch is first.batch
    assert later.batch is not first.batch
    fail_late({first, soon}, 10)  # their deadlines are near each other, and the later one's is not
    assert [accepted(slice_.future.result()) for slice_ in (first, soon)] == [False] * 2


async def test_a_batch_behind_a_slow_broker_goes_on_growing(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = KafkaSink(
        KafkaSettings(bootstrap="127.0.0.1:1"),
        ByteBudget(2**20),
        deadline_seconds=1,
        stuck_producer_seconds=15,
    )
    queue = sink._queues["events.a", 0] = queue_that_never_sends()
    looks: list[float] = []
    monkeypatch.setattr(sink, "_expire", looks.append)
    (first,) = queue.put([record("events.a", "1")], [0])
    sweeper = asyncio.create_task(sink._sweep())
    await until(lambda: len(looks) > 2)
    (later,) = queue.put([record("events.a", "2")], [0])
    sweeper.cancel()

    assert later.batch is first.batch


async def test_abandoned_batch_takes_no_later_event_and_is_never_sent() -> None:
    queue = queue_that_never_sends()
    (late,) = queue.put([record("events.a", "1")], [0])
    (beside,) = queue.put([record("events.a", "2")], [0])
    assert beside.batch is late.batch
    fail_late({late, beside}, 10)
    (other,) = queue.put([record("events.a", "3")], [0])

    assert accepted(late.future.result()) is False
    assert other.batch is not late.batch
    assert late.batch.abandoned


def accepted(result: BatchResult) -> bool | None:
    assert isinstance(result, OnrampError)
    return result.accepted


async def test_unexpected_error_while_preparing_a_topic_is_reported_as_not_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = KafkaSink(
        KafkaSettings(bootstrap="127.0.0.1:1"),
        ByteBudget(2**20),
        deadline_seconds=1,
        stuck_producer_seconds=15,
    )
    monkeypatch.setattr(sink._topics, "ensure", broken)
    (outcome,) = await sink.send([record("events.a", "1")])

    assert isinstance(outcome, OnrampError)
    assert outcome.accepted is False


def test_explicit_step_and_accepted_flag_of_an_error_survive_a_pickle() -> None:
    error = UserError(BAD_JSON, "what", "/a").at(Step.SORT).surely(accepted=False)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301

    assert (again.step, again.accepted, again.pointer) == (Step.SORT, False, "/a")
    assert InfrastructureError(KAFKA_UNREACHABLE, "").step is Step.SEND
