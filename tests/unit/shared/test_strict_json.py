"""strict_json compared with a slow oracle that generated the document."""

import json
from dataclasses import dataclass

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared import strict_json
from shared.errors import BAD_JSON, BIG_INTEGER, DUPLICATE_KEY, TOO_DEEP, Fault, UserError
from tests.fixtures.examples import examples

SMALLEST, LARGEST = -(2**63), 2**64 - 1


@dataclass(frozen=True)
class Obj:
    """An object as it is written: a key may come twice."""

    pairs: tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Arr:
    items: tuple[object, ...]


# Characters that the byte-level shortcuts of strict_json might confuse.
TEXT = st.text(alphabet='ab":\\{}[],0123456789 \n\u00e9\u2028\U0001f600', max_size=8)
# Few, so that one often comes twice.
KEYS = st.sampled_from(["a", "b", '":', 'a":', "\u00e9"])
INTEGERS = st.one_of(
    st.integers(-(10**25), 10**25),
    st.sampled_from([SMALLEST, SMALLEST - 1, LARGEST, LARGEST + 1, 10**18, 10**19, -(10**18), 0]),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), INTEGERS, st.floats(allow_nan=False, allow_infinity=False), TEXT
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: Arr(tuple(items))),
        st.lists(st.tuples(KEYS | TEXT, inner), max_size=4).map(lambda pairs: Obj(tuple(pairs))),
    ),
    max_leaves=12,
)


@st.composite
def written(draw: st.DrawFn) -> tuple[object, bytes]:
    """A document and one of the many ways to write it down."""
    document = draw(DOCUMENTS)
    spaces = st.sampled_from(["", "", "", " ", "\t", "\r\n", "  "])

    def text(value: object) -> str:
        return '"' + "".join(character(c) for c in value) + '"'

    def character(c: str) -> str:
        plain = c not in '"\\' and c >= " "
        escaped = "".join(f"\\u{unit:04x}" for unit in _utf16(c))
        return draw(st.sampled_from([c, escaped] if plain else [json.dumps(c)[1:-1], escaped]))

    def write(value: object) -> str:
        if isinstance(value, Obj):
            members = ",".join(
                f"{draw(spaces)}{text(key)}{draw(spaces)}:{draw(spaces)}{write(each)}{draw(spaces)}"
                for key, each in value.pairs
            )
            return "{" + members + "}"
        if isinstance(value, Arr):
            return "[" + ",".join(f"{draw(spaces)}{write(each)}{draw(spaces)}" for each in value.items) + "]"
        return text(value) if isinstance(value, str) else json.dumps(value)

    return document, f"{draw(spaces)}{write(document)}{draw(spaces)}".encode()


def _utf16(character: str) -> list[int]:
    encoded = character.encode("utf-16-be")
    return [int.from_bytes(encoded[i : i + 2], "big") for i in range(0, len(encoded), 2)]


def oracle(document: object) -> tuple[object, set[Fault]]:
    """The expected result of a document: its faults, or its value."""
    faults = set()

    def walk(value: object) -> object:
        if isinstance(value, Obj):
            keys = [key for key, _ in value.pairs]
            if len(set(keys)) < len(keys):
                faults.add(DUPLICATE_KEY)
            return {key: walk(each) for key, each in value.pairs}
        if isinstance(value, Arr):
            return [walk(each) for each in value.items]
        if type(value) is int and not SMALLEST <= value <= LARGEST:
            faults.add(BIG_INTEGER)
        return value

    return walk(document), faults


@settings(deadline=None, max_examples=examples(200))
@given(written())
@example((Obj((("a", 1), ('x":', 2), ("a", 3))), b'{"a":1,"x\\":":2,"a":3}'))
@example((Obj((('":', 1), ('":', 2))), b'{"\\u0022:":1,"\\":":2}'))
def test_agrees_with_the_oracle(case: tuple[object, bytes]) -> None:
    document, body = case
    value, faults = oracle(document)
    if faults:
        with pytest.raises(UserError) as refused:
            strict_json.loads(body)
        assert refused.value.fault in faults
    else:
        assert strict_json.loads(body) == value


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_whatever_comes_there_is_a_value_or_a_reason(body: bytes) -> None:
    try:
        value = strict_json.loads(body)
    except UserError:
        return  # any other exception fails the test
    assert value == orjson.loads(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"1e400",
        b'"\\ud800"',
        b'"\xed\xa0\x80"',  # a surrogate in UTF-8
        b'"\xc0\xaf"',  # an overlong slash
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        '"é"'.encode("utf-16"),
        b"{}{}",
        b"[1,]",
        b'{"a":1,}',
        b"01",
        b"'a'",
        b'"\x01"',
        b"// a comment\n1",
    ],
)
def test_invalid_json_is_refused_as_bad_json(body: bytes) -> None:
    with pytest.raises(UserError) as refused:
        strict_json.loads(body)
    assert refused.value.fault is BAD_JSON


@pytest.mark.parametrize("number", [SMALLEST, LARGEST, 0, 10**18, -(10**18)])
def test_integers_of_the_range_keep_their_digits(number: int) -> None:
    assert strict_json.loads(b'{"n":%d}' % number) == {"n": number}


@pytest.mark.parametrize("number", [SMALLEST - 1, LARGEST + 1, 10**19 * 2, -(10**19)])
def test_integers_just_outside_are_refused(number: int) -> None:
    with pytest.raises(UserError) as refused:
        strict_json.loads(b'{"n":[%d]}' % number)
    assert refused.value.fault is BIG_INTEGER


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"b":2,"a":3}',
        b'[{"x":{"a":1,"a":2}}]',
        b'{"a":1,"\\u0061":2}',  # the same key, spelled otherwise
        b'{"a" :1,"a":2}',
        b'{"a":1,"a"\t\r\n :2}',
        # What the first byte count would miss: a string that makes up for the lost key.
        b'{"a":1,"a":2,"b":"\\u0022:"}',
        b'{"a":1,"a" :2,"b" :3}',
        b'{"":1,"":2}',
    ],
)
def test_a_key_that_comes_twice_is_found(body: bytes) -> None:
    with pytest.raises(UserError) as refused:
        strict_json.loads(body)
    assert refused.value.fault is DUPLICATE_KEY


@pytest.mark.parametrize(
    ("digits", "fault"),
    # Beyond a double's range orjson itself refuses the number as an infinity.
    [(21, BIG_INTEGER), (23, BIG_INTEGER), (308, BIG_INTEGER), (400, BAD_JSON), (100_000, BAD_JSON)],
)
def test_long_integers_are_refused_however_long(digits: int, fault: Fault) -> None:
    with pytest.raises(UserError) as refused:
        strict_json.loads(b'{"n":' + b"9" * digits + b"}")
    assert refused.value.fault is fault


def test_the_message_names_the_key_and_no_value() -> None:
    with pytest.raises(UserError, match="'card'") as refused:
        strict_json.loads(b'{"card":"4111-secret","card":"4222-secret"}')
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("open_", "close"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("inside", [b"1", b"[]", b"{}"])
@pytest.mark.parametrize("depth", [63, 64, 65, 66, 200, 300, 900, 1_100, 100_000])
def test_depth_is_counted_in_objects_and_arrays(
    open_: bytes, close: bytes, inside: bytes, depth: int
) -> None:
    own = 0 if inside == b"1" else 1
    body = open_ * (depth - own) + inside + close * (depth - own)
    if depth <= strict_json.MAX_DEPTH:
        strict_json.check_depth(body, strict_json.loads(body))
    else:
        with pytest.raises(UserError) as refused:
            strict_json.check_depth(body, strict_json.loads(body))
        assert refused.value.fault is TOO_DEEP


def test_brackets_in_strings_are_no_depth() -> None:
    body = b'{"a":"' + b"[" * 500 + b'"}'
    strict_json.check_depth(body, strict_json.loads(body))


def test_wide_is_not_deep() -> None:
    body = b"[" + b",".join([b"[[{}]]"] * 500) + b"]"
    strict_json.check_depth(body, strict_json.loads(body))
