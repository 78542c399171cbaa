"""The answers to good and bad requests, item by item."""

import asyncio
from collections.abc import Sequence

import jsonschema_rs
import orjson
import pytest

from services.ingest.request import RequestContext
from services.ingest.sink import MemorySink, Record, SendResult
from shared import wire
from shared.errors import TABLE
from shared.partitioner import partition_of
from tests.fixtures.ingest import body, envelope, one
from tests.unit.ingest.conftest import LocalGateway, MakeGateway

pytestmark = pytest.mark.anyio


async def test_single_envelope_is_answered_with_its_receipt(gateway: LocalGateway) -> None:
    answer = await gateway.post(one("order-1"))

    assert answer.status_code == 202
    assert answer.json()["accepted"] is True
    assert answer.json()["id"] == "order-1"
    partition = partition_of(b"order-1", 2)
    assert answer.json()["receipt"] == {"topic": "events.order_placed", "partition": partition, "offset": 0}


async def test_the_record_is_the_producers_own_bytes(gateway: LocalGateway) -> None:
    value = b' { "event_name" : "order_placed","payload":{"b":1.10,"a":"\\u00e9"},\n'
    value += b'"metadata":{"version":"1","id":"x","timestamp":"2026-11-21T08:00:00+01:00","trace":[1]}} '
    answer = await gateway.post(value)

    assert answer.status_code == 202
    (record,) = gateway.sink.records("events.order_placed")
    assert record.value == value.strip()
    assert record.key == b"x"


async def test_record_of_a_batch_item_is_the_exact_slice_of_the_body(gateway: LocalGateway) -> None:
    slices = [one(f"order-{n}", amount=n).replace(b",", b" ,\n") for n in range(3)]
    answer = await gateway.post(b"[" + b" , ".join(slices) + b"]")

    assert answer.status_code == 202
    assert sorted(r.value for r in gateway.sink.records("events.order_placed")) == sorted(slices)
    assert [each["id"] for each in answer.json()["results"]] == ["order-0", "order-1", "order-2"]


async def test_headers_say_whose_and_when(gateway: LocalGateway) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await gateway.post(one(), traceparent=trace)

    (record,) = gateway.sink.records("events.order_placed")
    headers = dict(record.headers)
    assert headers[wire.HEADER_CONTEXT] == wire.CONTEXT_BYTES
    assert headers[wire.HEADER_RECEIVED_AT].endswith(b"+00:00")
    assert headers[wire.HEADER_TRACEPARENT] == trace.encode()
    assert wire.HEADER_PRODUCER in headers


async def test_a_broken_traceparent_is_left_out(gateway: LocalGateway) -> None:
    await gateway.post(one(), traceparent="nonsense")

    (record,) = gateway.sink.records("events.order_placed")
    assert wire.HEADER_TRACEPARENT not in dict(record.headers)


async def test_a_bad_item_never_rejects_its_neighbours(gateway: LocalGateway) -> None:
    bad = envelope("order-2")
    del bad["payload"]
    answer = await gateway.post(body([envelope("order-1"), bad, envelope("order-3")]))

    assert answer.status_code == 207
    assert [each["status"] for each in answer.json()["results"]] == [202, 422, 202]
    assert answer.json()["results"][1]["error"]["accepted"] is False
    assert gateway.produced == 2


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (b'{"metadata":1,"metadata":2}', "duplicate_key"),
        (b'{"a":12345678901234567890123}', "big_integer"),
        (b'{"a":"\\ud800"}', "bad_json"),
        (b'{"a":"\xff"}', "bad_json"),
        (b'{"a":NaN}', "bad_json"),
        (b'{"a":1e400}', "bad_json"),
        (b'{"a":' + b"9" * 5000 + b"}", "bad_json"),
        (b"[" * 100_000 + b"]" * 100_000, "too_deep"),
        (b'{"a":' * 1100 + b"1" + b"}" * 1100, "too_deep"),
        (b"17", "bad_envelope"),
    ],
)
async def test_an_item_that_is_no_strict_json_harms_only_itself(
    gateway: LocalGateway, item: bytes, code: str
) -> None:
    answer = await gateway.post(b"[" + one("order-1") + b"," + item + b"," + one("order-2") + b"]")

    assert answer.status_code == 207
    assert [each["status"] == 202 for each in answer.json()["results"]] == [True, False, True]
    assert answer.json()["results"][1]["error"]["type"] == f"/errors/{code}"
    assert gateway.produced == 2


@pytest.mark.parametrize(
    "text", [b"[%s,]", b"[%s]]", b"[%s} ", b"[%s, nonsense]", b'[%s,"', b"[%s]{}", b"[%s", b"[%s,{]}"]
)
async def test_a_document_that_is_no_json_is_refused_as_a_whole(gateway: LocalGateway, text: bytes) -> None:
    answer = await gateway.post(text % one())

    assert answer.status_code == 400
    assert answer.json()["type"] == "/errors/bad_json"
    assert gateway.produced == 0


async def test_a_batch_of_which_nothing_is_accepted(gateway: LocalGateway) -> None:
    answer = await gateway.post(b"[{},{}]")

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "/errors/none_accepted"
    assert [each["status"] for each in answer.json()["results"]] == [422, 422]
    assert gateway.produced == 0


@pytest.mark.parametrize("name", ["onramp_settled", "onramp_"])
async def test_reserved_names_are_refused(gateway: LocalGateway, name: str) -> None:
    answer = await gateway.post(one(name=name))

    assert answer.status_code == 422
    assert answer.json()["type"] == "/errors/reserved_event_name"
    assert answer.json()["pointer"] == "/event_name"
    assert gateway.produced == 0


async def test_the_probe_is_a_reserved_name_that_may_be_sent(gateway: LocalGateway) -> None:
    answer = await gateway.post(one(name=wire.PROBE_EVENT))

    assert answer.status_code == 202


async def test_an_outage_is_a_503_with_retry_after(gateway: LocalGateway) -> None:
    gateway.sink.down = True
    answer = await gateway.post(one())

    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["type"] == "/errors/kafka_unreachable"
    assert answer.json()["accepted"] is False


async def test_a_batch_in_an_outage_is_a_503_with_every_result(gateway: LocalGateway) -> None:
    gateway.sink.down = True
    answer = await gateway.post(body([envelope("a"), {}]))

    assert answer.status_code == 503
    assert [each["status"] for each in answer.json()["results"]] == [503, 422]
    assert "retry-after" in answer.headers


async def test_readiness_follows_the_sink(gateway: LocalGateway) -> None:
    assert (await gateway.client.get("/readyz")).status_code == 200
    assert (await gateway.client.get("/readyz")).json()["kafka"]["min_insync_replicas"] == 1
    gateway.sink.down = True
    assert (await gateway.client.get("/readyz")).status_code == 503
    assert (await gateway.client.get("/healthz")).status_code == 200


async def test_more_bytes_in_flight_than_the_budget_are_a_503(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(inflight_bytes=100)
    answer = await gateway.post(one(text="x" * 200))

    assert answer.status_code == 503
    assert answer.json()["type"] == "/errors/overloaded"
    assert answer.json()["accepted"] is False
    assert "retry-after" in answer.headers
    assert gateway.budget.used == 0


async def test_the_budget_is_given_back(gateway: LocalGateway) -> None:
    await gateway.post(one())
    await gateway.post(b"nonsense")
    await gateway.post(body([envelope("a"), {}]))

    assert gateway.budget.used == 0


class SlowSink(MemorySink):
    """Acknowledges on request."""

    def __init__(self) -> None:
        super().__init__()
        self.acknowledge = asyncio.Event()

    async def send(self, records: Sequence[Record]) -> list[SendResult]:
        await self.acknowledge.wait()
        return await super().send(records)


async def test_nothing_is_answered_before_the_acknowledgement(make_gateway: MakeGateway) -> None:
    gateway = make_gateway()
    slow = SlowSink()
    object.__setattr__(gateway.app.flow, "sink", slow)
    answer = asyncio.create_task(gateway.post(one()))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not answer.done()

    slow.acknowledge.set()
    assert (await answer).status_code == 202


class BrokenSink(MemorySink):
    async def send(self, records: Sequence[Record]) -> list[SendResult]:
        raise RuntimeError(f"secret {records[0].value!r}")


async def test_our_own_fault_is_a_500_that_says_nothing_inside(gateway: LocalGateway) -> None:
    object.__setattr__(gateway.app.flow, "sink", BrokenSink())
    answer = await gateway.post(one(card="4111111111111111"))

    assert answer.status_code == 500
    assert answer.json()["accepted"] is None
    assert "secret" not in answer.text
    assert "4111" not in answer.text


class ForgetfulSink(MemorySink):
    async def send(self, records: Sequence[Record]) -> list[SendResult]:
        return (await super().send(records))[:-1]


async def test_a_sink_that_loses_count_is_no_202(gateway: LocalGateway) -> None:
    object.__setattr__(gateway.app.flow, "sink", ForgetfulSink())

    assert (await gateway.post(body([envelope("a"), envelope("b")]))).status_code == 500


async def test_every_error_type_resolves(gateway: LocalGateway) -> None:
    for code, fault in TABLE.items():
        page = await gateway.client.get(f"/errors/{code}")
        assert page.status_code == 200
        assert page.json()["fix"] == fault.fix
    assert (await gateway.client.get("/errors/nonsense")).status_code == 404


async def test_openapi_tells_of_the_endpoint(gateway: LocalGateway) -> None:
    document = (await gateway.client.get("/openapi.json")).json()

    assert "202" in document["paths"]["/v1/events"]["post"]["responses"]
    assert (await gateway.client.get("/docs")).status_code == 200


@pytest.mark.parametrize("kind", ["application/json", "application/cloudevents-batch+json"])
async def test_openapi_describes_arrays_without_an_event_as_refused(gateway: LocalGateway, kind: str) -> None:
    document = (await gateway.client.get("/openapi.json")).json()
    described = document["paths"]["/v1/events"]["post"]
    schema = described["requestBody"]["content"][kind]["schema"]
    validator = jsonschema_rs.validator_for(schema | {"components": document["components"]})
    for content, status, words in ((b"[]", 400, "has no event"), (b"[null]", 422, "[null]")):
        answer = await gateway.post(content, content_type=kind)
        assert (answer.status_code, validator.is_valid(orjson.loads(content))) == (status, False)
        assert words in described["responses"][str(status)]["description"]
    if kind != "application/json":
        assert "rejects it with 400" in schema["description"]


def test_an_arrival_starts_at_receive() -> None:
    assert RequestContext("r", "now", {}).step == "receive"
