"""Packets: which of their destinations may be addressed, decided without a database or a socket."""

import socket
from typing import Any, NoReturn

import orjson
import pytest

from services.writer.model.routes import Contract, EventRoute, Grant, RoutedDatabase, Routes
from services.writer.model.targets import Target
from services.writer.park.parked_topic import ParkedRecord, reason
from services.writer.sort.sort import Sorted, sort
from shared.errors import (
    BAD_DESTINATION,
    FORBIDDEN_DESTINATION,
    NO_ENVELOPE,
    UNKNOWN_DATABASE,
    UNSUPPORTED_DESTINATION,
)
from shared.kafka_read.records import PartitionSlice
from tests.fixtures.writer import PARTITION, arrivals, envelope, event

PLACES = (RoutedDatabase("onramp"), RoutedDatabase("shop", "shop_db", ("public", "sales")))
ROUTES = Routes("onramp", PLACES)
GOOD = {"type": "postgres", "vanity": "onramp", "schema": "public", "table": "t"}
SECRET = "s3cretValue"


@pytest.fixture(autouse=True)
def _no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def packet(destinations: Any, data: bytes = b'{"id":1}') -> bytes:
    return b'{"pipeline_context":{"destinations":%b},"data":%b}' % (orjson.dumps(destinations), data)


def sorted_packets(*values: bytes, routes: Routes = ROUTES) -> Sorted:
    (found,) = sort([PartitionSlice(PARTITION, arrivals(values))], routes)
    return found


def test_a_packet_goes_where_it_says_with_its_own_bytes() -> None:
    data = b'{ "n":1.50,"a":"\\u00e9" }'
    found = sorted_packets(packet([GOOD], data), packet([GOOD], b"{}"))
    (rows,) = found.tables.values()
    assert list(found.tables) == [Target("onramp", "public", "t", typed=True)]
    assert rows.column("payload").to_pylist() == [data.decode(), "{}"]
    assert rows.column("_offset").to_pylist() == [0, 1]
    assert rows.column("_id").null_count == 2


def test_an_envelope_may_name_destinations_beside_it() -> None:
    value = event("a", n=1)[:-1] + b',"pipeline_context":{"destinations":%b}}' % orjson.dumps([GOOD])
    (found,) = sorted_packets(value).tables.items()
    assert (str(found[0]), found[1].column("_id").to_pylist()) == ("public.t", ["a"])


@pytest.mark.parametrize("destinations", [[], {}, None, "x", 1, [GOOD] * 1_000, [[GOOD]], [None], ["x"]])
def test_destinations_that_are_no_list_of_a_few(destinations: Any) -> None:
    found = sorted_packets(packet(destinations), packet([GOOD]))
    assert [u.error.fault for u in found.unroutable] == [BAD_DESTINATION]
    assert found.unroutable[0].error.pointer.startswith("/pipeline_context/destinations")
    assert found.events_unroutable() == 1


@pytest.mark.parametrize(
    "value",
    [
        b'{"pipeline_context":{},"data":{}}',
        b'{"pipeline_context":null,"data":{}}',
        b'{"pipeline_context":[],"data":{}}',
    ],
)
def test_a_context_without_destinations(value: bytes) -> None:
    (bad,) = sorted_packets(value).unroutable
    assert bad.error.fault == BAD_DESTINATION


@pytest.mark.parametrize(
    "value",
    [
        packet([GOOD], b"[]"),
        packet([GOOD], b"1"),
        packet([GOOD], b"null"),
        b'{"data":{}}',
        packet([GOOD])[:-1] + b',"more":1}',
        packet([GOOD])[:-1] + b',"metadata":null}',
        event()[:-1] + b',"data":{}}',
        packet([GOOD], b'{"a":1,"a":2}'),
        packet([GOOD], b'{"a":123456789012345678901234}'),
        packet([GOOD], b'{"a":' * 70 + b"1" + b"}" * 70),
    ],
)
def test_value_that_is_not_a_packet_is_unroutable(value: bytes) -> None:
    (bad,) = sorted_packets(packet([GOOD]), value).unroutable
    assert (bad.offset, bad.error.fault) == (1, NO_ENVELOPE)


@pytest.mark.parametrize(
    "vanity",
    [
        "10.0.0.1",
        "localhost",
        f"postgresql://u:{SECRET}@h/d",
        "h?sslmode=disable",
        "",
        "ONRAMP",
        "shop_db",
        "onramp ",
    ],
)
@pytest.mark.parametrize("place", ["vanity", "database"])
def test_only_a_configured_name_selects_a_database(vanity: str, place: str) -> None:
    wanted = {k: v for k, v in GOOD.items() if k != "vanity"} | {place: vanity}
    (bad,) = sorted_packets(packet([wanted])).unroutable
    assert bad.error.fault == UNKNOWN_DATABASE
    error = reason(bad.error, PARTITION, 0, bad.destination)
    assert (
        SECRET.encode()
        not in error + ParkedRecord(PARTITION, 0, destination=bad.destination, value=b"", error=error).key
    )


@pytest.mark.parametrize("field", ["host", "port", "dsn", "options", "sslmode", "user", "password"])
def test_a_destination_carries_no_option(field: str) -> None:
    (bad,) = sorted_packets(packet([GOOD | {field: SECRET}])).unroutable
    assert bad.error.fault == BAD_DESTINATION
    assert SECRET not in bad.error.detail


def test_vanity_and_database_must_agree() -> None:
    routes = Routes("onramp", PLACES, (Grant("*"),))
    shop = GOOD | {"vanity": "shop"}
    good = [shop, shop | {"database": "shop", "table": "u"}, shop | {"database": "shop_db", "table": "v"}]
    found = sorted_packets(packet([*good, shop | {"database": "onramp"}]), routes=routes)
    assert sorted(str(t) for t in found.tables) == ["public.t", "public.u", "public.v"]
    assert [u.error.fault for u in found.unroutable] == [UNKNOWN_DATABASE]


@pytest.mark.parametrize(
    "schema",
    [
        "pg_catalog",
        "information_schema",
        "pg_temp",
        "pg_temp_3",
        "pg_toast",
        "pg_toast_temp_1",
        "onramp",
        "onramp_admin",
    ],
)
def test_schemas_that_nothing_opens(schema: str) -> None:
    places = (RoutedDatabase("onramp", schemas=("public", schema)),)
    (bad,) = sorted_packets(
        packet([GOOD | {"schema": schema}]), routes=Routes("onramp", places, (Grant("*"),))
    ).unroutable
    assert bad.error.fault == FORBIDDEN_DESTINATION


def test_a_grant_does_not_open_a_schema_that_its_database_keeps_shut() -> None:
    routes = Routes("onramp", (RoutedDatabase("onramp", schemas=("public",)),), (Grant("*"),))
    found = sorted_packets(packet([GOOD, GOOD | {"schema": "sales"}]), routes=routes)
    assert [str(t) for t in found.tables] == ["public.t"]
    assert [u.error.fault for u in found.unroutable] == [FORBIDDEN_DESTINATION]


@pytest.mark.parametrize("wanted", [{"schema": "sales"}, {"schema": "Public"}, {"vanity": "shop"}])
def test_another_teams_tables(wanted: dict[str, str]) -> None:
    (bad,) = sorted_packets(packet([GOOD | wanted])).unroutable
    assert bad.error.fault == FORBIDDEN_DESTINATION


def test_a_topic_addresses_what_it_was_granted_and_nothing_else() -> None:
    routes = Routes("onramp", PLACES, (Grant("events.order_*", "shop", "sales", "order_*"),))
    wanted = [
        GOOD | {"vanity": "shop", "schema": "sales", "table": "order_lines"},
        GOOD | {"vanity": "shop", "schema": "sales", "table": "refunds"},
        GOOD | {"vanity": "shop", "schema": "public", "table": "order_lines"},
        GOOD,
    ]
    found = sorted_packets(packet(wanted), routes=routes)
    assert [str(t) for t in found.tables] == ["sales.order_lines"]
    assert [u.destination[-1] for u in found.unroutable] == ["1", "2", "3"]


@pytest.mark.parametrize("name", ["", "a\0", "orders\0x", "x" * 64, "é" * 32])
@pytest.mark.parametrize("place", ["schema", "table"])
def test_names_that_postgres_would_cut(name: str, place: str) -> None:
    (bad,) = sorted_packets(packet([GOOD | {place: name}])).unroutable
    assert bad.error.fault == BAD_DESTINATION
    assert bad.error.pointer == f"/pipeline_context/destinations/0/{place}"


@pytest.mark.parametrize("kind", ["kafka", "", "Postgres", "mysql"])
def test_a_type_that_is_not_supported_names_what_is(kind: str) -> None:
    (bad,) = sorted_packets(packet([GOOD | {"type": kind}])).unroutable
    assert bad.error.fault == UNSUPPORTED_DESTINATION
    assert "postgres" in bad.error.detail


def test_the_bad_destination_alone_is_parked_each_with_its_own_reason() -> None:
    wanted = [GOOD, GOOD | {"type": "lake"}, GOOD | {"schema": "x"}, GOOD, GOOD | {"table": "u"}]
    found = sorted_packets(packet(wanted), packet([GOOD | {"type": "lake"}]))
    assert [str(t) for t in found.tables] == ["public.t", "public.u"]
    assert [(u.offset, u.error.fault.code) for u in found.unroutable] == [
        (0, "unsupported_destination"),
        (0, "forbidden_destination"),
        (1, "unsupported_destination"),
    ]
    keys = {
        ParkedRecord(PARTITION, u.offset, destination=u.destination, value=b"", error=b"").key
        for u in found.unroutable
    }
    assert len(keys) == 3, "the records of one event are told apart"
    assert found.events_unroutable() == 1


@pytest.mark.parametrize("version", ['""', "1", "null", f'"{"x" * 33}"'])
def test_unknown_versions(version: str) -> None:
    value = envelope().replace(b'"version":"1"', b'"version":' + version.encode())
    (bad,) = sorted_packets(event(), value).unroutable
    assert (bad.offset, bad.error.fault) == (1, NO_ENVELOPE)
    (bad,) = sorted_packets(event(), event()[:-1] + b',"specversion":"2"}').unroutable
    assert bad.offset == 1


def test_an_event_name_goes_where_it_is_routed() -> None:
    routes = Routes(
        "onramp",
        PLACES,
        event_routes=(
            EventRoute("order_placed", "shop", "sales", "orders"),
            EventRoute("order_placed", "shop"),
        ),
        contracts=(Contract("discard", "shop", "sales"),),
    )
    assert set(sorted_packets(event(), event(name="other"), routes=routes).tables) == {
        Target("shop", "sales", "orders", typed=True, unknown_fields="discard"),
        Target("shop", "events", "order_placed"),
        Target("onramp", "events", "other"),
    }
    assert Routes.from_json(routes.as_json()) == routes
    assert Routes.from_json(routes.as_json()).digest == routes.digest


def test_neighbours_cannot_be_joined_into_one_document() -> None:
    half = envelope(payload=b'{"a":[1')[:-1]
    values = [half, b"2]}}", event("a"), event("b") + b"," + event("c"), event("d")]
    found = sorted_packets(*values)
    (rows,) = found.tables.values()
    assert rows.column("_id").to_pylist() == ["a", "d"]
    assert [u.offset for u in found.unroutable] == [0, 1, 3]
