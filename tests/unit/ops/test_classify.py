"""Classification of events and rows in the audit: kinds of records, and comparison of row and event."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from services.ops.audit.classify import Kind, classify
from services.ops.audit.settled_log import Routed, SettledLog, Totals
from services.ops.findings import Source, Table
from services.ops.kafka_logs import LogRecord
from services.ops.parked.records import escaped, event_name
from shared import wire

US = {wire.HEADER_CONTEXT: wire.CONTEXT_BYTES}
TIME = datetime(2026, 11, 21, 8, tzinfo=UTC)


@dataclass
class FakeRow:
    payload: str
    id: str = "a"
    event_name: str = "order_placed"
    timestamp: datetime = TIME
    version: str = "1"
    fields: Mapping[str, str] | None = None


def _record(value: bytes | None, headers: dict[str, bytes] | None = None) -> LogRecord:
    headers = US if headers is None else headers
    return LogRecord(
        source=Source("events.x", 0),
        offset=7,
        timestamp=0,
        key=None,
        value=value,
        headers=headers,
        header_count=len(headers),
    )


def _event(payload: bytes, name: bytes = b"order_placed") -> bytes:
    head = b'{"id":"a","timestamp":"2026-11-21T09:00:00+01:00","version":"1"}'
    return b'{"metadata":%b,"event_name":"%b","payload":%b}' % (head, name, payload)


_MANY = b" " * wire.MAX_HEADER_BYTES


@pytest.mark.parametrize(
    ("value", "headers", "kind"),
    [
        (_event(b"{}"), {wire.HEADER_CONTEXT: wire.CONTEXT_BYTES + _MANY}, Kind.UNROUTABLE),
        (_event(b"{}"), {wire.HEADER_CONTEXT: b"7" + _MANY}, Kind.UNROUTABLE),
        (_event(b"{}"), US | {wire.HEADER_RECEIVED_AT: _MANY}, Kind.UNROUTABLE),
        (_event(b"{}"), US | {"note": _MANY}, Kind.ENVELOPE),
        (_event(b"{}"), {wire.HEADER_RECEIVED_AT: _MANY + b" "}, Kind.FILTERED),
        (_event(b"{}"), {wire.HEADER_CONTEXT: b"\0", wire.HEADER_RECEIVED_AT: _MANY}, Kind.FILTERED),
        (_event(b"{}"), None, Kind.ENVELOPE),
        (_event(b"{}"), {wire.HEADER_CONTEXT: b'{ "consumer": {"type": "data_pipeline"} }'}, Kind.ENVELOPE),
        (_event(b"{}"), {}, Kind.FILTERED),
        (_event(b"{}"), {wire.HEADER_CONTEXT: b'{"consumer":{"type":"other"}}'}, Kind.FILTERED),
        (_event(b"{}"), {wire.HEADER_CONTEXT: b"\xff"}, Kind.FILTERED),
        (_event(b"{}", b"onramp_probe"), None, Kind.PROBE),
        (_event(b"[]"), None, Kind.UNROUTABLE),
        (b"no json", None, Kind.UNROUTABLE),
        (b"7", None, Kind.UNROUTABLE),
        (None, None, Kind.UNROUTABLE),
        (b"[" * 100_000, None, Kind.UNROUTABLE),
        (b'{"pipeline_context":{},"data":{}}', None, Kind.PACKET),
    ],
)
def test_record_kind_follows_from_its_value_and_headers(
    value: bytes | None, headers: dict[str, bytes] | None, kind: Kind
) -> None:
    assert classify(_record(value, headers)).kind is kind


@pytest.mark.parametrize(
    ("sent", "row", "same"),
    [
        (b'{"a":1,"b":[2]}', '{"b": [2], "a": 1}', True),
        (b'{"a":1.50}', '{"a": 1.50}', True),
        (b'{"a":1e2}', '{"a": 100}', True),
        (b'{"a":1}', '{"a": 2}', False),
        (b'{"a":1}', '{"a": 1, "b": null}', False),
        (b'{"a":"1"}', '{"a": 1}', False),
        (b'{"a":0.12345678901234567890}', '{"a": 0.12345678901234567891}', False),
        (b'{"a":true}', '{"a": 1}', False),
        (b'{"a":[false,{"b":0}]}', '{"a": [0, {"b": false}]}', False),
        (b'{"a":"\\u00e9"}', '{"a": "\xe9"}', True),
    ],
)
def test_when_a_row_is_the_event(sent: bytes, row: str, same: bool) -> None:
    assert classify(_record(_event(sent))).compared(FakeRow(row)).same is same


@pytest.mark.parametrize(
    ("sent", "type_", "there", "same"),
    [
        (b"1.50", "numeric", "1.5", True),
        (b'"12"', "int8", "12", True),
        (b"12", "int8", "13", False),
        (b"null", "text", "null", True),
        (b'"x"', "text", "null", False),
        (b'"x"', "text", '"X"', False),
        (b"true", "bool", "false", False),
        (b'"2026-11-21T09:00:00+01:00"', "timestamptz", '"2026-11-21T08:00:00+00:00"', True),
        (b'"2026-11-21T09:00:00Z"', "timestamptz", '"2026-11-21T08:00:00+00:00"', False),
        (b'"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"', "uuid", '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"', True),
        (b'{"b":[1]}', "jsonb", '{"b": [2]}', False),
    ],
)
def test_when_a_column_has_what_was_sent(sent: bytes, type_: str, there: str, same: bool) -> None:
    event = classify(_record(_event(b'{"a":%b,"no_column":1}' % sent)))
    row = FakeRow(f'{{"a": {there}, "not_sent": 5}}', fields={"a": type_, "not_sent": "int8"})
    assert event.compared(row) == (same, ())


def test_a_number_that_no_decimal_is_stops_no_audit() -> None:
    """A column of `json` keeps it, and a contract may drop the field that it is in."""
    tiny = "1e-9999999999999999999"
    event = classify(_record(_event(b'{"a":1,"b":%b}' % tiny.encode())))
    assert event.compared(FakeRow('{"a":1}', fields={"a": "int8"})) == (True, ())
    fields = {"a": "int8", "b": "json"}
    for there, same in ((tiny, True), ("1e-8888888888888888888", False), (f'"{tiny}"', False), ("0", False)):
        assert event.compared(FakeRow(f'{{"a":1,"b":{there}}}', fields=fields)) == (same, ())


def test_other_fields_count_too() -> None:
    event = classify(_record(_event(b"{}")))
    assert event.compared(FakeRow("{}")).same
    for other in (
        {"version": "2"},
        {"event_name": "x"},
        {"timestamp": TIME.replace(hour=9)},
        {"timestamp": None},
    ):
        assert event.compared(FakeRow("{}", **other)) == (False, ())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sent", "type_", "there", "found"),
    [
        ("9999-12-31T23:59:59-08:00", "timestamptz", "10000-01-01T07:59:59+00:00", (True, ("a",))),
        ("0001-01-01T00:00:00+14:00", "timestamptz", "0001-12-31T10:00:00+00:00 BC", (True, ("a",))),
        ("2026-11-21T08:00:00Z", "timestamptz", "10000-01-01T07:59:59+00:00", (False, ())),
        ("2026-11-21T08:00:00Z", "timestamptz", "infinity", (False, ())),
        ("x", "numeric", "12", (True, ("a",))),
        ("x", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", (True, ("a",))),
    ],
)
def test_a_value_that_cannot_be_read_is_named(sent: str, type_: str, there: str, found: object) -> None:
    event = classify(_record(_event(b'{"a":"%b"}' % sent.encode())))
    assert event.compared(FakeRow(f'{{"a": "{there}"}}', fields={"a": type_})) == found


def test_a_packets_destinations_are_counted_once_each() -> None:
    one = b'{"type":"postgres","vanity":"onramp","schema":"public","table":"a"}'
    packet = b'{"pipeline_context":{"destinations":[%b,%b,7]},"data":{}}' % (one, one)
    assert classify(_record(packet)).destinations(()) == {"onramp": 1, "": 1}
    assert classify(_record(packet)).destinations({"/pipeline_context/destinations/2"}) == {"onramp": 1}
    assert classify(_record(b'{"pipeline_context":3}')).destinations(()).total() == 1


def test_values_are_escaped_and_names_are_plain() -> None:
    assert escaped(b"a\x1b[31m\n\xff\xc3\xa9") == "a\\x1b[31m\\n\\xff\xe9"
    assert escaped(None) is None
    assert event_name(b'{"event_name":"order_placed"}') == "order_placed"
    assert event_name(b'{"event_name":"\\u001b[31m"}') == event_name(b"x") == event_name(None) == ""


def test_the_furthest_totals_and_all_routes_count() -> None:
    log = SettledLog()
    log.apply(b"totals/t/0/1", b"[10,2,1,3]")
    log.apply(b"totals/t/0/2", b"[8,9,9,9]")
    log.apply(b"baseline/t/0", b'{"onramp":3}')
    log.apply(b"plan/1", b"not looked at")
    log.apply(b"leader/t/0", b"not looked at")
    log.apply(b"halt/t/0", b"not looked at")
    for key, value in ((b"onramp", b"1"), (b"baseline/t/0", None), (b"\xff", b"{}"), (None, b"{}")):
        log.apply(key, value)
    assert log.foreign == 4
    assert (log.totals["t", 0], log.baselines["t", 0]) == (Totals(10, 2, 1, 3), {"onramp": 3})
    landing = Routed(Table("onramp", "events", "x"), typed=False)
    assert log.all_choices("x", "onramp") == [frozenset({landing})]
    route = b'{"event_name":"x","database":"other","schema":"public","table":"t"}'
    log.apply(b"routes/a", b'{"default_database":"onramp","event_routes":[%b]}' % route)
    log.apply(b"routes/b", b'{"default_database":"onramp","event_routes":[]}')
    typed = Routed(Table("other", "public", "t"), typed=True)
    assert log.all_choices("x", "?") == [frozenset({typed}), frozenset({landing})]
    assert (log.destinations("x", "a"), log.destinations("x", "b")) == (
        frozenset({typed}),
        frozenset({landing}),
    )
