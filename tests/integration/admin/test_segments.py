"""Segments: bytes leave the control database once, and are read back unchanged or with an error."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.admin.store import segments_sql
from services.admin.store.segments_sql import PackerSession
from shared.errors import BYTES_REMOVED, SEGMENT_DAMAGED, SEGMENT_MISSING
from stack import services
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.running_part import started
from tests.fixtures.writer import eventually, execute
from tests.integration.admin.admin_service import Admin
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.segment_store import AN_HOUR_AGO, BYTES, OURS, OVER, Shelf

UPLOAD = """
    WITH upload AS (INSERT INTO onramp_admin.uploads (actor) VALUES ('{}') RETURNING id)
    INSERT INTO onramp_admin.edits (upload, event, payload)
    SELECT upload.id, e.id, '{{}}' FROM upload, onramp_admin.events e WHERE {}
"""
JOB = """
    INSERT INTO onramp_admin.jobs (kind, filters, upto, actor, reason, counted, is_edited)
    SELECT 'replay', json_build_object('edits', id), 9, 'bob', 'prices', 2, true
    FROM onramp_admin.uploads WHERE actor = 'bob'
"""


@pytest.fixture
def shelf(templates: Templates, tmp_path: Path) -> Iterator[Shelf]:
    with database_beside(templates.server, templates.control) as dsn:
        yield Shelf(dsn, tmp_path / "store")


def test_bytes_leave_the_database_after_an_hour_and_are_read_as_they_were(shelf: Shelf) -> None:
    values = shelf.keep(30)
    session = shelf.open()
    assert (session.pack(), shelf.files, PackerSession.open(shelf.dsn, shelf.segments)) == (0, [], None)
    session.close()
    assert shelf.pack() == 30
    assert (shelf.rows(BYTES), shelf.files) == ([(0,)], shelf.names())
    assert f"/{1:019d}-{30:019d}-" in shelf.files[0]
    later = shelf.keep(3, at=30)  # one of them waits in the database
    assert shelf.load() == (values | later, {})
    assert sorted(shelf.rows("SELECT event_name, code, step, events FROM onramp_admin.parts")) == [
        (f"name_{n}", "data_rejected", "persist", 10) for n in range(3)
    ]


def test_a_segment_is_of_so_many_bytes_and_ids(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    values = shelf.keep(30)
    monkeypatch.setattr(segments_sql, "SEGMENT_BYTES", 2_000)
    session = shelf.open()
    assert [session.pack() for _ in range(4)] == [10, 10, 10, 0]
    session.close()
    assert shelf.rows("SELECT first_event, last_event FROM onramp_admin.segments ORDER BY 1") == [
        (1, 10),
        (11, 20),
        (21, 30),
    ]
    assert shelf.load() == (values, {})


def test_undeletable_file_blocks_neither_packing_nor_other_removals(shelf: Shelf) -> None:
    shelf.keep(3)
    assert shelf.pack() == 3
    [name] = shelf.names()
    stuck, foreign = (shelf.folder / f"{Path(name).parent}/{each}" for each in ("!snapshot", "left"))
    stuck.mkdir()  # no file: as in a bucket that lets nobody delete
    foreign.write_bytes(b"of a call that was given up")
    shelf.keep(3, at=3)
    assert shelf.pack() == 3
    assert (stuck.exists(), foreign.exists(), len(shelf.names())) == (True, False, 2)
    execute(shelf.dsn, OVER.format(age="8 days", which="true"))
    assert (shelf.expire(), shelf.names(), shelf.files) == ([], [], [])


def test_a_file_that_was_never_recorded_is_removed_by_the_next_and_no_others(shelf: Shelf) -> None:
    shelf.keep(3)
    assert shelf.pack() == 3
    [name] = shelf.names()
    unused, other = shelf.folder / name.replace(".parquet", "0.parquet"), shelf.folder / "other" / "x.parquet"
    other.parent.mkdir()
    for file in (unused, other):
        file.write_bytes(b"x")
    shelf.open().close()
    assert shelf.files == sorted([name, "other/x.parquet"])


@pytest.mark.parametrize("damage", ["remove", "other bytes", "cut"])
def test_a_segment_that_is_lost_or_damaged_is_named_and_the_others_are_read(
    shelf: Shelf, damage: str
) -> None:
    shelf.keep(6)
    assert shelf.pack() == 6
    healthy = shelf.keep(6, at=6)
    assert shelf.pack() == 6
    first, second = (shelf.folder / name for name in shelf.names())
    if damage == "remove":
        first.unlink()
    else:
        first.write_bytes(second.read_bytes() if damage == "other bytes" else second.read_bytes()[:99])
    fault = SEGMENT_MISSING if damage == "remove" else SEGMENT_DAMAGED
    assert shelf.load() == (healthy, dict.fromkeys(range(6), fault))


def test_bytes_that_are_not_what_was_kept_are_never_given(shelf: Shelf) -> None:
    values = shelf.keep(6)
    execute(shelf.dsn, "UPDATE onramp_admin.parked SET sha256 = '\\x00' WHERE \"offset\" < 3")
    expected = ({n: v for n, v in values.items() if n >= 3}, dict.fromkeys(range(3), SEGMENT_DAMAGED))
    assert shelf.load() == expected
    assert shelf.pack() == 6
    assert shelf.load() == expected


def test_bytes_of_events_closed_over_seven_days_ago_are_removed_in_whole_or_in_part(shelf: Shelf) -> None:
    values = shelf.keep(9)
    assert shelf.pack() == 9
    [name] = shelf.names()
    execute(shelf.dsn, OVER.format(age="6 days 23 hours", which="true"))
    assert (shelf.expire(), shelf.names(), shelf.files) == ([], [name], [name])  # it may be restored
    execute(shelf.dsn, OVER.format(age="8 days", which='"offset" < 6'))
    assert shelf.expire() == []
    assert shelf.names() != [name]
    assert shelf.files == shelf.names()
    kept_still = {n: v for n, v in values.items() if n >= 6}
    assert shelf.load() == (kept_still, dict.fromkeys(range(6), BYTES_REMOVED))
    assert shelf.rows("SELECT sum(events) FROM onramp_admin.parts") == [(3,)]
    execute(shelf.dsn, OVER.format(age="8 days", which='"offset" = 6'))
    assert (shelf.expire(), shelf.load()[0]) == ([], kept_still)  # not for so few
    execute(shelf.dsn, OVER.format(age="8 days", which="true"))
    assert (shelf.expire(), shelf.files, shelf.names()) == ([], [], [])
    assert shelf.load() == ({}, dict.fromkeys(range(9), BYTES_REMOVED))
    assert shelf.rows("SELECT count(*) FROM onramp_admin.parts") == [(0,)]


def test_a_segment_that_is_damaged_is_not_rewritten_and_holds_up_nothing(shelf: Shelf) -> None:
    shelf.keep(6)
    assert shelf.pack() == 6
    shelf.keep(6, at=6)
    assert shelf.pack() == 6
    first, second = shelf.names()
    (shelf.folder / first).write_bytes(b"")
    execute(shelf.dsn, OVER.format(age="8 days", which='"offset" % 2 = 0'))
    assert [e.fault for e in shelf.expire()] == [SEGMENT_DAMAGED]
    assert shelf.names()[0] == first
    assert shelf.names()[1] != second
    assert shelf.rows('SELECT count(*) FROM onramp_admin.events WHERE gone AND "offset" < 6') == [(0,)]


def test_uploaded_edits_are_retained_until_all_events_of_the_upload_are_closed(shelf: Shelf) -> None:
    shelf.keep(4)
    for upload, events in (("ann", '"offset" < 2'), ("bob", '"offset" >= 2')):
        execute(shelf.dsn, UPLOAD.format(upload, events))
    left = """
        SELECT actor, count(event) FROM onramp_admin.uploads u JOIN onramp_admin.edits ON upload = u.id
        GROUP BY 1
    """
    execute(shelf.dsn, OVER.format(age="8 days", which='"offset" = 0'))  # the other one is open
    execute(shelf.dsn, OVER.format(age="8 days", which='"offset" = 2'))
    execute(shelf.dsn, OVER.format(age="6 days 23 hours", which='"offset" = 3'))  # it may be restored
    assert (shelf.expire(), sorted(shelf.rows(left))) == ([], [("ann", 2), ("bob", 2)])
    execute(shelf.dsn, "UPDATE onramp_admin.states SET state = 'replaying' WHERE state = 'open'")
    execute(shelf.dsn, OVER.format(age="8 days", which='"offset" = 3'))
    execute(shelf.dsn, JOB)  # it has not seen yet that its events are over
    assert (shelf.expire(), sorted(shelf.rows(left))) == ([], [("ann", 2), ("bob", 2)])
    execute(shelf.dsn, "UPDATE onramp_admin.jobs SET state = 'done'")
    assert (shelf.expire(), shelf.rows(left)) == ([], [("ann", 2)])
    assert shelf.rows("SELECT actor FROM onramp_admin.uploads") == [("ann",)]


@pytest.mark.parametrize(
    "place",
    ["admin.segment_written", pytest.param("admin.segment_recorded", marks=pytest.mark.full)],
)
def test_a_kill_in_mid_move_loses_nothing_and_leaves_no_file(
    shelf: Shelf, own_topics: HasBootstrap, tmp_path: Path, place: str
) -> None:
    values = shelf.keep(30)
    execute(shelf.dsn, AN_HOUR_AGO)
    env = {"ONRAMP_ADMIN_STORE": str(shelf.folder)}
    doomed = services.admin(
        bootstrap=own_topics.bootstrap,
        dsn=shelf.dsn,
        log=tmp_path / "doomed.log",
        env=env | {"ONRAMP_FAILPOINTS": f"{place}=kill"},
    )
    doomed.start()
    eventually(lambda: not doomed.child.running, 120)
    [left] = shelf.files
    assert shelf.rows(OURS) == [(30 if place == "admin.segment_written" else 0,)]
    service = services.admin(
        bootstrap=own_topics.bootstrap, dsn=shelf.dsn, log=tmp_path / "next.log", env=env
    )
    with started(service):
        eventually(lambda: shelf.names() and shelf.names() == shelf.files, 120)
        assert (left in shelf.files) == (place == "admin.segment_recorded")
        admin = Admin(service, shelf.dsn)
        [newest, *_] = found = admin.events(destination="onramp.a.b")
        assert len(found) == 30
        assert admin.reveal(newest["id"]).content == values[newest["offset"]]
        assert len(admin.get(f"/v1/groups/{newest['group']}").json()["samples"]) == 10
        assert len(admin.get("/v1/segments", code="data_rejected", limit=2).json()["parts"]) == 2
        (shelf.folder / shelf.names()[0]).unlink()
        answer = admin.reveal(newest["id"])
        assert (answer.status_code, answer.json()["type"]) == (410, "/errors/segment_missing")
        assert admin.get(f"/v1/events/{newest['id']}").json()["shape"] == "not read: segment_missing"
