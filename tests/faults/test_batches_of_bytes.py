"""Batches are bounded by bytes, and a planned range that is too large is finished in pieces."""

from collections.abc import Iterator

import orjson
import pytest

from services.writer.batching import unfinished_ranges
from shared import wire
from tests.fixtures.inline import KilledError, Places
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import envelope, event, eventually, landed, ledger_of, records

#: What an event of a topic is taken to have that was not read yet.
_UNKNOWN = 64 << 10


def _planned(scene: Scene) -> Iterator[tuple[int, int, str]]:
    """Epoch, length and digest of every plan of the scene's topic, in their order."""
    for r in records(scene.bootstrap, wire.SETTLED):
        kind, _, epoch = (r.key or b"").decode().partition("/")
        if kind == "plan" and r.value:
            plan = orjson.loads(r.value)
            lengths = [end - start for _, topic, _, start, end in plan["ranges"] if topic == scene.topic]
            if lengths:
                yield int(epoch), sum(lengths), plan["digest"]


def test_events_of_100_kb_come_in_batches_of_few(inline: Scene) -> None:
    body = b'{"text":"%b"}' % (b"x" * 100_000)
    inline.produce(*(envelope(f"{inline.name}-{i}", inline.name, body) for i in range(40)))
    inline.accepted += 40
    inline.writer(batch_bytes=500_000)
    inline.all_landed_once()
    lengths = [length for _, length, _ in _planned(inline)]
    assert (sum(lengths), max(lengths)) == (40, 500_000 // _UNKNOWN)
    assert lengths[1:-1] == [4] * (len(lengths) - 2)  # of 100,108 bytes each


def test_a_plan_that_is_too_large_is_finished_in_pieces_under_its_routes(
    inline: Scene, places: Places, other: Other
) -> None:
    """The same if two more writers end meanwhile, and the route to the other database is removed."""
    first = inline.writer_into(other)
    eventually(lambda: set(first.states.values()) == {"landing"})
    places.kill_at("writer.after_commit")
    inline.produce(*(event(f"e-{i}", inline.name) for i in range(29)), b"no json " + inline.name.encode())
    inline.accepted += 29
    assert isinstance(first.ended(), KilledError)
    assert (inline.landed(), landed(other.dsn, inline.name)) == (29, 0)
    whole = [digest for _, _, digest in _planned(inline)]
    settings = {
        "registry": inline.route(),
        "databases": orjson.dumps({other.name: other.dsn}).decode(),
        "batch_bytes": 4 * _UNKNOWN,
    }
    for after in (0, 1):
        places.kill_at("writer.before_group_commit", after=after)
        assert isinstance(inline.writer(wait=False, **settings).ended(), KilledError)
    inline.writer(**settings)
    inline.all_landed_once()
    assert landed(other.dsn, inline.name) == 29
    pieces = list(_planned(inline))[len(whole) :]
    assert max(length for _, length, _ in pieces[:1]) == 4
    assert {digest for _, _, digest in pieces} == set(whole)
    assert sum(line.unroutable for line in inline.audited(other).lines) == 1
    inline.send(5)
    inline.all_landed_once()
    assert landed(other.dsn, inline.name) == 29


def test_a_plan_that_two_writers_died_of_is_begun_again_in_halves(
    inline: Scene, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same if uncommitted counts are those of the whole range, of which a half starts now."""
    monkeypatch.setattr(unfinished_ranges, "_HALVING_PAUSE_SECONDS", 0.0)
    inline.produce(b"no json " + inline.name.encode(), *(event(f"e-{i}", inline.name) for i in range(31)))
    inline.accepted += 31
    for place in ("before_commit", "before_group_commit", "before_group_commit", "before_group_commit"):
        places.kill_at(f"writer.{place}")
        assert isinstance(inline.writer(wait=False).ended(), KilledError)
    inline.writer()
    inline.all_landed_once()
    lengths = [length for _, length, _ in _planned(inline)]
    assert lengths[:2] == [32, 32]  # who is killed once repeats what it began
    assert 32 > lengths[2] > lengths[3] > lengths[4]
    assert sum(line.unroutable for line in inline.audited().lines) == 1


def test_halves_of_a_plan_that_was_diverted_drain_once(inline: Scene, places: Places, other: Other) -> None:
    """If two writers ended after the markers of the whole range, those of the halves are in addition."""
    first = inline.writer_into(other)
    eventually(lambda: set(first.states.values()) == {"landing"})
    inline.send(1)
    inline.all_landed_once()
    first.stop()
    other.close()
    inline.send(15)
    for _ in range(3):
        places.kill_at("writer.before_group_commit")
        assert isinstance(inline.writer_into(other, wait=False).ended(), KilledError)
    inline.writer_into(other)
    inline.all_landed_once()
    other.open()
    eventually(lambda: landed(other.dsn, inline.name) == 16)
    eventually(lambda: ledger_of(other.dsn, inline.topic) == ledger_of(inline.dsn, inline.topic))
    lengths = [length for _, length, _ in _planned(inline)]
    assert lengths[:3] == [1, 15, 15]
    assert 15 > lengths[3] > lengths[4]
    inline.audited(other)
