"""An array is cut into its items in short steps: no other thread has a turn within one."""

import re
import tracemalloc
from collections.abc import Callable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingest.decode import array_items
from services.ingest.decode.array_items import split_array
from services.ingest.sink import Record, SendResult
from tests.fixtures.ingest import envelope
from tests.unit.ingest.conftest import MakeGateway

MB = 1 << 20
LONG: dict[str, Callable[[], bytes]] = {
    "one string": lambda: b'"' + b"x" * 4 * MB + b'"',
    "one string of escapes": lambda: b'"' + b"\\\\" * 2 * MB + b'"',
    "escaped quotes": lambda: b'"' + b'\\"' * 2 * MB + b'"',
    "space": lambda: b"[" + b" " * 4 * MB + b"]",
    "a number": lambda: b"1" * 4 * MB,
    "strings of 900": lambda: b"[" + (b'"' + b"x" * 900 + b'",') * 4000 + b"1]",
    "strings with escapes": lambda: b"[" + (b'"' + b"x\\n" * 300 + b'",') * 4000 + b"1]",
    "brackets": lambda: b"[" * MB + b"]" * MB,
    "small arrays": lambda: b"[" + b"[1]," * MB + b"1]",
}


class Watched:
    """A pattern, and the most bytes that one match of it has passed."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern
        self.most = 0

    def match(self, body: bytes, position: int) -> re.Match[bytes] | None:
        token = self._pattern.match(body, position)
        self.most = max(self.most, 0 if token is None else token.end() - position)
        return token


@pytest.mark.parametrize("make", LONG.values(), ids=list(LONG))
def test_no_match_passes_more_than_a_piece(
    make: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    patterns = {name: Watched(p) for name, p in vars(array_items).items() if isinstance(p, re.Pattern)}
    assert patterns
    for name, pattern in patterns.items():
        monkeypatch.setattr(array_items, name, pattern)
    item = make()
    assert split_array(b"[" + item + b", {}]", 10) == [item, b"{}"]
    assert max(p.most for p in patterns.values()) < 1.2 * MB


#: As long as a piece may be, a byte less and a byte more.
_TEXT = st.builds(
    lambda text, n, tail: text + "x" * n + tail,
    st.text(max_size=5),
    st.sampled_from([0, 1, 998, 999, 1000, 1001, 5005]),
    st.text('\\"[]{},x', max_size=12),
)
_JSON = st.recursive(
    _TEXT | st.integers(-9, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(_JSON, max_size=5), st.sampled_from([b"", b" ", b"\n\t"]))
def test_the_slices_are_the_items(items: list[object], space: bytes) -> None:
    written = [orjson.dumps(item) for item in items]
    assert split_array(space + b"[" + (space + b",").join(written) + space + b"]", 10) == written


@pytest.mark.parametrize(
    "body", [b"[1", b'["', b'["\\', b'["' + b"x" * 9000, b"[1]]", b"[[1]", b"[1}", b"[] 1", b"[" * 9000]
)
def test_body_whose_brackets_form_no_array_is_not_cut(body: bytes) -> None:
    assert split_array(body, 10) is None


@pytest.mark.anyio
async def test_no_parsed_document_is_held_while_kafka_is_slow(
    make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = make_gateway()
    held: list[int] = []
    send = gateway.sink.send

    async def measured(records: list[Record]) -> list[SendResult]:
        held.append(tracemalloc.get_traced_memory()[0] - before)
        return await send(records)

    monkeypatch.setattr(gateway.sink, "send", measured)
    body = orjson.dumps([envelope(f"e-{n}") | {"payload": {"a": [[]] * 50_000}} for n in range(2)])
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert (await gateway.post(body)).status_code == 202
    finally:
        tracemalloc.stop()
    assert held[0] < 10 * len(body)
