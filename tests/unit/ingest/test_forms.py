"""NDJSON, and CloudEvents sent by the official SDK."""

import base64
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from cloudevents.core.bindings.http import HTTPMessage, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from services.ingest.decode.cloudevents import event_id, event_name
from tests.fixtures.ingest import one
from tests.unit.ingest.conftest import LocalGateway, MakeGateway

pytestmark = pytest.mark.anyio

LINES = "application/x-ndjson"


async def test_lines_are_a_batch_of_their_own_bytes(gateway: LocalGateway) -> None:
    lines = [one(f"order-{n}", amount=n).replace(b",", b" , ") for n in range(3)]
    answer = await gateway.post(b"\n".join(lines) + b"\r\n\n", content_type=LINES)

    assert answer.status_code == 202
    assert [each["id"] for each in answer.json()["results"]] == ["order-0", "order-1", "order-2"]
    assert sorted(r.value for r in gateway.sink.records("events.order_placed")) == sorted(lines)


async def test_single_line_is_a_batch_of_a_single_item(gateway: LocalGateway) -> None:
    answer = await gateway.post(one(), content_type=LINES)
    assert len(answer.json()["results"]) == 1


@pytest.mark.parametrize(
    "bad",
    [
        b"nonsense",
        b'{"a":',
        one("x") + b"," + one("y"),
        one("x") + b" " + one("y"),
        b'{"a":1,"a":2}',
        b'{"a":"\xff"}',
        b"[1",
        b'"',
        b"],[",
    ],
)
async def test_a_bad_line_harms_only_itself(gateway: LocalGateway, bad: bytes) -> None:
    answer = await gateway.post(b"\n".join([one("a"), bad, one("b"), b"2]"]), content_type=LINES)

    assert answer.status_code == 207
    assert [each["status"] == 202 for each in answer.json()["results"]] == [True, False, True, False]
    assert {r.key for r in gateway.sink.records("events.order_placed")} == {b"a", b"b"}


async def test_empty_lines_are_no_events(gateway: LocalGateway) -> None:
    assert (await gateway.post(b"\n\r\n \n", content_type=LINES)).status_code == 400


def cloudevent(data: Any = None, kind: str = "application/json", **attributes: Any) -> CloudEvent:
    given = {
        "id": "77",
        "source": "https://shop.example/orders",
        "type": "com.example.Order-Placed",
        "time": datetime(2026, 11, 21, 8, tzinfo=UTC),
        "datacontenttype": kind,
        "specversion": "1.0",
        "subject": "grün",
    } | attributes
    return CloudEvent(attributes=given, data=data)


async def send(gateway: LocalGateway, message: HTTPMessage) -> Any:
    headers = {name.replace("-", "_"): value for name, value in message.headers.items()}
    return await gateway.post(message.body, **headers)


NAME = "com_example_order_placed"
ID = event_id("https://shop.example/orders", "77")


def landed(gateway: LocalGateway) -> Any:
    (record,) = gateway.sink.records(f"events.{NAME}")
    assert record.key.decode() == ID
    return orjson.loads(record.value)


@pytest.mark.parametrize("mode", [to_binary, to_structured])
async def test_an_event_of_the_official_sdk(gateway: LocalGateway, mode: Any) -> None:
    answer = await send(gateway, mode(cloudevent({"amount": 1.5}), JSONFormat()))

    assert answer.status_code == 202
    assert answer.json()["id"] == ID
    envelope = landed(gateway)
    assert envelope["event_name"] == NAME
    assert envelope["payload"] == {"amount": 1.5}
    assert envelope["metadata"]["id"] == ID
    assert datetime.fromisoformat(envelope["metadata"]["timestamp"]) == datetime(2026, 11, 21, 8, tzinfo=UTC)
    assert envelope["metadata"]["cloudevent"]["subject"] == "grün"
    assert envelope["metadata"]["cloudevent"]["id"] == "77"


@pytest.mark.parametrize("mode", [to_binary, to_structured])
async def test_data_that_is_no_object(gateway: LocalGateway, mode: Any) -> None:
    await send(gateway, mode(cloudevent([1, 2]), JSONFormat()))
    assert landed(gateway)["payload"] == {"data": [1, 2]}


@pytest.mark.parametrize("mode", [to_binary, to_structured])
async def test_binary_data(gateway: LocalGateway, mode: Any) -> None:
    await send(gateway, mode(cloudevent(b"\x00\xff", "application/octet-stream"), JSONFormat()))
    assert landed(gateway)["payload"] == {"data_base64": base64.b64encode(b"\x00\xff").decode()}


@pytest.mark.parametrize("mode", [to_binary, to_structured])
async def test_no_data(gateway: LocalGateway, mode: Any) -> None:
    assert (await send(gateway, mode(cloudevent(), JSONFormat()))).status_code == 202
    assert landed(gateway)["payload"] in ({}, {"data": None})


@pytest.mark.parametrize(
    "kind", [None, "application/json", LINES, "application/cloudevents+json", "ce-binary"]
)
async def test_blanks_around_an_event_are_none_of_its_bytes(make_gateway: MakeGateway, kind: str) -> None:
    gateway, blanks, event = make_gateway(max_event_bytes=600), b" \t\r\n" * 100 + b" ", one("blank")
    head = {"content_type": kind or "application/json"}
    body = b"[" + blanks + event + blanks + b"," + event + b"]" if kind is None else blanks + event + blanks
    if kind == LINES:
        body = body.replace(b"\n", b" ")
    elif kind == "application/cloudevents+json":
        body = blanks + JSONFormat().write(cloudevent({})) + blanks
    elif kind == "ce-binary":
        message = to_binary(cloudevent({}), JSONFormat())
        head, body = {k.replace("-", "_"): v for k, v in message.headers.items()}, blanks + b"{}" + blanks
    answer = await gateway.post(body, **head)

    assert answer.status_code == 202
    for topic in gateway.sink.topics:
        for record in gateway.sink.records(topic):
            assert (record.value[:1], record.value[-1:], len(record.value) < 600) == (b"{", b"}", True)


async def test_a_batch_of_events_with_a_bad_one(gateway: LocalGateway) -> None:
    events = [cloudevent({"n": n}, id=str(n)) for n in range(3)]
    texts = [JSONFormat().write(event) for event in events]
    texts[1] = texts[1].replace(b'"type"', b'"typo"')
    answer = await gateway.post(
        b"[" + b",".join(texts) + b"]", content_type="application/cloudevents-batch+json"
    )

    assert answer.status_code == 207
    assert [each["status"] for each in answer.json()["results"]] == [202, 422, 202]
    assert answer.json()["results"][1]["error"]["pointer"] == "/type"


async def test_numbers_keep_their_digits(gateway: LocalGateway) -> None:
    head = b'{"specversion":"1.0","id":"77","source":"https://shop.example/orders",'
    event = head + b'"type":"com.example.Order-Placed","data":{"price": 1.10}}'
    await gateway.post(event, content_type="application/cloudevents+json")

    (record,) = gateway.sink.records(f"events.{NAME}")
    assert b'{"price": 1.10}' in record.value


@pytest.mark.parametrize(
    ("kind", "name"),
    [("a.b", "a_b"), ("Com.Ex-Ample//X", "com_ex_ample_x"), ("..x..", "x"), ("order_placed", "order_placed")],
)
def test_names(kind: str, name: str) -> None:
    assert event_name(kind) == name


@pytest.mark.parametrize("kind", ["9.lives", "ü", "onramp.settled", "x" * 64])
async def test_types_that_make_no_event_name(gateway: LocalGateway, kind: str) -> None:
    answer = await send(gateway, to_structured(cloudevent({}, type=kind), JSONFormat()))
    assert answer.status_code == 422


def test_ids_do_not_run_into_each_other() -> None:
    assert event_id("a", "bc") != event_id("ab", "c")
    assert len(event_id("s" * 1000, "i" * 1000)) <= 128


async def test_a_binary_body_cannot_reach_out_of_its_place(gateway: LocalGateway) -> None:
    message = to_binary(cloudevent({"a": 1}), JSONFormat())
    for body in (b'1,"x":2', b"1}", b'1},{"a":1', b"nonsense"):
        answer = await send(gateway, HTTPMessage(headers=message.headers, body=body))
        assert answer.status_code == 400
    assert gateway.produced == 0


async def test_a_time_past_the_year_9999_in_utc_is_refused(gateway: LocalGateway) -> None:
    far = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(-timedelta(hours=8)))
    answer = await send(gateway, to_structured(cloudevent({"a": 1}, time=far), JSONFormat()))
    assert (answer.status_code, answer.json()["pointer"]) == (422, "/metadata/timestamp")
    assert gateway.produced == 0


async def test_other_versions_are_refused(gateway: LocalGateway) -> None:
    answer = await gateway.post(b"{}", ce_specversion="0.3", ce_id="1", ce_source="s", ce_type="t")
    assert answer.status_code == 422
    assert answer.json()["pointer"] == "/specversion"


HEADERS = {
    "content-type": "application/json",
    "ce-specversion": "1.0",
    "ce-id": "77",
    "ce-source": "https://shop.example/orders",
    "ce-type": "com.example.Order-Placed",
}
STRUCTURED = {name[3:]: value for name, value in HEADERS.items() if name.startswith("ce-")}


async def ask(gateway: LocalGateway, body: bytes, *more: tuple[str, str], **headers: str) -> Any:
    given = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
    content = [(name, value.encode("latin-1")) for name, value in (*given.items(), *more)]
    return await gateway.client.post("/v1/events", content=body, headers=content)


@pytest.mark.parametrize(("kind", "many"), [("cloudevents", False), ("cloudevents-batch", True)])
async def test_a_structured_event_may_have_its_attributes_as_headers_too(
    gateway: LocalGateway, kind: str, *, many: bool
) -> None:
    event = orjson.dumps(STRUCTURED | {"data": {"a": 1}})
    kind = f"Application/{kind}+JSON; Charset=UTF-8; x=y"
    answer = await ask(gateway, b"[%s]" % event if many else event, content_type=kind)
    assert answer.status_code == 202, answer.text
    assert landed(gateway)["payload"] == {"a": 1}


@pytest.mark.parametrize(
    "kind", ["application/cloudevents+avro", "application/cloudevents+json;charset=utf-16"]
)
async def test_other_formats_of_structured_events_are_refused(gateway: LocalGateway, kind: str) -> None:
    assert (await ask(gateway, b"{}", content_type=kind)).status_code == 415


@pytest.mark.parametrize(
    ("sent", "is_"),
    [
        ("gr%C3%BCn", "grün"),
        ("gr\xc3\xbcn", "grün"),
        ("100%25+%2B", "100%++"),
        ('"a \\"b\\\\ %41"', 'a "b\\ A'),
        ('"open', '"open'),
        ("%zz", "%zz"),
    ],
)
async def test_headers_are_unquoted_and_percent_decoded_once(
    gateway: LocalGateway, sent: str, is_: str
) -> None:
    answer = await ask(gateway, b"{}", ce_subject=sent)
    assert answer.status_code == 202, answer.text
    assert landed(gateway)["metadata"]["cloudevent"]["subject"] == is_


async def test_an_attribute_of_a_header_may_have_a_long_name(gateway: LocalGateway) -> None:
    assert (await ask(gateway, b"{}", ("ce-" + "x" * 30, "y"))).status_code == 202
    assert landed(gateway)["metadata"]["cloudevent"]["x" * 30] == "y"


@pytest.mark.parametrize(
    ("header", "pointer"),
    [
        (("ce-id", "78"), "/id"),
        (("ce-subject", "%FF"), "/subject"),
        (("ce-subject", "\xff"), "/subject"),
        (("ce-subject", "a%00b"), "/subject"),
        (("ce-data", "x"), ""),
        (("ce-my-own", "x"), ""),
        (("content-type", "application/json"), "/datacontenttype"),
    ],
)
async def test_headers_that_are_no_attributes_are_refused(
    gateway: LocalGateway, header: tuple[str, str], pointer: str
) -> None:
    answer = await ask(gateway, b"{}", header)
    assert (answer.status_code, answer.json().get("pointer", "")) == (422, pointer)
    assert answer.json()["type"] == "/errors/bad_cloudevent"
    assert gateway.produced == 0


@pytest.mark.parametrize("version", [None, ""])
async def test_without_its_version_an_event_is_no_envelope(
    gateway: LocalGateway, version: str | None
) -> None:
    headers = {name: value for name, value in HEADERS.items() if name != "ce-specversion"}
    headers |= {} if version is None else {"ce-specversion": version}
    answer = await gateway.client.post("/v1/events", content=one(), headers=headers)
    assert (answer.status_code, answer.json()["pointer"]) == (422, "/specversion")


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"data": 1, "data_base64": "AA=="}, "/data_base64"),
        ({"data_base64": 1}, "/data_base64"),
        ({"data_base64": "A"}, "/data_base64"),
        ({"data_base64": "A-_="}, "/data_base64"),
        ({"source": "a\0b"}, "/source"),
        ({"a/b": "\n"}, "/a~1b"),
    ],
)
async def test_a_structured_event_that_breaks_the_format_is_refused(
    gateway: LocalGateway, more: dict[str, Any], pointer: str
) -> None:
    event = orjson.dumps(STRUCTURED | more)
    answer = await gateway.post(event, content_type="application/cloudevents+json")
    assert (answer.status_code, answer.json()["pointer"]) == (422, pointer)


async def test_null_attributes_of_a_cloudevent_are_treated_as_absent(gateway: LocalGateway) -> None:
    event = orjson.dumps(STRUCTURED | {"time": None, "data_base64": None, "data": {"a": 1}})
    answer = await gateway.post(event, content_type="application/cloudevents+json")
    assert answer.status_code == 202, answer.text
    assert landed(gateway)["payload"] == {"a": 1}


async def test_a_deep_event_of_a_batch_is_refused_alone(gateway: LocalGateway) -> None:
    good = orjson.dumps(STRUCTURED)
    for place in (b"extension", b"data"):
        deep = good[:-1] + b',"%s":' % place + b"[" * 500 + b"]" * 500 + b"}"
        batch = b"[%s,%s]" % (deep, good)
        answer = await gateway.post(batch, content_type="application/cloudevents-batch+json")
        assert [each["status"] for each in answer.json()["results"]] == [400, 202], place


@pytest.mark.parametrize(
    ("kind", "body", "payload"),
    [
        ("Text/Plain", "grün".encode(), {"data": "grün"}),
        ("text/plain; charset=UTF-16", "ab".encode("utf-16"), None),
        ("text/plain; charset=utf-16be", "ab".encode("utf-16-be"), None),
        ("application/vnd.x+JSON; charset=utf-8", b"[1.10]", {"data": [1.1]}),
        ("application/xml", b"<a/>", None),
    ],
)
async def test_data_of_other_types_keep_their_bytes(
    gateway: LocalGateway, kind: str, body: bytes, payload: Any
) -> None:
    assert (await ask(gateway, body, content_type=kind)).status_code == 202
    envelope = landed(gateway)
    assert envelope["payload"] == (payload or {"data_base64": base64.b64encode(body).decode()})
    assert envelope["metadata"]["cloudevent"]["datacontenttype"] == kind
