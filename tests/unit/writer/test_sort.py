"""SORT: every record has exactly one destination, and no input causes an error."""

from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.writer.park.parked_topic import ParkedRecord, reason
from shared.errors import NO_ENVELOPE, RECORD_HEADERS_TOO_LARGE
from shared.kafka_read.records import LARGE, USUAL
from tests.fixtures.writer import PARTITION, envelope, event, sorted_values

SECRET = "s3cret-Value"

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=10,
).map(
    lambda document: (
        orjson.dumps(document, option=orjson.OPT_PASSTHROUGH_DATETIME) if _fits(document) else b""
    )
)


def _fits(document: object) -> bool:
    try:
        orjson.dumps(document)
    except (orjson.JSONEncodeError, TypeError):
        return False
    return True


_values = st.lists(
    st.one_of(
        st.none(),
        st.binary(max_size=40),
        _json,
        st.text("abcdef01234-", min_size=1, max_size=5).map(event),
        st.sampled_from(["a", "b", "c"]).map(lambda name: event(name=name)),
    ),
    max_size=30,
)


@settings(deadline=None)  # the first call loads Arrow's kernels
@given(_values)
@example([None, b"", b"\xff", b"null", b"[]", b"{}", event()])
def test_every_record_is_in_exactly_one_place(values: list[bytes | None]) -> None:
    found = sorted_values(values)
    places = [u.offset for u in found.unroutable]
    for rows in found.tables.values():
        places += rows.column("_offset").to_pylist()
    assert sorted(places) == list(range(len(values)))


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"plain text",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b"42",
        b'"text"',
        b"{}",
        b"\xef\xbb\xbf" + event(),
        event()[:-1],
        event() + b"x",
        envelope(payload=b'{"a":1,"a":2}'),
        envelope(payload=b'{"a":NaN}'),
        envelope(payload=b'{"a":123456789012345678901234567890}'),
        envelope(payload=b'{"a":"\\ud800"}'),
        envelope(payload=b"[" * 100_000 + b"]" * 100_000),
        envelope(payload=b'{"a":' * 70 + b"1" + b"}" * 70),
        envelope(payload=b"[1]"),
        envelope(payload=b"null"),
        envelope(event_id=""),
        envelope(event_id="x" * 129),
        envelope(name='a\\"; drop table x; --'),
        envelope(name="pg_catalog.pg_class"),
        envelope(name="Order"),
        envelope(name="a" * 64),
        envelope(name="a\\u0000"),
        b'{"event_name":"a","payload":{}}',
    ],
)
def test_value_that_is_not_an_envelope_is_unroutable_and_retains_its_bytes(value: bytes | None) -> None:
    found = sorted_values([event("before"), value, event("after")])
    (bad,) = found.unroutable
    assert (bad.offset, bad.value, bad.error.fault) == (1, value, NO_ENVELOPE)
    (rows,) = found.tables.values()
    assert rows.column("_id").to_pylist() == ["before", "after"]


def test_record_with_oversized_headers_is_unroutable_whatever_its_value() -> None:
    values = [event("before"), event("large"), b"no json", None, b"no json", event("after")]
    contexts = [USUAL, LARGE, LARGE, LARGE, USUAL, USUAL]
    found = sorted_values(values, context=contexts)
    assert [(u.offset, u.value) for u in found.unroutable] == [*enumerate(values)][1:5]
    assert [u.error.fault for u in found.unroutable] == [*[RECORD_HEADERS_TOO_LARGE] * 3, NO_ENVELOPE]
    (rows,) = found.tables.values()
    assert rows.column("_id").to_pylist() == ["before", "after"]


def test_the_payload_is_the_producers_own_bytes() -> None:
    payload = b'{ "b":1.50 ,\n"a":"\\u00e9\\t\\\\N" }'
    (rows,) = sorted_values([envelope(payload=payload)]).tables.values()
    assert rows.column("payload").to_pylist() == [payload.decode()]


def test_received_at_is_the_gateways_header() -> None:
    (rows,) = sorted_values([event()]).tables.values()
    assert rows.column("_received_at").to_pylist() == [datetime(2026, 11, 21, 8, 0, 1, tzinfo=UTC)]


@pytest.mark.parametrize(
    "header",
    [
        *(None, b"", b"yesterday", b"\xff", b"2026-11-21 08:00:00", b"1763712000"),
        *(b"9999-12-31T23:59:59-08:00", b"0001-01-01T00:00:00+14:00"),
    ],
)
def test_without_a_usable_header_received_at_is_kafkas_time(header: bytes | None) -> None:
    (rows,) = sorted_values([event()], received_at=[header]).tables.values()
    assert rows.column("_received_at").to_pylist() == [datetime(2026, 11, 21, 8, 0, 2, tzinfo=UTC)]


def test_another_clients_header_harms_only_its_own_row() -> None:
    (rows,) = sorted_values(
        [event("ours"), event("theirs")], received_at=[b"2026-11-21T08:00:01Z", b"yesterday"]
    ).tables.values()
    assert [t.second for t in rows.column("_received_at").to_pylist()] == [1, 2]


@pytest.mark.parametrize("timestamp", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59"])
def test_the_ends_of_time_do_not_break_the_batch(timestamp: str) -> None:
    value = event().replace(b"2026-11-21T08:00:00Z", timestamp.encode())
    found = sorted_values([value, event("neighbour")])
    assert sum(t.num_rows for t in found.tables.values()) + len(found.unroutable) == 2


_places = ["metadata", "event_name", "payload", "id", "timestamp", "version"]


@settings(deadline=None)  # the first call loads Arrow's kernels
@given(
    st.sampled_from(_places), st.sampled_from(['"%s"', '["%s"]', '{"a":"%s"}', '"%s', "%s", '"\\ud800%s"'])
)
def test_a_reason_never_contains_a_value(place: str, form: str) -> None:
    document = {
        "id": '"1"',
        "timestamp": '"2026-11-21T08:00:00Z"',
        "version": '"1"',
        "event_name": '"Bad Name"',
    }
    document |= {place: form % SECRET}
    ids = ",".join(f'"{k}":{document[k]}' for k in ("id", "timestamp", "version"))
    metadata = document.get("metadata", f"{{{ids}}}")
    payload = document.get("payload", f'{{"card":"{SECRET}"}}')
    value = f'{{"metadata":{metadata},"event_name":{document["event_name"]},"payload":{payload}}}'.encode()
    for bad in sorted_values([value]).unroutable:
        error = reason(bad.error, PARTITION, bad.offset, "")
        assert SECRET.encode() not in error
        assert (
            SECRET.encode()
            not in ParkedRecord(PARTITION, bad.offset, destination="", value=value, error=error).key
        )


def test_a_reason_says_where_what_and_how_to_fix() -> None:
    (bad,) = sorted_values([envelope(event_id="no spaces!")]).unroutable
    error = orjson.loads(reason(bad.error, PARTITION, bad.offset, ""))
    assert error["code"] == "no_envelope"
    assert error["step"] == "sort"
    assert error["kind"] == "parked"
    assert error["pointer"] == "/metadata/id"
    assert error["fix"]
    assert (error["topic"], error["partition"], error["offset"]) == (*PARTITION, 0)
