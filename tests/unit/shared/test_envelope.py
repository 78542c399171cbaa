import json

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import envelope
from shared.errors import BAD_ENVELOPE, UserError
from shared.parse import text_checks

GOOD = {
    "metadata": {"id": "order-1001", "timestamp": "2026-11-21T08:00:00Z", "version": "1"},
    "event_name": "order_placed",
    "payload": {"amount": 12.5},
}


def changed(path: str, value: object) -> bytes:
    """The good envelope with another value at `path`; None as value removes the key."""
    document = json.loads(json.dumps(GOOD))
    *parents, last = path.split("/")
    place = document
    for key in parents:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return json.dumps(document).encode()


def test_a_good_envelope() -> None:
    parsed = envelope.parse(json.dumps(GOOD).encode())
    assert parsed.metadata.id == "order-1001"
    assert parsed.metadata.timestamp.isoformat() == "2026-11-21T08:00:00+00:00"
    assert parsed.metadata.version == "1"
    assert parsed.event_name == "order_placed"


@pytest.mark.parametrize("payload", [b"{}", b'{ "a" : 1.50, "b":"\\u00e9" }', b'{"deep":{"er":[1,2]}}'])
def test_the_payload_is_the_producers_own_bytes(payload: bytes) -> None:
    body = json.dumps(GOOD).encode().replace(b'{"amount": 12.5}', b"  " + payload + b" ")
    assert bytes(envelope.parse(body).payload) == payload


def test_a_slice_of_a_batch_is_read_like_a_body() -> None:
    item = msgspec.json.decode(b"[" + json.dumps(GOOD).encode() + b"]", type=list[msgspec.Raw])[0]
    assert envelope.parse(item).event_name == "order_placed"


def test_further_metadata_is_allowed() -> None:
    assert envelope.parse(changed("metadata/tenant", "blue")).metadata.id == "order-1001"


@pytest.mark.parametrize(
    ("path", "value", "pointer"),
    [
        ("metadata", None, ""),
        ("metadata", [], "/metadata"),
        ("metadata/id", None, "/metadata"),
        ("metadata/id", "", "/metadata/id"),
        ("metadata/id", "a" * 129, "/metadata/id"),
        ("metadata/id", "a b", "/metadata/id"),
        ("metadata/id", "a\n", "/metadata/id"),
        ("metadata/id", "a\x00b", "/metadata/id"),
        ("metadata/id", "é", "/metadata/id"),
        ("metadata/id", 7, "/metadata/id"),
        ("metadata/timestamp", None, "/metadata"),
        ("metadata/timestamp", "2026-11-21T08:00:00", "/metadata/timestamp"),
        ("metadata/timestamp", "2026-02-30T08:00:00Z", "/metadata/timestamp"),
        ("metadata/timestamp", "now", "/metadata/timestamp"),
        ("metadata/timestamp", "9999-12-31T23:59:59-08:00", "/metadata/timestamp"),
        ("metadata/timestamp", "0001-01-01T00:00:00+14:00", "/metadata/timestamp"),
        ("metadata/timestamp", 1_700_000_000, "/metadata/timestamp"),
        ("metadata/version", None, "/metadata"),
        ("metadata/version", "", "/metadata/version"),
        ("metadata/version", "v" * 33, "/metadata/version"),
        ("metadata/version", 1, "/metadata/version"),
        ("event_name", None, ""),
        ("event_name", "", "/event_name"),
        ("event_name", "Order", "/event_name"),
        ("event_name", "1order", "/event_name"),
        ("event_name", "../x", "/event_name"),
        ("event_name", "__consumer_offsets", "/event_name"),
        ("event_name", "a" * 64, "/event_name"),
        ("event_name", "order\n", "/event_name"),
        ("payload", None, ""),
        ("payload", [], "/payload"),
        ("payload", "{}", "/payload"),
        ("payload", 1, "/payload"),
        ("further", 1, ""),
    ],
)
def test_invalid_field_is_refused_with_its_pointer(path: str, value: object, pointer: str) -> None:
    with pytest.raises(UserError) as refused:
        envelope.parse(changed(path, value))
    assert refused.value.fault is BAD_ENVELOPE
    assert refused.value.pointer == pointer


@pytest.mark.parametrize("body", [b"null", b"1", b"[]", b"", b'"x"', b"{"])
def test_body_that_is_not_an_object_is_refused(body: bytes) -> None:
    with pytest.raises(UserError):
        envelope.parse(body)


@given(st.text(min_size=1, max_size=30))
def test_no_value_of_the_event_is_in_the_message(secret: str) -> None:
    body = json.dumps({**GOOD, "event_name": f"Secret {secret} secret"}).encode()
    with pytest.raises(UserError) as refused:
        envelope.parse(body)
    assert f"{secret} secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["a", "a" * 63, "order_placed_2"])
def test_names_that_are_allowed(name: str) -> None:
    assert envelope.parse(changed("event_name", name)).event_name == name


@pytest.mark.parametrize("character", ["\r", "\n", "\0", "\x1b", "\x7f", "\x85", "\x9b", "\t"])
def test_a_version_has_no_control_characters_here_nor_in_the_writers_patterns(character: str) -> None:
    for version in (character, f"1{character}", f"1{character}2"):
        event = {
            "metadata": {"id": "a", "timestamp": "2026-11-21T08:00:00Z", "version": version},
            "event_name": "order",
            "payload": {},
        }
        with pytest.raises(UserError, match="bad_envelope"):
            envelope.parse(json.dumps(event).encode())
        for pattern in (text_checks.VERSION, text_checks.PLAIN_VERSION):
            for several in (1, 300):  # by Python, and by Arrow
                assert not any(text_checks.match(pa.array([version] * several), pattern).to_pylist())


def test_versions_of_all_other_characters_are_taken() -> None:
    for version in ("1", "ä€😀" * 10, "v 1.0-β", "\u2028"):
        event = {
            "metadata": {"id": "a", "timestamp": "2026-11-21T08:00:00Z", "version": version},
            "event_name": "order",
            "payload": {},
        }
        assert envelope.parse(json.dumps(event).encode()).metadata.version == version
        for several in (1, 300):
            assert all(text_checks.match(pa.array([version] * several), text_checks.VERSION).to_pylist())


@pytest.mark.parametrize(
    "name",
    [
        "a - at `$/b",
        "a - at `$\0",
        "a - at `$." + "b" * 1_000,
        # A pattern that looks for the last place takes minutes for this one.
        " - at `$" * 25_000 + "\n",
        "\x1b[31m\u202e" * 1_000,
    ],
)
def test_the_name_of_an_unknown_field_is_no_place_and_short(name: str) -> None:
    with pytest.raises(UserError) as raised:
        envelope.parse(json.dumps(GOOD | {name: 1}).encode())
    assert raised.value.pointer == ""
    assert len(raised.value.detail) < 2_000
    assert raised.value.detail.isprintable()
