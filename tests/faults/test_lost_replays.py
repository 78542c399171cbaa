"""Replays lost by restoring an earlier dump: each lost replay is reported and lands once."""

import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack import services
from tests.fixtures.dumps import dump, restore
from tests.fixtures.operator import Operator
from tests.fixtures.running_part import started
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import event, eventually, execute, landed, rows

pytestmark = pytest.mark.full

EARLY, LATE = 5, 15
WHY = ("--reason", "restored from last night")


class Lost(Operator):
    """Events parked in `other`, and the admin service that stores them in the scene's own database."""

    def __init__(self, scene: Scene, other: Other) -> None:
        super().__init__(scene, other)
        self.scene, self.other = scene, other

    def is_at(self, rows_there: int) -> None:
        """Each event is one row, and nothing is wrong."""
        assert landed(self.other.dsn, self.scene.name) == rows_there
        ids = rows(self.other.dsn, f"SELECT count(DISTINCT _id)::int FROM events.{self.scene.name}")  # noqa: S608
        assert ids == [(rows_there,)]
        code, said = self.audited()
        assert (code, said["findings"], said["stored"]) == (0, [], {"replayed": EARLY + LATE})


@pytest.fixture
def lost(inline: Scene, other: Other, tmp_path: Path) -> Iterator[Lost]:
    """Twenty events that a constraint rejected, which is dropped now."""
    inline.writer_into(other, own=False, metrics_seconds=0.1)
    inline.send(5)
    eventually(lambda: landed(other.dsn, inline.name) == 5)
    execute(other.dsn, f"ALTER TABLE events.{inline.name} ADD CONSTRAINT sane CHECK (NOT payload ? 'bad')")
    inline.produce(*(event(f"early-{n}", inline.name, bad=n) for n in range(EARLY)))
    inline.produce(*(event(f"late-{n}", inline.name, bad=n) for n in range(LATE)))
    parked = "SELECT sum(events)::int FROM onramp.totals WHERE outcome = 'parked'"
    eventually(lambda: rows(other.dsn, parked) == [(EARLY + LATE,)])
    execute(other.dsn, f"ALTER TABLE events.{inline.name} DROP CONSTRAINT sane")
    found = Lost(inline, other)
    where = {"bootstrap": inline.bootstrap, "dsn": inline.dsn, "env": found.env}
    with started(services.admin(**where, log=tmp_path / "admin.log")) as found.admin:
        eventually(lambda: found.states() == {"open": EARLY + LATE}, 120)
        yield found


def test_replays_lost_by_restoring_an_earlier_dump_are_reported_and_land_once(
    lost: Lost, other: Other, fresh: Other, tmp_path: Path
) -> None:
    for n in range(EARLY):
        lost.replay("--id", f"early-{n}")
    file = dump(other.dsn, tmp_path / "before")
    lost.replay("--event", lost.scene.name)
    lost.is_at(5 + EARLY + LATE)

    places = f"SELECT _partition, _offset FROM events.{lost.scene.name} WHERE _id LIKE 'late-%'"  # noqa: S608
    late = rows(other.dsn, places)
    restore(file, fresh.dsn)
    # Without a key nothing but onramp.replayed keeps an event from landing twice.
    execute(fresh.dsn, f"ALTER TABLE events.{lost.scene.name} DROP CONSTRAINT {lost.scene.name}_pkey")
    other.swap(fresh)
    assert landed(other.dsn, lost.scene.name) == 5 + EARLY

    code, said = lost.audited()
    named = {(f["code"], f["topic"]) for f in said["findings"]}
    assert (code, named) == (1, {("replay_lost", lost.scene.topic)})
    receipts = {(f["partition"], f["offset"]) for f in said["findings"]}
    assert receipts == set(late)
    assert all("onramp errors recheck" in f["fix"] for f in said["findings"])

    *events, sums = lost.told("recheck", *WHY, "--dry-run")
    assert {(e["partition"], e["offset"]) for e in events} == receipts
    assert (sums["checked"], sums["lost"]) == (EARLY + LATE, LATE)
    assert lost.states() == {"replayed": EARLY + LATE}
    assert f"{LATE} of them lost: they are open again" in lost.says("recheck", *WHY).stdout
    assert lost.states() == {"replayed": EARLY, "open": LATE}
    [act] = lost.told("acts", "--act", "recheck", "--actor", getpass.getuser())
    assert (act["reason"], act["subject"].split()[0]) == (WHY[1], str(LATE))

    lost.replay("--event", lost.scene.name)
    lost.is_at(5 + EARLY + LATE)
    assert lost.told("recheck", *WHY)[-1]["lost"] == 0
    outcomes = "SELECT attempt, outcome, count(*)::int FROM onramp.replayed GROUP BY 1, 2 ORDER BY 1"
    assert rows(other.dsn, outcomes) == [(1, "landed", EARLY), (2, "landed", LATE)]


def test_recheck_reports_an_unreachable_database_and_reopens_no_event(lost: Lost, other: Other) -> None:
    lost.replay("--event", lost.scene.name)
    other.close()
    try:
        result = lost.says("recheck", *WHY)
    finally:
        other.open()
    assert (result.exit_code, f"{other.name} was not asked" in result.output) == (3, True)
    assert lost.states() == {"replayed": EARLY + LATE}


def test_a_control_database_of_before_a_replay_learns_what_has_landed(
    lost: Lost, fresh: Other, tmp_path: Path
) -> None:
    file = dump(lost.scene.dsn, tmp_path / "before")
    lost.replay("--event", lost.scene.name)
    assert lost.admin is not None
    lost.admin.kill()
    restore(file, fresh.dsn)
    lost.control = fresh.dsn
    code, said = lost.audited()
    assert (code, {f["code"] for f in said["findings"]}) == (1, {"double_terminal"})
    assert len(said["findings"]) == EARLY + LATE
    where = {"bootstrap": lost.scene.bootstrap, "dsn": fresh.dsn, "env": lost.env}
    with started(services.admin(**where, log=tmp_path / "next.log")) as lost.admin:
        lost.replay("--event", lost.scene.name)
        lost.is_at(5 + EARLY + LATE)
        assert rows(lost.other.dsn, "SELECT count(*)::int FROM onramp.replayed") == [(EARLY + LATE,)]


def test_parked_events_lost_by_the_control_database_are_reported_and_stored_again(
    lost: Lost, tmp_path: Path
) -> None:
    assert lost.admin is not None
    lost.admin.kill()
    execute(lost.control, "DELETE FROM onramp_admin.parked WHERE event_id LIKE 'late-%'")
    code, said = lost.audited()
    assert (code, [f["code"] for f in said["findings"]]) == (1, ["not_stored"] * LATE)
    assert "DELETE FROM onramp_admin.consumed" in said["findings"][0]["fix"]
    execute(lost.control, "DELETE FROM onramp_admin.consumed")
    where = {"bootstrap": lost.scene.bootstrap, "dsn": lost.control, "env": lost.env}
    with started(services.admin(**where, log=tmp_path / "next.log")) as lost.admin:
        eventually(lambda: lost.states() == {"open": EARLY + LATE}, 120)
        code, said = lost.audited()
        assert (code, said["findings"], said["stored"]) == (0, [], {"open": EARLY + LATE})
