"""Reading many values at once comes to the same verdicts as reading each alone."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.writer import bulk, envelopes
from services.writer.envelopes import Record
from shared.errors import UserError
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
_values = st.lists(
    st.none() | st.binary(max_size=5) | _payloads.map(lambda p: envelope(payload=p)), max_size=40
)


def _said(found: Record | UserError) -> tuple[Any, ...]:
    if isinstance(found, UserError):
        return found.fault.code, found.detail, found.pointer
    return found.event_name, found.metadata.id, found.metadata.version, found.body


@settings(deadline=None, max_examples=300)
@given(_values)
def test_together_and_alone_come_to_the_same(values: list[bytes | None]) -> None:
    together = envelopes.read(values)
    alone = [found for value in values for found in envelopes.read([value])]
    slow = [envelopes._read_one(value) for value in values]
    assert [_said(r) for r in together] == [_said(r) for r in alone] == [_said(r) for r in slow]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (envelopes._ID, ["a", "a.b:c-d_e", "a\n", "\n", "", "a b", "é", "x" * 128, "x" * 129, "\u0661"]),
        (envelopes._NAME, ["a", "a_1", "a\n", "A", "1a", "x" * 63, "x" * 64, "aé", "a\u0661"]),
        (envelopes._VERSION, ["1", "", "\n", "1\n", "é" * 32, "é" * 33, "\U0001f600" * 32, "\u2028"]),
        (
            envelopes._TIME,
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
def test_few_and_many_texts_are_matched_alike(pattern: str, texts: list[str]) -> None:
    few = envelopes._match(texts, pattern).to_pylist()
    assert len(texts) < envelopes._FEW
    assert envelopes._match(texts * envelopes._FEW, pattern).to_pylist() == few * envelopes._FEW
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
        b"1,2",
    ],
)
def test_one_that_is_not_surely_strict_is_noticed_among_many(value: bytes) -> None:
    plain = [b'{"a":1,"t":"2026-11-21T08:00:00Z"}'] * 99
    assert bulk.parse(plain) is not None
    for place in (0, 50, 99):
        assert bulk.parse([*plain[:place], value, *plain[place:]]) is None


def test_what_is_common_is_not_suspected() -> None:
    """Each would cost every value of its part a reading of its own."""
    values = [
        b'{"id":"123e4567-e89b-12d3-a456-426614174000","t":"2026-11-21T08:00:00.123456+00:00"}',
        b'{"a": "x", "b": [1, 2], "c": {"d": "\\u00fc"}}',
        b'{"n": 1234567890123, "nested": {"nested": {"nested": {}}}}',
    ]
    assert bulk.parse(values * 80) is not None
