"""Rules of an unreachable database: divert, mark, queue, drain, halt."""

import orjson
import pytest

from services.ops.operate import halts_sql
from services.writer.park.diverted_topic import HEADER
from shared import wire
from tests.fixtures.inline import Inline, KilledError, Places
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import delete_records, eventually, execute, landed, ledger_of, records


def _heads(scene: Scene, database: str) -> list[str]:
    """The kinds of the records diverted for `database`, in the topic's order."""
    found = [orjson.loads(r.headers[HEADER]) for r in records(scene.bootstrap, wire.SYSTEM_ERRORS)]
    return [head["kind"] for head in found if head["database"] == database]


def _landing(writer: Inline) -> bool:
    return set(writer.states.values()) == {"landing"}


@pytest.fixture
def both(inline: Scene, other: Other) -> Inline:
    """A writer of which both databases have landed ten events."""
    writer = inline.writer_into(other)
    eventually(lambda: _landing(writer))
    inline.send(10)
    inline.all_landed_once()
    eventually(lambda: landed(other.dsn, inline.name) == 10)
    return writer


def test_a_range_is_closed_after_its_records_and_repeats_of_them_count_once(
    inline: Scene, both: Inline, places: Places, other: Other
) -> None:
    other.close()
    place = "writer.between_divert_and_marker"
    inline.send(10)
    eventually(lambda: inline.landed() == 20)
    eventually(lambda: inline.group() == inline.settled())  # its markers are all there
    before = _heads(inline, other.name).count("marker")
    places.kill_at(place)
    inline.send(10)
    assert isinstance(both.ended(), KilledError)
    kinds = _heads(inline, other.name)
    assert (kinds.count("marker"), kinds.count("event")) == (before, 20)
    other.open()
    inline.writer_into(other)
    eventually(lambda: landed(other.dsn, inline.name) == inline.accepted)
    inline.all_landed_once()
    inline.audited(other)


def test_killed_in_the_middle_of_a_drain_nothing_lands_twice(
    inline: Scene, both: Inline, places: Places, other: Other
) -> None:
    other.close()
    for _ in range(3):
        inline.send(10)
        eventually(lambda: inline.landed() == inline.accepted)
    places.kill_at("writer.mid_drain")
    other.open()
    assert isinstance(both.ended(), KilledError)
    assert 10 < landed(other.dsn, inline.name) < 40
    inline.writer_into(other)
    eventually(lambda: landed(other.dsn, inline.name) == 40)
    inline.all_landed_once()
    inline.audited(other)


def test_later_events_queue_behind_those_that_wait(
    inline: Scene, both: Inline, places: Places, other: Other
) -> None:
    other.close()
    for _ in range(2):
        inline.send(10)
        eventually(lambda: inline.landed() == inline.accepted)
    drained = places.hold_at("writer.after_commit")
    other.open()
    drained.wait()
    before = _heads(inline, other.name).count("event")
    inline.send(10)
    eventually(lambda: inline.landed() == inline.accepted)
    assert _heads(inline, other.name).count("event") == before + 10
    drained.go_on()
    eventually(lambda: landed(other.dsn, inline.name) == inline.accepted)
    eventually(lambda: _landing(both))
    inline.audited(other)


def test_waiting_events_land_under_the_routes_in_force_when_they_were_diverted(
    inline: Scene, both: Inline, other: Other
) -> None:
    other.close()
    inline.send(10)
    eventually(lambda: inline.landed() == 20)
    before = _routes_named(inline)
    inline.route()  # to `other` no more
    eventually(lambda: _land_one(inline) and _routes_named(inline) > before)
    other.open()
    eventually(lambda: landed(other.dsn, inline.name) >= 20)  # more, if the writer saw the change late
    eventually(lambda: _landing(both))


def _land_one(scene: Scene) -> bool:
    scene.send(1)
    scene.all_landed_once()
    return True


def _routes_named(scene: Scene) -> set[bytes | None]:
    """The snapshots of routes that plans have named."""
    return {r.key for r in records(scene.bootstrap, wire.SETTLED) if (r.key or b"").startswith(b"routes/")}


def test_a_range_that_has_nothing_for_a_database_that_is_out_is_closed_too(
    inline: Scene, both: Inline, other: Other
) -> None:
    other.close()
    inline.send(1)
    eventually(lambda: inline.landed() == 11)
    inline.produce(b"not for us", headers=[])
    eventually(lambda: inline.group() == inline.settled())
    other.open()
    eventually(lambda: ledger_of(other.dsn, inline.topic) == inline.ledger())
    eventually(lambda: _landing(both))
    inline.audited(other)


def test_with_no_database_up_nothing_is_diverted_and_nothing_moves(
    inline: Scene, both: Inline, other: Other
) -> None:
    def markers() -> int:  # records that no marker closes wait for nobody
        return sum(_heads(inline, name).count("marker") for name in (inline.database, other.name))

    own = other.sibling(inline.dsn)
    other.close()
    own.close()
    before = inline.group(), markers()
    inline.send(10)
    eventually(lambda: set(both.states.values()) == {"out"})
    assert (inline.group(), markers()) == before
    own.open()
    other.open()
    eventually(lambda: landed(other.dsn, inline.name) == 20)
    inline.all_landed_once()
    inline.audited(other)


def test_a_ledger_that_went_back_halts_its_database_alone(inline: Scene, both: Inline, other: Other) -> None:
    execute(other.dsn, "UPDATE onramp.ledger SET next_offset = next_offset - 1 WHERE next_offset > 0")
    eventually(lambda: both.states[other.name] == "halted")
    assert other.name in both.trouble
    inline.send(10)
    inline.all_landed_once()
    assert landed(other.dsn, inline.name) == 10
    both.stop()
    again = inline.writer_into(other, reconcile_seconds=3600)  # a restart resolves nothing
    eventually(lambda: again.states[other.name] == "halted")
    inline.send(10)
    inline.all_landed_once()
    assert landed(other.dsn, inline.name) == 10


@pytest.mark.parametrize(("how", "lands"), [("refill", 10), ("skip", 9)])
def test_a_marker_that_counts_more_than_is_there_halts_until_a_person_resolves_it(
    inline: Scene, both: Inline, other: Other, how: str, lands: int
) -> None:
    """Retention took records of `onramp.system_errors` before they drained."""
    other.close()
    inline.send(10)
    eventually(lambda: inline.landed() == 20 and "marker" in _heads(inline, other.name))
    both.stop()
    _delete_events_of(inline, other.name)
    other.open()
    writer = inline.writer_into(other)
    eventually(lambda: writer.states[other.name] == "halted")
    assert landed(other.dsn, inline.name) == 10
    eventually(lambda: halts_sql.resolve(other.name, other.dsn, how))
    eventually(lambda: landed(other.dsn, inline.name) == 10 + lands)
    eventually(lambda: _landing(writer))
    inline.send(5)
    eventually(lambda: landed(other.dsn, inline.name) == 15 + lands)
    inline.all_landed_once()


def _delete_events_of(scene: Scene, database: str) -> None:
    """Delete `onramp.system_errors` up to and with the first event that waits for `database`."""
    heads = [(r, orjson.loads(r.headers[HEADER])) for r in records(scene.bootstrap, wire.SYSTEM_ERRORS)]
    first = next(r for r, head in heads if (head["database"], head["kind"]) == (database, "event"))
    delete_records(scene.bootstrap, wire.SYSTEM_ERRORS, first.partition, first.offset + 1)
