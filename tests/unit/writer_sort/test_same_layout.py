"""Values of the same layout are parsed as columns, and only those."""

import orjson
import pyarrow as pa
import pytest

from shared.parse import same_layout
from tests.fixtures.writer import envelope

N = 100
COMPACT = [envelope(f"order-{n}", payload=b'{"n":%d}' % n) for n in range(N)]
SPACED = [value.replace(b":{", b": {").replace(b",", b", ") for value in COMPACT]
TURNED = [b'{"event_name":"b","metadata":{"version":"1",%b' % value[13:] for value in COMPACT]
TURNED = [v.replace(b',"version":"1"},"event_name":"order_placed"', b"}") for v in TURNED]
CONTEXT = b'{"destinations":[{"type":"postgres","note":"a \\" and a }"}]}'
PACKETS = [b'{"pipeline_context":%b,"data":{"n":%d}}' % (CONTEXT, n) for n in range(N)]
DESTINED = [value[:-1] + b',"pipeline_context":%b}' % CONTEXT for value in COMPACT]


@pytest.mark.parametrize(
    ("values", "context"),
    [(COMPACT, None), (SPACED, None), (TURNED, None), (PACKETS, CONTEXT), (DESTINED, CONTEXT)],
    ids=["compact", "spaced", "turned", "packets", "destined"],
)
def test_all_values_of_one_layout_match_whatever_it_is(values: list[bytes], context: bytes | None) -> None:
    template = same_layout.template_of(values[7])
    assert template is not None
    assert template.context == context
    match = same_layout.match(template, pa.array(values))
    assert match.matches.all()
    assert [orjson.loads(body) for body in match.columns.column("body").to_pylist()] == [
        {"n": n} for n in range(N)
    ]
    if template.texts:
        assert match.columns.column("id").to_pylist() == [f"order-{n}" for n in range(N)]


def test_a_slice_of_values_is_cut_where_it_lies() -> None:
    template = same_layout.template_of(COMPACT[0])
    assert template is not None
    match = same_layout.match(template, pa.array(COMPACT).slice(40, 9))
    assert match.columns.column("id").to_pylist() == [f"order-{n}" for n in range(40, 49)]


def test_a_body_that_others_follow_gives_no_template() -> None:
    assert same_layout.template_of(b'{"payload":{},' + envelope()[1:-14] + b"}") is None


@pytest.mark.parametrize(
    "other",
    [
        COMPACT[0].replace(b'"version"', b'"Version"'),
        COMPACT[0].replace(b'"payload"', b'"pAyload"'),
        COMPACT[0] + b" ",
        COMPACT[0][:-1],
        COMPACT[0].replace(b'"1"', b'"\\n"'),
        COMPACT[0].replace(b'"1"', b'"\x01"'),
        COMPACT[0].replace(b"order-0", b"order 0"),
        COMPACT[0].replace(b"order-0", b'order\\"0'),
        COMPACT[0].replace(b"order_placed", b"Order_placed"),
        COMPACT[0].replace(b"T08", b"t08"),
        COMPACT[0].replace(b'{"n":0}', b"[]"),
        COMPACT[0].replace(b'{"n":0}', b'{"n":0} '),
        COMPACT[0].replace(b'{"n":0}', b'{"n":0},"payload":{}'),
        COMPACT[0].replace(b'{"n":0}', b'{"n":0,"n":1}'),
        COMPACT[0].replace(b'{"n":0}', b'{"n":' + b"[" * 63 + b"]" * 63 + b"}"),
        COMPACT[0].replace(b'{"n":0}', b'{"n":12345678901234567890123}'),
        b"",
        b'"',
        b'{"metadata":{"id":"',
    ],
)
@pytest.mark.parametrize("place", [0, 50, N])
def test_value_that_may_differ_from_the_template_in_layout_does_not_match(other: bytes, place: int) -> None:
    template = same_layout.template_of(COMPACT[1])
    assert template is not None
    values = [*COMPACT[:place], other, *COMPACT[place:]]
    assert not same_layout.match(template, pa.array(values)).matches[place]
