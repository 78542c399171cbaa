"""Checking many values at once gives the same outcomes as checking each alone."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.parse import json_checks, one_by_one, parse, text_checks
from shared.parse.events import Events
from tests.fixtures.examples import examples
from tests.fixtures.writer import envelope

#: What one parser reads otherwise than another, or what only looks like it.
_TEXTS = st.sampled_from(
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"a" :2}',
        b'{"a" :1}',
        b'{"a":1,"b\\u0022:c":2,"a":3}',
        b'{"a":1,"\\u0061":2}',
        b'{"x":"\\u003a","a":{"b":1,"b":1}}',
        b'{"x":"\\u00e4\\u0000"}',
        b'{"x":"\\":"}',
        b'{"n":1234567890123456789}',
        b'{"n":"12345678901234567890"}',
        b'{"n":123456789012345678901}',
        b'{"n":18446744073709551616}',
        b'{"n":1e400}',
        b'{"n":NaN}',
        b'{"id":"123e4567-e89b-12d3-a456-426614174000"}',
        b'{"t":"2026-11-21T08:00:00.123456Z"}',
        b'{"l":' + b"[" * 62 + b"]" * 62 + b"}",
        b'{"l":' + b"[" * 63 + b"]" * 63 + b"}",
        b'{"l":[' + b"{}," * 80 + b"{}]}",
        b'{"a":1}]',
        b'{"a":1},{"b":2}',
        b'{"a":"' + "\N{SNOWMAN}".encode() + b'"}',
        b'{"a":"\xff"}',
        b'{"a":"\\ud800"}',
        b"[1]",
        b"null",
    ]
)
_SPACES = st.sampled_from([None, 2, 0])
_documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=3)
    ),
    max_leaves=8,
)


def _written(document: Any, indent: int | None, ascii_only: bool) -> bytes:
    text = json.dumps({"a": document}, indent=indent, ensure_ascii=ascii_only)
    return text.encode(errors="surrogatepass")


_payloads = _TEXTS | st.builds(_written, _documents, _SPACES, st.booleans())
_MEMBERS = ("metadata", "event_name", "payload")


def _in_order(members: Sequence[str], separators: tuple[str, str], context: bytes, payload: bytes) -> bytes:
    """An envelope with its members in this order; `context` is an additional member, as JSON."""
    parts = {
        "metadata": b'{"id":"a-1","timestamp":"2026-11-21T08:00:00Z","version":"1"}',
        "event_name": b'"bench"',
        "payload": payload,
        "pipeline_context": context,
    }
    comma, colon = (text.encode() for text in separators)
    return b"{%b}" % comma.join(b'"%b"%b%b' % (name.encode(), colon, parts[name]) for name in members)


_separators = st.sampled_from([(",", ":"), (", ", ": "), (",\n ", " : ")])
_contexts = st.sampled_from([b'{"destinations":[]}', b'{"destinations":["\\"}"]}', b'{"a":1,"a":2}', b"1"])
_orders = st.permutations(_MEMBERS) | st.permutations([*_MEMBERS, "pipeline_context"])
_packets = st.builds(b'{"pipeline_context":%b,"data":%b}'.__mod__, st.tuples(_contexts, _payloads))
#: As they stand between the quotes, escaped or not.
_between_quotes = st.sampled_from(
    [
        b"a",
        b"",
        b'a"b',
        b'a\\"b',
        b"a\\",
        b"a\\u0041",
        b"a\n",
        "\u00e9".encode(),
        b"\xff",
        b"x" * 129,
        b"2026-02-30T08:00:00Z",
        b"0026-01-01T00:00:00Z",
    ]
)


def _with_text(member: str, text: bytes, payload: bytes) -> bytes:
    text_checks = {"id": b"a-1", "timestamp": b"2026-11-21T08:00:00Z", "version": b"1", "name": b"bench"}
    inserted = tuple((text_checks | {member: text}).values())
    form = b'{"metadata":{"id":"%b","timestamp":"%b","version":"%b"},"event_name":"%b","payload":%b}'
    return form % (*inserted, payload)


_odd = st.builds(
    _with_text, st.sampled_from(["id", "timestamp", "version", "name"]), _between_quotes, _payloads
)
_one = (
    st.none()
    | st.binary(max_size=5)
    | _payloads.map(lambda p: envelope(payload=p))
    | st.builds(_in_order, _orders, _separators, _contexts, _payloads)
    | _packets
    | _odd
)
_values = st.lists(_one, max_size=40)


def _said(events: Events) -> list[Any]:
    """Each event's columns, or its error."""
    rows = events.columns.to_pylist()
    errors = {i: (e.fault.code, e.detail, e.pointer) for i, e in events.errors.items()}
    return [errors.get(i, row) for i, row in enumerate(rows)]


def _alone(sample: Sequence[bytes | None]) -> list[Any]:
    """The same, with each value checked by its contract alone."""
    return [said for value in sample for said in _said(one_by_one.as_events([one_by_one.read_one(value)]))]


@settings(deadline=None, max_examples=examples(100))
@given(_values)
def test_together_and_alone_come_to_the_same(sample: list[bytes | None]) -> None:
    alone = [said for value in sample for said in _said(one_by_one.read([value]))]
    assert _said(one_by_one.read(sample)) == alone == _alone(sample)


@settings(deadline=None, max_examples=examples(50))
@given(_values, st.lists(_one, min_size=1, max_size=3), st.integers(0, 200))
def test_many_that_are_written_alike_and_some_others_come_to_the_same(
    some: list[bytes | None], forms: list[bytes | None], at: int
) -> None:
    many = forms * 100
    sample = [*many[:at], *some, *many[at:]]
    assert _said(parse.read(pa.array(sample, pa.binary()))) == _alone(sample)


@pytest.mark.parametrize(
    ("pattern", "sample"),
    [
        (text_checks.ID, ["a", "a.b:c-d_e", "a\n", "\n", "", "a b", "é", "x" * 128, "x" * 129, "\u0661"]),
        (text_checks.NAME, ["a", "a_1", "a\n", "A", "1a", "x" * 63, "x" * 64, "aé", "a\u0661"]),
        (text_checks.VERSION, ["1", "", "\n", "1\n", "é" * 32, "é" * 33, "\U0001f600" * 32, "\u2028"]),
        (
            text_checks.TIME,
            [
                "2026-11-21T08:00:01Z",
                "2026-11-21T08:00:01Z\n",
                "2026-11-21T08:00:01.1234567Z",
                "2026-11-21T24:00:01Z",
                "2026-11-21T08:00:01+23:59",
                "2026-11-2\u0661T08:00:01Z",
                "0026-11-21T08:00:01Z",
            ],
        ),
    ],
)
def test_few_and_many_texts_are_matched_alike(pattern: str, sample: list[str]) -> None:
    few = text_checks.match(pa.array(sample), pattern).to_pylist()
    assert len(sample) < text_checks._FEW
    assert (
        text_checks.match(pa.array(sample * text_checks._FEW), pattern).to_pylist() == few * text_checks._FEW
    )
    assert True in few
    assert False in few


@pytest.mark.parametrize(
    "value",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"b\\u0022:c":2,"a":3}',
        b'{"a":1,"b" :2,"b":3}',
        b'{"n":123456789012345678901}',
        b"[" * 65 + b"]" * 65,
    ],
)
def test_value_that_may_not_be_strict_json_is_detected_among_many_values(value: bytes) -> None:
    plain = [b'{"a":1,"t":"2026-11-21T08:00:00Z"}'] * 99
    assert json_checks.parse(plain) is not None
    for place in (0, 50, 99):
        assert json_checks.parse([*plain[:place], value, *plain[place:]]) is None


def test_value_that_is_not_a_single_json_document_is_refused_among_many_values() -> None:
    """Joined it would be two documents."""
    with pytest.raises(ValueError, match="content after document"):
        json_checks.parse([b"{}"] * 50 + [b"1,2"] + [b"{}"] * 49)


def test_common_values_pass_the_batch_check() -> None:
    """Each would make every value of its part be parsed alone."""
    several = [
        b'{"id":"123e4567-e89b-12d3-a456-426614174000","t":"2026-11-21T08:00:00.123456+00:00"}',
        b'{"a": "x", "b": [1, 2], "c": {"d": "\\u00fc"}}',
        b'{"n": 1234567890123, "nested": {"nested": {"nested": {}}}}',
    ]
    assert json_checks.parse(several * 80) is not None
