"""Event types of the registry: topic, key, schema, limits."""

from typing import Any

import pytest

from shared.contracts.type_schemas import ReportedFaults, Schemas
from shared.partitioner import partition_of
from shared.registry import Snapshot
from tests.fixtures.ingest import body, envelope, one
from tests.unit.ingest.conftest import MakeGateway

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["amount", "customer"],
    "additionalProperties": False,
    "properties": {
        "amount": {"type": "number", "minimum": 0},
        "customer": {"type": "object", "properties": {"id": {"type": ["string", "integer"]}}},
        "email": {"type": "string", "format": "email"},
        "lines": {"type": "array", "items": {"type": "integer"}},
    },
}

#: 2^34 evaluations of one value.
DOUBLING = {
    "$ref": "#/$defs/a0",
    "$defs": {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(34)} | {"a34": {}},
}


def registry(**event_type: Any) -> dict[str, Any]:
    return {"event_types": {"order_placed": event_type}}


async def test_schema_mismatch_reports_every_fault_at_once_by_pointer(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry(schema=SCHEMA))
    payload = {"amuont": 3, "customer": {"id": 4.5}, "email": "secret-no-email", "lines": [1, "secret-x"]}
    answer = await gateway.post(one(**payload))

    assert answer.status_code == 422
    assert answer.json()["type"] == "/errors/schema_mismatch"
    told = {(each["pointer"], each["detail"]) for each in answer.json()["errors"]}
    assert told == {
        ("/payload", "the field amount is missing; did you mean amuont?"),
        ("/payload", "the field amuont is not known; did you mean amount?"),
        ("/payload/customer/id", "expected type ['string', 'integer']"),
        ("/payload/email", "expected format email"),
        ("/payload/lines/1", "expected type integer"),
    }
    assert "secret" not in answer.text
    assert gateway.produced == 0


async def test_value_out_of_range_for_a_created_tables_column_is_rejected_by_the_gateway(
    make_gateway: MakeGateway,
) -> None:
    schema = {
        "properties": {
            "n": {"type": ["integer", "null"], "maximum": 1e25},
            "at": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
        }
    }
    far = {"n": 2**63, "at": "2026-01-01T00:00:00.123456789Z"}
    place = {"schema": "public", "table": "t"}
    gateway = make_gateway(registry(schema=schema, destinations=[place | {"create": True}]))
    answer = await gateway.post(one(**far))
    assert answer.status_code == 422
    assert {each["pointer"] for each in answer.json()["errors"]} == {"/payload/n", "/payload/at"}
    assert f"expected maximum {2**63 - 1}" in answer.text
    assert (await gateway.post(one(n=None, at="2026-01-01T00:00:00.123456000+15:59"))).status_code == 202
    in_utc = ("9999-12-31T15:59:59-08:00", "9999-12-31T23:59:59+08:00", "0001-01-01T14:00:00+14:00")
    for at in in_utc:
        assert (await gateway.post(one(at=at))).status_code == 202, at
    for at in (
        "2016-12-31T23:59:60Z",
        "2026-01-01T00:00:00+18:00",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-08:00",
        "9999-12-31T23:30:00.5-00:30",
        "0001-01-01T00:00:00+14:00",
    ):
        answer = await gateway.post(one(at=at))
        assert {each["pointer"] for each in answer.json()["errors"]} == {"/payload/at"}, at
    assert (await gateway.post(one(day="0000-01-01"))).status_code == 422

    of_its_owner = make_gateway(registry(schema=schema, destinations=[place]))
    for event in (
        far,
        {"at": "2016-12-31T23:59:60Z"},
        {"at": "2026-01-01T00:00:00+18:00"},
        {"day": "0000-01-01"},
    ):
        assert (await of_its_owner.post(one(**event))).status_code == 202


async def test_an_event_that_a_schema_takes_no_field_of_is_rejected_alone(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry(schema={"type": "object", "additionalProperties": False}))
    answer = await gateway.post(body([envelope("bad", amount=1), envelope("good")]))
    assert [each["status"] for each in answer.json()["results"]] == [422, 202]


async def test_a_payload_that_matches_is_accepted_beside_one_that_does_not(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry(schema=SCHEMA))
    good = envelope("good", amount=1.5, customer={"id": "c"})
    answer = await gateway.post(body([envelope("bad"), good]))

    assert [each["status"] for each in answer.json()["results"]] == [422, 202]


async def test_a_schema_changes_without_a_restart(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry(schema=SCHEMA))
    assert (await gateway.post(one())).status_code == 422
    gateway.registry.put(registry())
    gateway.registry.refresh()
    assert (await gateway.post(one())).status_code == 202


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "http://127.0.0.1:1/x"}, DOUBLING])
async def test_a_schema_that_cannot_be_used_stops_events_of_its_type_alone(
    make_gateway: MakeGateway, schema: dict[str, Any]
) -> None:
    gateway = make_gateway({"event_types": {"order_placed": {"schema": schema}, "other": {"schema": SCHEMA}}})
    answer = await gateway.post(one())
    assert (answer.status_code, answer.json()["type"]) == (503, "/errors/schema_unusable")
    assert answer.json()["detail"].startswith("event_types.order_placed.schema: ")
    assert answer.headers["retry-after"]
    assert (await gateway.post(one(name="other", amount=1, customer={}))).status_code == 202
    mixed = await gateway.post(b"[%b,%b]" % (one("a"), one("b", name="other", amount=1, customer={})))
    assert [each["status"] for each in mixed.json()["results"]] == [503, 202]


async def test_an_event_whose_check_could_take_seconds_is_refused_by_its_size(
    make_gateway: MakeGateway,
) -> None:
    text = "ab" * 40_000
    gateway = make_gateway(registry(schema={"properties": {"text": {"pattern": "[ab]*a[ab]{1000}c"}}}))
    answer = await gateway.post(one(text=text))
    assert (answer.status_code, answer.json()["type"]) == (413, "/errors/event_too_large")
    assert "the limit of this type's schema is 16" in answer.json()["detail"]
    assert (await gateway.post(one(text="a" * 1001 + "c"))).status_code == 202


async def test_an_event_with_many_numbers_of_hundreds_of_digits_is_refused_where_they_are_divided(
    make_gateway: MakeGateway,
) -> None:
    # 1e308 and a fraction: 0.1 ms each, in which no other request is answered.
    schema = {"properties": {"prices": {"items": {"multipleOf": 0.01}}}}
    gateway = make_gateway(registry(schema=schema))
    long, small = [1e308] * 5_001, [1e-308, -1e308] * 2_501
    for prices in (long, small, [{"a": long}]):
        answer = await gateway.post(one(prices=prices))
        assert (answer.status_code, answer.json()["type"]) == (413, "/errors/event_too_large")
        assert "comparing its numbers with this type's schema" in answer.json()["detail"]
    for prices in ([1e308] * 4_999, [0.0, 12.34] * 5_001):
        assert (await gateway.post(one(prices=prices))).status_code == 202
    free = make_gateway(registry(schema={"properties": {"prices": {"items": {"multipleOf": 2}}}}))
    assert (await free.post(one(prices=long))).status_code == 202


def test_local_references_work() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}
    schemas = Schemas(Snapshot.model_validate(registry(schema=schema)))
    schemas.check("order_placed", {"payload": {"a": 1}}, 10, ReportedFaults())
    with pytest.raises(Exception, match="schema_mismatch"):
        schemas.check("order_placed", {"payload": {"a": "x"}}, 10, ReportedFaults())


async def test_topic_and_key_come_from_the_event_type(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry(topic="shop.orders", key="/customer/id"))
    answer = await gateway.post(one(customer={"id": "c-7"}))

    (record,) = gateway.sink.records("shop.orders")
    assert record.key == b"c-7"
    assert answer.json()["receipt"]["partition"] == partition_of(b"c-7", 2)


@pytest.mark.parametrize(
    "payload", [{}, {"customer": {"id": ""}}, {"customer": {"id": True}}, {"customer": 1}]
)
async def test_a_missing_key_is_refused(make_gateway: MakeGateway, payload: dict[str, Any]) -> None:
    gateway = make_gateway(registry(key="/customer/id"))
    answer = await gateway.post(one(**payload))

    assert answer.status_code == 422
    assert answer.json()["pointer"] == "/payload/customer/id"


async def test_a_limit_of_the_event_type(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry(max_bytes=200))
    assert (await gateway.post(one(text="x" * 200))).status_code == 413
    assert (await gateway.post(one())).status_code == 202


async def test_lines_cannot_borrow_each_others_documents(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry(schema=SCHEMA))
    good = one("good", amount=1, customer={"id": "c"})
    # Three values in the first line, and two lines that are halves of one: as many documents
    # as lines, but the second line's neighbour would vouch for it.
    lines = [b",".join([good] * 3), one("bad"), b"[1", b"2]"]
    answer = await gateway.post(b"\n".join(lines), content_type="application/x-ndjson")

    types = [each["error"]["type"] for each in answer.json()["results"]]
    assert types == ["/errors/bad_json", "/errors/schema_mismatch", "/errors/bad_json", "/errors/bad_json"]
    assert gateway.produced == 0


async def test_unregistered_event_name_is_refused_when_the_registry_refuses_unknown_names(
    make_gateway: MakeGateway,
) -> None:
    gateway = make_gateway({"event_types": {"other": {}}, "unknown_names": "refuse"})
    answer = await gateway.post(one())

    assert answer.status_code == 403
    assert (answer.json()["type"], answer.json()["pointer"]) == ("/errors/unknown_event_name", "/event_name")
    gateway.registry.put(registry() | {"unknown_names": "refuse"})
    gateway.registry.refresh()
    assert (await gateway.post(one())).status_code == 202
