"""Lines of edited events: an edit replaces the payload and no other byte of the event."""

from hashlib import sha256

import pytest

from services.ops.fixes.edited_lines import Named, edit_of, line_of, require_same
from services.ops.fixes.payloads import edited
from shared.errors import BAD_EDITS, UserError

NAMED = Named(17, "t/0/3/onramp.events.x", "e-1", "x")
EVENT = b'{"metadata":{"id":"e-1"},"event_name":"x","payload":{"n":1.10,\r\n"big":1e400,"s":"\\u0041"}}'


def test_a_line_comes_back_as_the_events_payload_with_its_numbers_and_escapes() -> None:
    line = line_of(NAMED, EVENT)
    assert (line.count(b"\n"), line.endswith(b"\n")) == (1, True)
    edit = edit_of(line)
    require_same(edit, NAMED)
    assert (edit.event, edit.payload) == (17, b'{"n":1.10,  "big":1e400,"s":"\\u0041"}')


def test_an_edit_changes_the_payload_and_no_other_byte() -> None:
    found = edited(EVENT, b'{"n": 2.50,"metadata":{"id":"other"}}')
    whole = EVENT[: EVENT.index(b'{"n"')] + b'{"n": 2.50,"metadata":{"id":"other"}}}'
    assert (found.value, found.sha256) == (whole, sha256(whole).digest())


@pytest.mark.parametrize("value", [b"no json", b"[]", b'{"payload":3}', b"", None])
def test_line_of_an_event_without_a_payload_gives_the_reason_and_is_refused_as_an_edit(
    value: bytes | None,
) -> None:
    line = line_of(NAMED, value)
    assert b'"payload":null,"why":"' in line
    with pytest.raises(UserError, match="remove lines") as refused:
        edit_of(line)
    assert refused.value.fault is BAD_EDITS


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b"\xff",
        b"[]",
        b"17",
        b'{"event":17}',
        b'{"event":17,"payload":[]}',
        b'{"event":17,"payload":"{}"}',
        b'{"event":17,"payload":{"a":NaN}}',
        b'{"event":17,"payload":{},"payload":{}}',
        b'{"event":"17","payload":{}}',
        b'{"event":1.0,"payload":{}}',
        b'{"event":-1,"payload":{}}',
        b'{"event":true,"payload":{}}',
        b'{"event":99999999999999999999,"payload":{}}',
        b'{"event":17,"payload":{},"destinations":[]}',
        b'{"event":17,"payload":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ],
)
def test_malformed_line_is_refused_without_a_traceback(line: bytes) -> None:
    with pytest.raises(UserError) as refused:
        edit_of(line)
    assert refused.value.fault is BAD_EDITS


@pytest.mark.parametrize("said", [b'"event_id":"e-2"', b'"event_name":null', b'"key":"t/0/4/d"', b'"key":1'])
def test_a_line_that_says_another_id_name_or_place_is_refused(said: bytes) -> None:
    with pytest.raises(UserError, match="only a payload"):
        require_same(edit_of(b'{"event":17,' + said + b',"payload":{}}'), NAMED)


@pytest.mark.parametrize("payload", [b'{"s":"\\ud800"}', b'{"a":' * 70 + b"1" + b"}" * 70])
def test_an_edit_that_would_be_no_event_is_refused(payload: bytes) -> None:
    with pytest.raises(UserError) as refused:
        edited(EVENT, payload)
    assert refused.value.fault is BAD_EDITS
