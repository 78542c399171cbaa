"""Two writers: one is fenced and ends, and whatever a zombie still does lands nothing twice."""

import os
import signal

import psutil
import pytest

from stack.families import family_of
from tests.fixtures.scenes import Scene, exit_code, ready, signal_family
from tests.fixtures.writer import eventually


def test_of_two_that_start_together_one_is_fenced_and_the_other_lands_everything(scene: Scene) -> None:
    scene.send(300)
    both = [scene.writer(wait=False), scene.writer(wait=False)]
    eventually(lambda: [w for w in both if w.child.exit_code is not None], 90)
    fenced, staying = sorted(both, key=lambda w: w.child.exit_code is None)
    assert fenced.child.exit_code == 3
    scene.send(300)
    scene.all_landed_once()
    assert staying.child.exit_code is None
    assert ready(staying)[0] == 200


def test_an_idle_writer_notices_its_successor(scene: Scene) -> None:
    scene.send(1)
    older = scene.writer()
    scene.all_landed_once()
    scene.writer()
    assert exit_code(older)[0] == 3


@pytest.mark.parametrize(
    "place", ["writer.before_commit", "writer.after_commit", "writer.before_group_commit"]
)
def test_a_zombie_that_wakes_up_lands_nothing_twice(scene: Scene, place: str) -> None:
    scene.send(200)
    zombie = scene.writer(place, wait=False)
    scene.paused_at(place)
    signal_family(zombie, signal.SIGSTOP)
    try:
        scene.writer()
        eventually(lambda: scene.landed() == scene.accepted, 120)
        scene.send(200)
        scene.all_landed_once()
    finally:
        scene.go_on(place)
        signal_family(zombie, signal.SIGCONT)
    assert exit_code(zombie)[0] == 3
    scene.send(100)
    scene.all_landed_once()


def test_an_offset_that_a_zombie_rewound_is_put_back(scene: Scene) -> None:
    place = "writer.before_group_commit"
    scene.send(50)
    zombie = scene.writer(place, wait=False)
    scene.paused_at(place)
    signal_family(zombie, signal.SIGSTOP)
    scene.writer()
    scene.send(50)
    scene.all_landed_once()
    scene.go_on(place)
    signal_family(zombie, signal.SIGCONT)
    assert exit_code(zombie)[0] == 3
    scene.all_landed_once(seconds=15)


def test_sigterm_to_an_idle_writer_ends_it_at_once(scene: Scene) -> None:
    scene.send(10)
    service = scene.writer()
    scene.all_landed_once()
    family = family_of(psutil.Process(service.pid))
    os.kill(service.pid, signal.SIGTERM)
    code, seconds = exit_code(service)
    assert (code, seconds < 5) == (0, True), seconds
    eventually(lambda: not [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE], 10)


def test_sigterm_in_the_middle_of_a_batch_rolls_it_back_within_its_margin(scene: Scene) -> None:
    place = "writer.before_commit"
    scene.send(100)
    service = scene.writer(place, wait=False)
    scene.paused_at(place)
    os.kill(service.pid, signal.SIGTERM)
    code, seconds = exit_code(service)
    assert (code, seconds < 10) == (0, True), seconds
    eventually(lambda: not scene.sessions(), 10)
    assert (scene.landed(), scene.settled()) == (0, {})
    scene.go_on(place)
    scene.writer()
    scene.all_landed_once()
