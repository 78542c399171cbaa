"""Events with too large headers are parked without them; others land."""

from shared import wire
from shared.errors import RECORD_HEADERS_TOO_LARGE
from tests.fixtures.two_topics import Two, ids
from tests.fixtures.writer import CONTEXT, event, eventually, produce

#: As much as a topic takes by default, nearly.
_LARGE = 900_000
_SPACES = (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES + b" " * _LARGE)
_OTHERS = (wire.HEADER_CONTEXT, b'{"consumer":"%b"}' % (b"x" * _LARGE))
_TIME = (wire.HEADER_RECEIVED_AT, b"2026-11-21T08:00:00Z" + b" " * _LARGE)
_NOTE = ("note", b"x" * _LARGE)


def test_an_event_with_huge_headers_is_parked_without_them_and_its_neighbours_land(two: Two) -> None:
    two.send(*ids(0, 3))
    refused = {}
    for name, headers in {"spaces": [_SPACES], "others": [_OTHERS], "time": [*CONTEXT, _TIME]}.items():
        refused[name] = event(name, two.scene.name)
        produce(two.scene.bootstrap, two.topic, [refused[name]], headers=headers)
    produce(two.scene.bootstrap, two.topic, [event("note", two.scene.name)], headers=[*CONTEXT, _NOTE])
    produce(two.scene.bootstrap, two.topic, [event("not ours", two.scene.name)], headers=[_TIME])
    two.send(*ids(3, 3))
    two.writer()
    eventually(lambda: two.landed() == {*ids(0, 6), "note"})
    eventually(lambda: {r.value for r in two.parked()} == set(refused.values()))
    assert {r.error["code"] for r in two.parked()} == {RECORD_HEADERS_TOO_LARGE.code}
    assert max(len(v) for r in two.parked() for v in r.headers.values()) < 2_000
    two.scene.audited()
