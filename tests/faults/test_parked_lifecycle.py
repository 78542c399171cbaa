"""Life cycle of parked events: three faults among real flights are stored, fixed, replayed and discarded.

A database is away, admin service and writer are killed in mid-replay and in mid-discard, and the database is
restored from an earlier dump the replays.  `make proof-parked` does it with 50,000 flights and a database
that is away for a minute; among the tests they are fewer.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stack import services
from stack.services import Service
from tests.fixtures.dumps import dump, restore
from tests.fixtures.flights import Flight, Sender, broken_by, expected, good, in_landing, mixed
from tests.fixtures.operator import Operator
from tests.fixtures.scenes import Scene, gone, kill_driver_alone, ready
from tests.fixtures.second_database import Other
from tests.fixtures.writer import eventually, execute, group_offsets, landed, ledger_of, make_topics, rows

pytestmark = pytest.mark.full

REAL = "ONRAMP_PARKED_FLIGHTS" in os.environ
FLIGHTS = int(os.environ.get("ONRAMP_PARKED_FLIGHTS", "10000"))
#: Events of each fault.
EACH = FLIGHTS // 50
AWAY_SECONDS = 60 if REAL else 0
PATIENCE = 180 + FLIGHTS / 100
MID_REPLAY = "writer.mid_replay"
PARTITIONS = 4
TOO_FAR, COMMA = 9_999, "1,5"
#: The table's owner was too strict, and the producer wrote texts.
CONSTRAINTS = """
    ALTER TABLE events.{0} ADD CONSTRAINT near CHECK (payload -> 'distance' < '9000');
    ALTER TABLE events.{0} ADD CONSTRAINT measured CHECK (jsonb_typeof(payload -> 'distance') = 'number')
"""
FIX = '{"cast": "/distance", "to": "number", "decimal": ","}'


class Story:
    """Flights for one database; another one stores parked events."""

    def __init__(self, scene: Scene, other: Other, folder: Path) -> None:
        self.scene, self.other, self._folder = scene, other, folder
        self.operator = Operator(scene, other)
        self.name, self.topic = scene.name, scene.topic
        self.strict = broken_by(self.name, "strict", EACH, {"distance": TOO_FAR})
        self.texts = broken_by(self.name, "texts", EACH, {"distance": COMMA})
        self.nuls = broken_by(self.name, "nuls", EACH, {"tailnum": "N\0"})
        bad = [each for three in zip(self.strict, self.texts, self.nuls, strict=True) for each in three]
        self.first = good(self.name, 0, 50)
        self.events = mixed(good(self.name, 50, FLIGHTS - 3 * EACH - 100), bad)
        self.last = good(self.name, FLIGHTS, 50)
        self.writers: list[Service] = []
        self._admins = 0

    def send(self, sent: list[Flight]) -> None:
        Sender(self.scene.bootstrap).send(self.topic, sent)

    def writer(self, pause: str = "") -> None:
        """Start a writer, to be found at `pause`."""
        self.writers.append(
            self.scene.writer_into(
                self.other,
                own=False,
                pause=pause,
                metrics_seconds=0.2,
                batch_events=max(FLIGHTS // 10, 1_000),
            )
        )

    def kill_writer(self) -> None:
        orphans = kill_driver_alone(self.writers[-1])
        eventually(lambda: gone(orphans), 60)

    def admin(self) -> None:
        """Start an admin service."""
        self._admins += 1
        log = self._folder / f"admin-{self._admins}.log"
        self.operator.admin = services.admin(
            bootstrap=self.scene.bootstrap, dsn=self.scene.dsn, log=log, env=self.operator.env
        )
        self.operator.admin.start()
        self.operator.admin.wait_ready()

    def kill_admin(self) -> None:
        assert self.operator.admin is not None
        self.operator.admin.kill()

    def state(self) -> str:
        """Return the writer's state of the database."""
        return str(ready(self.writers[-1])[1]["databases"][self.other.name])

    def is_settled(self, sent: int) -> bool:
        """Return whether every offset is settled in the database and committed by the group."""
        ledger = ledger_of(self.other.dsn, self.topic)
        return sum(ledger.values()) == sent and group_offsets(self.scene.bootstrap, self.topic) == ledger

    def totals(self) -> dict[str, int]:
        """Return the totals of the database."""
        return dict(rows(self.other.dsn, "SELECT outcome, sum(events)::int FROM onramp.totals GROUP BY 1"))

    def groups(self) -> dict[str, dict[str, Any]]:
        """The groups of this event type, by the constraint that they are of."""
        return {g["cause"]["place"] or "NUL": g for g in self.operator.told("groups", "--event", self.name)}

    def of(self, constraint: str) -> tuple[str, str]:
        """The options that name the group of a fault."""
        return "--group", str(self.groups()[constraint]["id"])

    def rehearsed(self, *of: str) -> tuple[str, str]:
        """Rehearse a set, all of which would land; the options that name it."""
        [job] = self.operator.told("rehearse", *of)
        assert {result["outcome"] for result in job["results"]} == {"landed"}
        assert job["changed"] == job["counted"] == EACH
        return "--rehearsed", str(job["id"])

    def is_whole(self, *more: Flight) -> None:
        """Exactly the right rows, and the totals reconcile to the event."""
        there = [f for f in (*self.first, *self.events, *more) if not f.kind]
        there += [replace(f, kind="") for f in self.strict]
        there += [replace(f, kind="", row=(*f.row[:-1], 1.5)) for f in self.texts]
        assert in_landing(self.other.dsn, self.name) == expected(there)
        code, said = self.operator.audited()
        assert (code, said["findings"], said["unchecked"]) == (0, [], [])
        assert (said["stored"], said["not_yet_stored"]) == ({"discarded": EACH, "replayed": 2 * EACH}, 0)
        landed_first = len(self.first) + len(self.events) - 3 * EACH + len(more)
        assert self.totals() == {"landed": landed_first, "parked": 3 * EACH, "replayed": 2 * EACH}
        self._is_stated(landed_first)

    def _is_stated(self, landed_first: int) -> None:
        """The statement adds up, and each of its counts is the test's own."""
        # Kafka is named, as at any other time, while it is slow on a busy machine.
        said = eventually(lambda: s if not (s := self.operator.stated())["unevaluated"] else None, PATIENCE)
        assert said["differences"] == []
        [line] = [each for each in said["topics"] if each["database"] == self.other.name]
        [destination] = line["destinations"]
        assert (line["records"], line["filtered"], line["unroutable"]) == (landed_first + 3 * EACH, 0, 0)
        counts = {name: destination[name] for name in ("records", "landed", "duplicate", "parked", "waiting")}
        assert counts == {
            "records": landed_first + 3 * EACH,
            "landed": landed_first,
            "duplicate": 0,
            "parked": 3 * EACH,
            "waiting": 0,
        }
        place = {"topic": self.topic, "destination": destination["destination"]}
        assert said["parked_now"] == [place | {"discarded": EACH, "replayed": 2 * EACH}]


@pytest.fixture
def start_alone(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Real writers."""
    return request.getfixturevalue("start_writer")  # type: ignore[no-any-return]


@pytest.fixture
def story(alone: Scene, other: Other, tmp_path: Path) -> Iterator[Story]:
    story = Story(alone, other, tmp_path)
    make_topics(alone.bootstrap, alone.topic, partitions=PARTITIONS)
    try:
        yield story
    finally:
        if story.operator.admin is not None:
            story.operator.admin.stop()


def test_nothing_parked_is_forgotten(story: Story, other: Other, fresh: Other, tmp_path: Path) -> None:
    _is_parked_behind_an_outage(story)
    _is_grouped(story)
    execute(other.dsn, f"ALTER TABLE events.{story.name} DROP CONSTRAINT near")
    before = dump(other.dsn, tmp_path / "before")
    _is_replayed_though_both_are_killed(story)
    _is_discarded_though_both_are_killed(story)
    story.writer()
    story.is_whole()
    restore(before, fresh.dsn)
    other.swap(fresh)
    # Another writer's ledger came with the dump: nothing lands there until somebody says so.
    eventually(lambda: story.state() == "halted", PATIENCE)
    story.operator.resolve("refill")
    eventually(lambda: story.state() == "landing", PATIENCE)
    _is_named_and_lands_once(story)
    story.send(story.last)
    eventually(lambda: story.is_settled(FLIGHTS), PATIENCE)
    story.is_whole(*story.last)


def _is_parked_behind_an_outage(story: Story) -> None:
    """Three faults and an outage of their database, which then drains."""
    story.writer(MID_REPLAY)
    story.admin()
    story.send(story.first)
    eventually(lambda: story.is_settled(len(story.first)), PATIENCE)
    execute(story.other.dsn, CONSTRAINTS.format(story.name))
    half = len(story.events) // 2
    story.send(story.events[:half])
    eventually(lambda: landed(story.other.dsn, story.name) > len(story.first), PATIENCE)
    story.other.close()
    away_until = time.monotonic() + AWAY_SECONDS
    story.send(story.events[half:])
    sent = len(story.first) + len(story.events)
    eventually(lambda: sum(group_offsets(story.scene.bootstrap, story.topic).values()) == sent, PATIENCE)
    eventually(lambda: time.monotonic() >= away_until, PATIENCE)
    story.other.open()
    eventually(lambda: story.is_settled(sent), PATIENCE)
    assert story.totals() == {"landed": sent - 3 * EACH, "parked": 3 * EACH}


def _is_grouped(story: Story) -> None:
    """One group for each fault, with exact counts."""
    eventually(lambda: story.operator.states() == {"open": 3 * EACH}, PATIENCE)
    counts = {place: (g["events"], g["cause"]["sqlstate"]) for place, g in story.groups().items()}
    assert counts == {"near": (EACH, "23514"), "measured": (EACH, "23514"), "NUL": (EACH, "22P05")}


def _is_replayed_though_both_are_killed(story: Story) -> None:
    """Writer and admin service end in the middle of the first replay; the others finish it."""
    replay = ("replay", "--reason", "the owner has dropped the constraint")
    job = story.operator.start(*replay, *story.rehearsed(*story.of("near")))
    story.scene.paused_at(MID_REPLAY)
    story.kill_admin()
    story.kill_writer()
    assert "replayed" not in story.totals()
    story.admin()
    assert story.operator.states()["replaying"] > 0
    story.scene.flag(MID_REPLAY).unlink()
    story.writer()
    story.operator.done(job, PATIENCE)
    fixed = story.rehearsed(*story.of("measured"), "--fix", FIX)
    story.operator.done(story.operator.start("replay", "--reason", "commas", *fixed), PATIENCE)
    assert story.totals()["replayed"] == 2 * EACH


def _is_discarded_though_both_are_killed(story: Story) -> None:
    """The third group is discarded, restored, and discarded again by another operator."""
    nul = story.of("NUL")
    slow = ("--rate", str(max(EACH // 20, 1)))  # the admin service goes on with it when it is back
    job = story.operator.start("discard", *nul, *slow, "--reason", "no one needs them")
    eventually(lambda: 0 < story.operator.job(job["id"])["changed"] < EACH, PATIENCE)
    story.kill_admin()
    story.kill_writer()
    story.admin()
    assert 0 < story.operator.states()["discarded"] < EACH
    story.operator.done(job, PATIENCE)
    story.operator.done(story.operator.start("restore", *nul, "--reason", "somebody does"))
    assert story.operator.states() == {"open": EACH, "replayed": 2 * EACH}
    last = story.operator.start("discard", *nul, "--reason", "they have them", "--actor", "bob")
    story.operator.done(last)
    said = [(a["actor"], a["act"], a["reason"]) for a in story.operator.told("acts", "--actor", "bob")]
    assert said == [("bob", "start discard", "they have them")]


def _is_named_and_lands_once(story: Story) -> None:
    """Exactly the replays that the dump lost are open again, and are replayed again."""
    code, said = story.operator.audited()
    assert (code, {f["code"] for f in said["findings"]}) == (1, {"replay_lost"})
    *lost, sums = story.operator.told("recheck", "--reason", "restored", "--dry-run")
    assert (sums["checked"], sums["lost"], sums["staged"]) == (2 * EACH, 2 * EACH, 0)
    named = {(f["partition"], f["offset"]) for f in said["findings"]}
    assert named == {(e["partition"], e["offset"]) for e in lost}
    assert story.operator.told("recheck", "--reason", "restored")[-1]["lost"] == 2 * EACH
    assert story.operator.states() == {"open": 2 * EACH, "discarded": EACH}
    for fault, fix in (("near", ()), ("measured", ("--fix", FIX))):
        set_ = story.rehearsed(*story.of(fault), *fix)
        story.operator.done(story.operator.start("replay", "--reason", "lost by the dump", *set_), PATIENCE)
    assert story.operator.told("recheck", "--reason", "is it well?")[-1]["lost"] == 0
