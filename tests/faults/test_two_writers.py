"""Two writers: the older one is fenced and ends, and its late commits land no event twice."""

import os
import signal

import psutil
import pytest

from services.writer.model.exits import EXIT_FENCED
from stack.process_groups import family_of
from tests.faults.conftest import StartInline
from tests.fixtures.inline import Inline, Places
from tests.fixtures.scenes import Scene, exit_code, gone, signal_family
from tests.fixtures.writer import eventually

#: Where a zombie's range is not committed, is, and is without its group offsets.
ZOMBIE_PLACES = ("writer.before_commit", "writer.after_commit", "writer.before_group_commit")


def test_two_writers_started_together_leave_one_writer_fenced_and_land_every_event_once(
    inline: Scene,
) -> None:
    inline.send(300)
    both: list[Inline] = [inline.writer(wait=False), inline.writer(wait=False)]
    eventually(lambda: [w for w in both if w.exit is not None], 90)
    fenced, staying = sorted(both, key=lambda w: w.exit is None)
    assert fenced.exit == EXIT_FENCED
    inline.send(300)
    inline.all_landed_once()
    assert staying.exit is None
    assert staying.readyz()["status"] == "consuming"


@pytest.mark.parametrize("place", ZOMBIE_PLACES)
def test_a_thread_that_wakes_up_behind_its_successor_lands_nothing_twice(
    inline: Scene, places: Places, place: str
) -> None:
    """The same if it rewinds the group's offset, which its successor restores."""
    inline.send(50)
    held = places.hold_at(place)
    zombie: Inline = inline.writer(wait=False)
    held.wait()
    inline.writer()
    eventually(lambda: inline.landed() == inline.accepted)
    inline.send(50)
    inline.all_landed_once()
    held.go_on()
    assert zombie.ended() == EXIT_FENCED
    inline.all_landed_once()
    inline.send(10)
    inline.all_landed_once()


@pytest.mark.parametrize(
    "place",
    [ZOMBIE_PLACES[0], *(pytest.param(place, marks=pytest.mark.full) for place in ZOMBIE_PLACES[1:])],
)
def test_a_stopped_process_that_wakes_up_behind_its_successor_lands_nothing_twice(
    scene: Scene, inline_writers: StartInline, place: str
) -> None:
    scene.send(200)
    zombie = scene.writer(place, wait=False)
    scene.paused_at(place)
    signal_family(zombie, signal.SIGSTOP)
    try:
        scene.writer(start=inline_writers)
        eventually(lambda: scene.landed() == scene.accepted, 120)
        scene.send(200)
        scene.all_landed_once()
    finally:
        scene.go_on(place)
        signal_family(zombie, signal.SIGCONT)
    assert exit_code(zombie) == EXIT_FENCED
    scene.send(100)
    scene.all_landed_once()


@pytest.mark.full
def test_sigterm_to_an_idle_writer_ends_it_at_once(scene: Scene) -> None:
    scene.send(10)
    service = scene.writer()
    scene.all_landed_once()
    family = family_of(psutil.Process(service.pid))
    os.kill(service.pid, signal.SIGTERM)
    assert exit_code(service) == 0
    eventually(lambda: gone(family))
