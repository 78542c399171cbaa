"""The state of a transform is read alike by the driver that obeys it and by the pages that show it."""

import pytest

from shared.transform_state import INITIAL, PAUSED, StateRecord, TransformState, key_of

KEY = key_of("delays")


def test_a_record_has_the_state_that_was_written() -> None:
    state = TransformState(state=PAUSED, reason="wrong airlines", at="2026-01-01T00:00:00Z", by="ada")
    assert StateRecord.parse(KEY, state.value()) == StateRecord("delays", state)
    accepting = TransformState(by="ada", accept=True)
    assert StateRecord.parse(KEY, accepting.value()) == StateRecord("delays", accepting)


def test_a_deleted_state_is_initial() -> None:
    assert StateRecord.parse(KEY, None) == StateRecord("delays", INITIAL)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b'{"state":"running"}'),
        (b"epoch", b'{"state":"running"}'),
        (KEY, b"no JSON"),
        (KEY, b"[]"),
        (KEY, b"{}"),
        (KEY, b'{"state":"stopped"}'),
        (KEY, b'{"state":["running"]}'),
    ],
)
def test_a_record_of_another_client_changes_no_state(key: bytes | None, value: bytes) -> None:
    assert StateRecord.parse(key, value) is None
