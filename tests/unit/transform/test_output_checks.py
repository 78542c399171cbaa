"""An output is checked as the gateway would check the event: in runs, rehearsals and tests of authors."""

import pytest

from services.transform.function.output_checks import OutputChecks
from services.transform.function.results import OutputEvent
from shared.errors import UserError
from shared.registry.entries import EventType
from shared.strict_json import MAX_DEPTH

TYPES = {
    "keyed": EventType.model_validate({"key": "/user"}),
    "strict": EventType.model_validate({"schema": {"required": ["n"]}}),
    "small": EventType.model_validate({"max_bytes": 50}),
}
CHECKS = OutputChecks([*TYPES, "unregistered"], TYPES, max_event_bytes=1_000)


def key_of(name: str, payload: bytes = b"{}", size: int = 10) -> bytes | None:
    return CHECKS.key_of(1, OutputEvent(name, payload), size)


def nested(levels: int) -> bytes:
    return b'{"n":' + b"[" * levels + b"]" * levels + b"}"


def test_the_key_is_of_the_payload_or_the_id() -> None:
    assert key_of("keyed", b'{"user":7}') == b"7"
    assert key_of("strict", b'{"n":1}') is None
    assert key_of("unregistered") is None


@pytest.mark.parametrize(
    ("name", "payload", "size", "says"),
    [
        ("unregistered", b"{}", 1_001, "event_too_large: 1001 bytes; the limit is 1000"),
        ("small", b"{}", 51, "event_too_large: 51 bytes; this type's limit is 50"),
        ("keyed", b"{}", 10, "key_missing"),
        ("strict", b"{}", 10, "schema_mismatch"),
        ("strict", b"{", 10, "the payload is no JSON"),
        ("strict", nested(MAX_DEPTH - 1), 10, "too_deep"),
    ],
)
def test_an_output_that_the_gateway_would_reject_is_bad(
    name: str, payload: bytes, size: int, says: str
) -> None:
    with pytest.raises(UserError) as raised:
        key_of(name, payload, size)
    assert raised.value.fault.code == "transform_bad_output"
    assert raised.value.detail.startswith(f"output 1 ({name}): ")
    assert says in raised.value.detail


def test_a_name_that_is_not_listed_is_not_shown() -> None:
    with pytest.raises(UserError) as raised:
        key_of("ada_lovelace")
    assert raised.value.detail == (
        "output 1: transform_bad_output: the registry does not list this event name in `to`"
    )


def test_the_deepest_output_that_the_gateway_accepts_is_good() -> None:
    assert key_of("strict", nested(MAX_DEPTH - 2)) is None


def test_any_name_may_be_an_output_before_a_transform_is_registered() -> None:
    checks = OutputChecks(None, TYPES)
    assert checks.fault_of([OutputEvent("other", b"{}")]) is None
    fault = checks.fault_of([OutputEvent("other", b"{}"), OutputEvent("strict", b"{}")])
    assert fault is not None
    assert fault.detail.startswith("output 2 (strict): schema_mismatch")
