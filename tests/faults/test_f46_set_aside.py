"""A batch that fails for a reason that nobody foresaw: what fails alone is set aside, and the others land."""

from typing import Any

import orjson
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from services.cli.app import app
from services.writer import aside, task
from services.writer.ranges import Partition
from services.writer.settlement import Settlement
from services.writer.task import Task
from shared import wire
from tests.faults.test_f46_unforeseen import POISON, BugError, Two
from tests.fixtures import inline as inline_writer
from tests.fixtures.inline import Inline
from tests.fixtures.other import Other
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import delete_records, eventually, rows


class Bug:
    """Raises at a step for batches with an event that has this id, while it is there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.id = POISON

    def at(self, step: str) -> None:
        getattr(self, f"_{step}")()

    def _has(self, values: Any) -> bool:
        return bool(self.id) and any(v and f'"{self.id}"'.encode() in v for v in values)

    def _in(self, of: Task) -> bool:
        runs = [run for each in of._runs.values() for run in each]
        return any(self._has(run.rows.column("value").to_pylist()) for run in runs)

    def _read(self) -> None:
        """Both readers fail: the driver's hands it to the other, which raises."""
        real = inline_writer.Reader._read

        def read(reader: Any, r: Any) -> Any:
            found = real(reader, r)
            if self._has(found.column("value").to_pylist()):
                raise BugError
            return found

        async def none(_: Any, __: Any) -> None:
            return None

        self._patch.setattr(inline_writer.Reader, "_read", read)
        self._patch.setattr("services.writer.tail.Tail.read", none)

    def _before(self, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def work(of: Task, *given: Any) -> Any:
            if self._in(of):
                raise BugError
            return real(of, *given)

        self._patch.setattr(owner, name, work)

    def _park(self) -> None:
        self._before(Task, "park_unroutable")

    def _divert(self) -> None:
        real = task.divert

        def divert(bootstrap: str, name: str, runs: Any) -> Any:
            if any(self._has(run.rows.column("value").to_pylist()) for run in runs):
                raise BugError
            return real(bootstrap, name, runs)

        self._patch.setattr(task, "divert", divert)

    def _keep(self) -> None:
        real, settled = Settlement.keep, Settlement.land

        def land(of: Settlement, target: Any, rows: Any) -> None:
            of.poisoned = self.id in rows.column("_id").to_pylist()  # type: ignore[attr-defined]
            settled(of, target, rows)

        def keep(of: Settlement) -> None:
            if getattr(of, "poisoned", False):
                raise BugError
            real(of)

        self._patch.setattr(Settlement, "land", land)
        self._patch.setattr(Settlement, "keep", keep)

    def _report(self) -> None:
        self._before(Task, "report")


@pytest.fixture
def two(inline: Scene) -> Two:
    return Two(inline)


@pytest.fixture
def bug(monkeypatch: pytest.MonkeyPatch) -> Bug:
    monkeypatch.setattr(aside, "_AGAIN", (0.5, 1.0))
    return Bug(monkeypatch)


def _why(two: Two, writer: Inline) -> str:
    return writer.refused.get(Partition(two.topic, 0), "")


def _ids(first: int, n: int) -> list[str]:
    return [f"e-{i}" for i in range(first, first + n)]


@pytest.mark.parametrize("step", ["read", "park", "keep", "report"])
def test_f46_a_partition_at_which_a_step_raises_is_set_aside_at_its_record_and_the_others_land(
    two: Two, bug: Bug, step: str
) -> None:
    bug.at(step)
    two.send(*_ids(0, 20), POISON, *_ids(20, 20))
    writer = two.writer()
    two.the_other_lands()
    why = eventually(lambda: _why(two, writer))
    assert "fails at offset 20 " in why
    assert "BugError" in why
    assert POISON not in why
    eventually(lambda: set(_ids(0, 20)) <= two.landed())
    two.the_other_lands()
    bug.id = ""  # a release that mends it
    eventually(lambda: two.landed() == {POISON, *_ids(0, 40)})
    eventually(lambda: not writer.refused)
    two.scene.audited()


def test_f46_a_partition_that_fails_alone_is_set_aside_after_the_loop_was_begun_again(
    two: Two, bug: Bug
) -> None:
    writer = two.writer()
    two.the_other_lands()
    bug.at("read")
    two.send(POISON)
    assert "fails at offset 0 " in eventually(lambda: _why(two, writer))
    two.the_other_lands()


def test_f46_an_exception_nobody_foresaw_in_a_diversion_holds_its_partition_and_no_other(
    two: Two, other: Other, bug: Bug
) -> None:
    writer = two.writer(other)
    two.send("first")
    eventually(lambda: two.landed(other.dsn) == {"first"})
    other.close()
    bug.at("divert")
    two.send(*_ids(0, 4), POISON, *_ids(4, 4))
    assert "fails at offset 5 " in eventually(lambda: _why(two, writer))
    two.the_other_lands()
    bug.id = ""
    eventually(lambda: two.landed() == {"first", POISON, *_ids(0, 8)})
    other.open()
    eventually(lambda: two.landed(other.dsn) == {"first", POISON, *_ids(0, 8)})
    two.scene.audited(other)


def test_f46_what_was_set_aside_is_finished_under_the_routes_it_began_with_by_a_successor(
    two: Two, other: Other, bug: Bug, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside, "_AGAIN", (600.0,))  # else its last plan may be of another try
    bug.at("read")
    two.send(POISON)
    writer = two.writer(other)
    two.the_other_lands()
    eventually(lambda: _why(two, writer))
    two.the_other_lands()  # its plan is in place of the one before
    writer.stop()
    bug.id = ""
    own = two.scene.route()  # its events go to the scene's own database alone from now on
    databases = orjson.dumps({other.name: other.dsn}).decode()
    two.scene.writer(topics=two.topics, registry=own, databases=databases)
    eventually(lambda: two.landed() == two.landed(other.dsn) == {POISON})
    two.scene.audited(other)


def test_f46_a_person_passes_over_the_record_and_the_rest_lands(two: Two, bug: Bug) -> None:
    bug.at("read")
    two.send(*_ids(0, 3), POISON, *_ids(3, 3))
    writer = two.writer()
    two.the_other_lands()
    eventually(lambda: "fails at offset 3 " in _why(two, writer))
    delete_records(two.scene.bootstrap, two.topic, 0, 4)
    eventually(lambda: "Kafka deleted [3, 4)" in _why(two, writer))
    _accept(two)
    eventually(lambda: two.landed() == set(_ids(0, 6)))
    eventually(lambda: not writer.refused)


def test_f46_a_plan_whose_routes_nobody_has_halts_its_partition_until_a_person_says_go_on(two: Two) -> None:
    first = two.writer()
    two.send("first")
    eventually(lambda: two.landed() == {"first"})
    first.stop()
    ((topic_id,),) = rows(
        two.scene.dsn, "SELECT DISTINCT topic_id::text FROM onramp.ledger WHERE topic = %s", two.topic
    )
    plan = {"digest": "none", "ranges": [[topic_id, two.topic, 0, 1, 3]]}
    _put(two, "plan/0", orjson.dumps(plan))
    two.send("second", "third")
    writer = two.writer()
    assert "routes none" in eventually(lambda: _why(two, writer))
    two.the_other_lands()
    assert two.landed() == {"first"}
    _accept(two)
    eventually(lambda: two.landed() == {"first", "second", "third"})


def _put(two: Two, key: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": two.scene.bootstrap})
    producer.produce(wire.SETTLED, key=key, value=value)
    assert producer.flush(20) == 0


def _accept(two: Two) -> None:
    where = ["--kafka", two.scene.bootstrap, "--dsn", two.scene.dsn]
    word = ["partitions", "resolve", f"{two.topic}/0", "accept", *where]
    eventually(lambda: CliRunner().invoke(app, word).exit_code == 0)
