"""Fixes: steps edit the payload exactly or not at all, and nothing else of an event."""

from typing import Any

import msgspec
import pytest

from services.ops.fixes import exact
from services.ops.fixes.payloads import fixed
from services.ops.fixes.steps import MAX_STEPS, Fix
from shared.errors import BAD_FIX, BAD_JSON, DUPLICATE_KEY, FIX_DOES_NOT_APPLY, UserError

AROUND = (
    b'{"metadata": {"id":"e-1","timestamp":"2026-01-01T12:00:00Z","version":"1","n":1.0},"payload":%s,'
    b'"event_name":"order_placed" ,"pipeline_context":{"destinations":[{"table":"t"}]}}'
)
PACKET = b'{"pipeline_context":{"destinations":[{"table":"t"}]},"data":%s}'


def edited(payload: str, *steps: object, around: bytes = AROUND) -> str:
    """The payload after a fix, as it is written."""
    whole = fixed(around % payload.encode(), Fix(exact.loads(exact.dumps(list(steps))))).value
    members = msgspec.json.decode(whole, type=dict[str, msgspec.Raw])
    return bytes(members.get("payload") or members["data"]).decode()


def refused(payload: str, *steps: object, around: bytes = AROUND) -> str:
    """Why a fix does not apply."""
    with pytest.raises(UserError) as why:
        edited(payload, *steps, around=around)
    assert why.value.fault is FIX_DOES_NOT_APPLY
    assert why.value.detail.startswith("the fix does not apply: ")
    return why.value.detail.removeprefix("the fix does not apply: ")


@pytest.mark.parametrize(
    ("payload", "step", "after"),
    [
        ('{"a":1}', {"rename": "/a", "to": "/b"}, '{"b":1}'),
        ('{"a":{"b":[1,{"c":2}]}}', {"rename": "/a/b/1/c", "to": "/d"}, '{"a":{"b":[1,{}]},"d":2}'),
        ('{"a/b":1,"m~n":2}', {"rename": "/a~1b", "to": "/m~0"}, '{"m~n":2,"m~":1}'),
        ('{"a":1}', {"drop": "/a"}, "{}"),
        ('{"a":1}', {"drop": "/b/c"}, '{"a":1}'),
        ('{"a":null}', {"default": "/a", "value": [1]}, '{"a":[1]}'),
        ("{}", {"default": "/a", "value": "x"}, '{"a":"x"}'),
        ('{"a":false}', {"default": "/a", "value": 1}, '{"a":false}'),
        ('{"a":"12,50"}', {"cast": "/a", "to": "number", "decimal": ","}, '{"a":12.50}'),
        ('{"a":" -007.10 "}', {"cast": "/a", "to": "number"}, '{"a":-7.10}'),
        ('{"a":"0"}', {"cast": "/a", "to": "number"}, '{"a":0}'),
        ('{"a":null}', {"cast": "/a", "to": "number"}, '{"a":null}'),
        ('{"a":1.10}', {"cast": "/a", "to": "text"}, '{"a":"1.10"}'),
        ('{"a":12345678901234567890123}', {"cast": "/a", "to": "text"}, '{"a":"12345678901234567890123"}'),
        ('{"a":"Yes"}', {"cast": "/a", "to": "bool"}, '{"a":true}'),
        ('{"a":0}', {"cast": "/a", "to": "bool"}, '{"a":false}'),
        ('{"a":"2026-01-01T12:00:00Z"}', {"cast": "/a", "to": "date-time"}, '{"a":"2026-01-01T12:00:00Z"}'),
        (
            '{"a":"24.12.2026 18:30"}',
            {"cast": "/a", "to": "date-time", "format": "%d.%m.%Y %H:%M", "zone": "Europe/Berlin"},
            '{"a":"2026-12-24T18:30:00+01:00"}',
        ),
        (
            '{"a":1767268800123}',
            {"cast": "/a", "to": "date-time", "unit": "ms"},
            '{"a":"2026-01-01T12:00:00.123000Z"}',
        ),
        ('{"a":[1,2]}', {"patch": [{"op": "add", "path": "/a/-", "value": 3}]}, '{"a":[1,2,3]}'),
        ('{"a":[1,2]}', {"patch": [{"op": "add", "path": "/a/1", "value": 3}]}, '{"a":[1,3,2]}'),
        ('{"a":[1,2]}', {"patch": [{"op": "remove", "path": "/a/0"}]}, '{"a":[2]}'),
        ('{"a":1}', {"patch": [{"op": "replace", "path": "/a", "value": None}]}, '{"a":null}'),
        ('{"a":[1]}', {"patch": [{"op": "copy", "from": "/a", "path": "/c"}]}, '{"a":[1],"c":[1]}'),
        ('{"a":{"b":1}}', {"patch": [{"op": "move", "from": "/a/b", "path": "/a"}]}, '{"a":1}'),
        ('{"a":1.0}', {"patch": [{"op": "test", "path": "/a", "value": exact.Number("1")}]}, '{"a":1.0}'),
    ],
)  # fmt: skip
def test_a_step_edits_the_payload(payload: str, step: dict[str, Any], after: str) -> None:
    assert edited(payload, step) == after
    assert edited(payload, step, around=PACKET) == after


def test_numbers_keep_their_text() -> None:
    payload = (
        '{"x":0,"a":1.10,"b":12345678901234567890,"c":1E-7,"d":-0,"e":0.1000000000000000055511151231257827}'
    )
    assert edited(payload, {"drop": "/x"}) == payload.replace('"x":0,', "")
    given = exact.Number("1.10")
    assert edited("{}", {"default": "/a", "value": given}) == '{"a":1.10}'


def test_a_fix_may_be_what_mends_a_number_that_no_event_may_have() -> None:
    assert edited('{"a":1e400}', {"cast": "/a", "to": "text"}) == '{"a":"1e400"}'
    for left in ('{"a":1e400}', '{"a":12345678901234567890123}', '{"a":"\\ud800"}'):
        assert refused(left, {"drop": "/b"}) != ""


def test_steps_are_applied_one_after_the_other() -> None:
    steps = (
        {"rename": "/cost", "to": "/price"},
        {"cast": "/price", "to": "number", "decimal": ","},
        {"default": "/currency", "value": "EUR"},
        {"drop": "/debug"},
    )
    assert edited('{"cost":"9,90","debug":{}}', *steps) == '{"price":9.90,"currency":"EUR"}'


def test_an_event_does_not_see_what_a_fix_has_done_to_another() -> None:
    fix = Fix(
        [{"default": "/a", "value": []}, {"patch": [{"op": "add", "path": "/a/-", "value": {"b": []}}]}]
    )
    for _ in range(2):
        assert (
            fixed(AROUND % b"{}", fix).value
            == AROUND.replace(b": {", b":{", 1).replace(b'" ,', b'",') % b'{"a":[{"b":[]}]}'
        )


@pytest.mark.parametrize(
    ("payload", "step", "why"),
    [
        ("{}", {"rename": "/price", "to": "/b"}, "/price is not there"),
        ('{"a":1,"b":2}', {"rename": "/a", "to": "/b"}, "/b exists already"),
        ('{"a":1}', {"rename": "/a", "to": "/b/c"}, "/b/c has no object around it"),
        ('{"a":{}}', {"rename": "/a", "to": "/a/b"}, "/a/b has no object around it"),
        ("{}", {"cast": "/a", "to": "number"}, "/a is not there"),
        ('{"a":"hunter2"}', {"cast": "/a", "to": "number"}, "/a is not a number as text"),
        ('{"a":"1,234"}', {"cast": "/a", "to": "number"}, "/a is not a number as text"),
        ('{"a":"1.234,5"}', {"cast": "/a", "to": "number", "decimal": ","},
         "/a is not a number as text with a decimal comma"),
        ('{"a":"NaN"}', {"cast": "/a", "to": "number"}, "/a is not a number as text"),
        ('{"a":"\\u0661"}', {"cast": "/a", "to": "number"}, "/a is not a number as text"),
        ('{"a":true}', {"cast": "/a", "to": "number"}, "/a is not a number as text"),
        ('{"a":[]}', {"cast": "/a", "to": "text"}, "/a is an object or an array"),
        ('{"a":"maybe"}', {"cast": "/a", "to": "bool"}, "/a is neither true nor false"),
        ('{"a":"x"}', {"cast": "/a", "to": "date-time"}, "/a is not a date-time"),
        ('{"a":"2026-01-01"}', {"cast": "/a", "to": "date-time"}, "/a has no offset from UTC: give a zone"),
        ('{"a":1e400}', {"cast": "/a", "to": "date-time"}, "/a is not a time since 1970"),
        ('{"a":1e999999999}', {"cast": "/a", "to": "date-time"}, "/a is not a time since 1970"),
        ('{"a":true}', {"patch": [{"op": "test", "path": "/a", "value": 1}]},
         "/a is not what the patch tests for"),
        ('{"a":[1]}', {"patch": [{"op": "remove", "path": "/a/1"}]}, "/a/1 is not there"),
        ('{"a":[1]}', {"patch": [{"op": "remove", "path": "/a/00"}]}, "/a/00 is not there"),
        ('{"a":[1]}', {"patch": [{"op": "replace", "path": "/a/-", "value": 1}]}, "/a/- is not there"),
        ('{"a":"x"}', {"patch": [{"op": "add", "path": "/a/0", "value": 1}]},
         "/a/0 has no object or array around it that takes it"),
    ],
)  # fmt: skip
def test_a_fix_that_does_not_apply_says_where_and_no_value(
    payload: str, step: dict[str, Any], why: str
) -> None:
    assert refused(payload, step) == why


@pytest.mark.parametrize("place", ["/../metadata/id", "/..", "/metadata/id", "/-", "/0", "/%2e%2e/metadata"])
@pytest.mark.parametrize("op", ["add", "replace", "remove"])
def test_whatever_a_patch_says_all_but_the_payload_stays_byte_for_byte(place: str, op: str) -> None:
    operation = {"op": op, "path": place} | ({} if op == "remove" else {"value": "x"})
    value = AROUND % b'{"a":{}}'
    try:
        after = fixed(value, Fix([{"patch": [operation]}])).value
    except UserError as e:
        assert e.fault is FIX_DOES_NOT_APPLY  # noqa: PT017 - either is right
        return
    before, now = (msgspec.json.decode(v, type=dict[str, msgspec.Raw]) for v in (value, after))
    assert [*before] == [*now]
    assert all(bytes(before[n]) == bytes(now[n]) for n in before if n != "payload")


def test_payload_member_named_like_an_envelope_field_changes_only_the_payload() -> None:
    """Members with the names of an envelope's own are members of the payload, and nothing else."""
    stolen = {"metadata": {"id": "e-2"}, "event_name": "other", "pipeline_context": {}}
    steps = [{"default": f"/{name}", "value": value} for name, value in stolen.items()]
    after = exact.loads(fixed(AROUND % b"{}", Fix(steps)).value)
    before = exact.loads(AROUND % b"{}")
    assert {**after, "payload": {}} == before
    assert after["payload"] == stolen


@pytest.mark.parametrize(
    "fix",
    [
        [], {}, "x", 1, [1], [{}], [{"rename": "/a"}], [{"rename": "/a", "to": "/b", "if": 1}],
        [{"rename": "", "to": "/b"}], [{"rename": "a", "to": "/b"}], [{"drop": ""}], [{"drop": 1}],
        [{"cast": "/a", "to": "float"}], [{"cast": "/a", "to": "number", "decimal": ";"}],
        [{"cast": "/a", "to": "number", "decimal": ["."]}], [{"cast": "/a", "to": ["number"]}],
        [{"cast": "/a", "to": "date-time", "zone": "../etc/passwd"}],
        [{"cast": "/a", "to": "date-time", "zone": "Nowhere"}],
        [{"cast": "/a", "to": "date-time", "format": "%Q"}],
        [{"cast": "/a", "to": "date-time", "unit": ["s"]}],
        [{"patch": []}], [{"patch": {}}], [{"patch": [{"op": "replace", "path": "", "value": {}}]}],
        [{"patch": [{"op": "exec", "path": "/a", "value": 1}]}], [{"patch": [{"op": ["add"]}]}],
        [{"patch": [{"op": "move", "from": "/a", "path": "/a/b"}]}],
        [{"patch": [{"op": "add", "path": "/a"}]}],
        [{"drop": "/a"}] * (MAX_STEPS + 1),
        [{"default": "/a", "value": "\ud800"}],
    ],
)  # fmt: skip
def test_a_fix_that_is_none_is_refused(fix: object) -> None:
    with pytest.raises(UserError) as why:
        Fix(fix)
    assert why.value.fault in {BAD_FIX, BAD_JSON}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b'{"a":1,"a":2}', DUPLICATE_KEY), (b'{"a":NaN}', BAD_JSON), (b'{"a":-Infinity}', BAD_JSON),
        (b"[" * 100_000, BAD_JSON), (b'{"a":"\xff"}', BAD_JSON), (b"", BAD_JSON),
        (b"\xef\xbb\xbf{}", BAD_JSON),
    ],
)  # fmt: skip
def test_text_with_invalid_json_or_a_duplicate_key_is_refused(text: bytes, fault: object) -> None:
    with pytest.raises(UserError) as why:
        exact.loads(text)
    assert why.value.fault is fault


@pytest.mark.parametrize(
    "value",
    [
        b"no json", b"[]", b"1", b'{"payload":[]}', b'{"payload":{},"data":{}}', b'{"metadata":{"id":"a"}}',
        b'{"event_name":"a","event_name":"b","payload":{}}',
        b'{"payload":' + b'{"a":' * 500 + b"1" + b"}" * 501,
    ],
)  # fmt: skip
def test_an_event_without_a_payload_has_none_to_fix(value: bytes) -> None:
    with pytest.raises(UserError) as why:
        fixed(value, Fix([{"default": "/x", "value": 1}]))
    assert why.value.fault is FIX_DOES_NOT_APPLY


def test_copies_of_copies_end_before_memory_does() -> None:
    doubled = [{"op": "copy", "from": "/a", "path": "/a/-"}, {"op": "copy", "from": "/a/0", "path": "/a/-"}]
    assert "the payload grows beyond" in refused('{"a":["' + "x" * 100_000 + '"]}', {"patch": doubled * 9})
    assert "the payload grows beyond" in refused("{}", {"default": "/z", "value": _nested(80)})


def test_a_fix_makes_no_more_than_twice_of_an_event_and_of_itself() -> None:
    """Thousands are edited at once, and 23 copies of copies made 16 MB of 59 bytes."""
    of_nothing = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 24
    assert "the payload grows beyond" in refused('{"a":[]}', {"patch": of_nothing})
    text = "x" * 1_000
    whole, added = f'{{"a":"{text}"}}', [{"op": "copy", "from": "/a", "path": f"/b{n}"} for n in range(3)]
    assert text in edited(whole, {"patch": added[:1]})
    assert "the payload grows beyond" in refused(whole, {"patch": added})
    digits = exact.Number("1" * 1_000)
    assert "the payload grows beyond" in refused("{}", {"default": "/a", "value": digits}, {"patch": added})
    with pytest.raises(UserError, match="more than 65,536 characters"):
        Fix([{"default": "/a", "value": "x" * 65_536}])


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value
