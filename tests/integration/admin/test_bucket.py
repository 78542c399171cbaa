"""Segments in an S3 bucket that verifies signatures, and errors of an unusable bucket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.admin.segments.folder import Segments
from services.admin.store.segments_sql import PackerSession
from shared.errors import BYTES_REMOVED, SEGMENT_MISSING, STORE_UNAVAILABLE, InfrastructureError
from stack import services
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.fix_s3 import Bucket
from tests.fixtures.refusing_proxy import Refusing
from tests.fixtures.running_part import started
from tests.fixtures.writer import eventually, execute
from tests.integration.admin.admin_service import Admin
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.segment_store import AN_HOUR_AGO, BYTES, OURS, OVER, InBucket, park

MEBIBYTE = 2**20


@pytest.fixture
def shelf(templates: Templates, bucket: Bucket) -> Iterator[InBucket]:
    with database_beside(templates.server, templates.control) as dsn:
        yield InBucket(dsn, bucket)


def test_segments_are_written_read_rewritten_and_deleted(shelf: InBucket) -> None:
    values = shelf.keep(9)
    assert shelf.pack() == 9
    assert (shelf.rows(BYTES), shelf.load()) == ([(0,)], (values, {}))
    [name] = shelf.files
    assert shelf.names() == [name]
    execute(shelf.dsn, OVER.format(age="8 days", which='"offset" < 6'))
    assert shelf.expire() == []
    assert [name] != shelf.files == shelf.names()
    assert shelf.load() == (
        {n: v for n, v in values.items() if n >= 6},
        dict.fromkeys(range(6), BYTES_REMOVED),
    )
    execute(shelf.dsn, OVER.format(age="8 days", which="true"))
    assert (shelf.expire(), shelf.files, shelf.names()) == ([], [], [])
    assert shelf.load() == ({}, dict.fromkeys(range(9), BYTES_REMOVED))


def test_a_segment_of_several_parts_of_an_upload_is_whole(shelf: InBucket) -> None:
    values = shelf.keep(24, size=MEBIBYTE)  # parts have 10 MiB at least
    assert shelf.pack() == 24
    assert shelf.load() == (values, {})


def test_a_file_that_was_never_recorded_is_removed_from_a_bucket(shelf: InBucket) -> None:
    shelf.keep(3)
    assert shelf.pack() == 3
    [name] = shelf.names()
    unused = name.replace(".parquet", "0.parquet")
    shelf.bucket.write(unused, b"x")
    shelf.bucket.write("other/x.parquet", b"x")
    session = shelf.open()
    assert shelf.files == sorted([name, "other/x.parquet"])
    shelf.bucket.write(unused, b"x")  # an upload that was given up, and ended later
    assert session.expire() == []
    session.close()
    assert shelf.files == sorted([name, "other/x.parquet"])


def test_an_empty_bucket_has_lost_its_files_and_is_there(shelf: InBucket) -> None:
    shelf.keep(3)
    assert shelf.pack() == 3
    [name] = shelf.names()
    shelf.bucket.delete(name)
    assert shelf.load() == ({}, dict.fromkeys(range(3), SEGMENT_MISSING))
    values = shelf.keep(3, at=3)
    assert shelf.pack() == 3  # into the empty one
    assert shelf.load()[0] == values


def test_missing_bucket_is_reported_and_not_treated_as_an_empty_bucket(shelf: InBucket) -> None:
    shelf.keep(3)
    assert shelf.pack() == 3
    [name] = shelf.names()
    shelf.bucket.delete(name)
    shelf.bucket.remove()
    for ask in (shelf.load, shelf.open, lambda: shelf.segments.remove(name)):
        with pytest.raises(InfrastructureError) as told:
            ask()
        assert told.value.fault is STORE_UNAVAILABLE
        assert f"there is no bucket {shelf.bucket.name}: create it" in told.value.detail


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("AWS_SECRET_ACCESS_KEY", "wrong", "S3 says SIGNATURE_DOES_NOT_MATCH: correct AWS_ACCESS_KEY_ID and"),
        ("AWS_ACCESS_KEY_ID", "nobody", "S3 says INVALID_ACCESS_KEY_ID: correct AWS_ACCESS_KEY_ID and"),
    ],
)
def test_a_wrong_key_is_named_and_bytes_stay_in_the_database(
    shelf: InBucket, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    values = shelf.keep(3)
    execute(shelf.dsn, AN_HOUR_AGO)
    session = shelf.open()
    monkeypatch.setenv(variable, value)
    session.segments = wrong = Segments(shelf.bucket.uri)
    for ask in (session.pack, lambda: PackerSession.open(shelf.dsn, wrong)):
        with pytest.raises(InfrastructureError) as told:
            ask()
        assert told.value.fault is STORE_UNAVAILABLE
        assert said in told.value.detail
        assert value not in told.value.detail
        session.close()
    assert shelf.rows(BYTES) == [(3,)]
    assert (shelf.load(), shelf.files) == ((values, {}), [])


def test_a_missing_bucket_is_named_and_bytes_stay_in_the_database(shelf: InBucket) -> None:
    values = shelf.keep(3)
    execute(shelf.dsn, AN_HOUR_AGO)
    session = shelf.open()
    shelf.bucket.remove()
    with pytest.raises(InfrastructureError) as told:
        session.pack()
    session.close()
    assert "S3 says NO_SUCH_BUCKET: create the bucket" in told.value.detail
    assert (shelf.rows(BYTES), shelf.load()) == ([(3,)], (values, {}))


@pytest.mark.parametrize("status", [403, 503])
def test_a_bucket_that_refuses_to_give_a_file_has_damaged_nothing(shelf: InBucket, status: int) -> None:
    values = shelf.keep(3)
    assert shelf.pack() == 3
    with Refusing(shelf.bucket.server.address).running() as proxy:
        shelf.segments = Segments(shelf.bucket.behind(proxy.address).uri)
        assert shelf.load() == (values, {})
        proxy.status = status
        with pytest.raises(InfrastructureError) as told:
            shelf.load()
        assert told.value.fault is STORE_UNAVAILABLE
        proxy.status = 0
        assert shelf.load() == (values, {})


@pytest.mark.parametrize(
    "place",
    [
        "unfinished",
        *(pytest.param(each, marks=pytest.mark.full) for each in ("written", "recorded", "dropped")),
    ],
)
def test_a_kill_in_mid_move_to_a_bucket_loses_nothing_and_leaves_no_file(
    shelf: InBucket, own_topics: HasBootstrap, tmp_path: Path, place: str
) -> None:
    values = shelf.keep(30)
    if place == "dropped":
        assert shelf.pack() == 30
        execute(shelf.dsn, OVER.format(age="8 days", which='"offset" < 20'))
    execute(shelf.dsn, AN_HOUR_AGO)
    doomed = services.admin(
        bootstrap=own_topics.bootstrap,
        dsn=shelf.dsn,
        log=tmp_path / "doomed.log",
        env={
            "ONRAMP_ADMIN_STORE": shelf.bucket.uri,
            "ONRAMP_FAILPOINTS": f"admin.segment_{place}=kill",
            **shelf.bucket.env,
        },
    )
    doomed.start()
    eventually(lambda: not doomed.child.running, 120)
    in_bucket = {"unfinished": 0, "written": 1, "recorded": 1, "dropped": 2}
    assert len(shelf.files) == in_bucket[place]
    assert shelf.rows(OURS) == [(30 if place in {"unfinished", "written"} else 0,)]
    assert shelf.load() == (values, {})
    shelf.open().close()  # who becomes the packer sweeps
    assert shelf.files == shelf.names()
    assert shelf.load() == (values, {})


def test_a_server_that_is_silent_holds_up_neither_keeping_nor_reads_nor_the_end(
    shelf: InBucket, own_topics: HasBootstrap, tmp_path: Path
) -> None:
    values = shelf.keep(30)
    assert shelf.pack() == 30
    more = shelf.keep(5, at=30)
    store = {"ONRAMP_ADMIN_STORE": shelf.bucket.uri, **shelf.bucket.env}
    log = tmp_path / "admin.log"
    service = services.admin(bootstrap=own_topics.bootstrap, dsn=shelf.dsn, log=log, env=store)
    with shelf.bucket.server.frozen(), started(service):
        admin = Admin(service, shelf.dsn)
        [[event]] = shelf.rows(
            """SELECT id FROM onramp_admin.events WHERE topic = 'shelf' AND "offset" = 0"""
        )
        assert admin.get(f"/v1/events/{event}").json()["shape"] == "not read: store_unavailable"
        answer = admin.reveal(event)
        assert (answer.status_code, answer.json()["type"]) == (503, "/errors/store_unavailable")
        park(own_topics.bootstrap, "kept_meanwhile")
        admin.kept("kept_meanwhile", 1)
        eventually(
            lambda: "bytes of parked events stay in the control database" in log.read_text("utf-8"), 120
        )
        shelf.bucket.server.thaw()
        eventually(lambda: admin.reveal(event).content == values[0], 120)
        execute(shelf.dsn, AN_HOUR_AGO)
        eventually(lambda: shelf.rows(OURS) == [(0,)], 120)
        shelf.bucket.server.freeze()
        assert admin.reveal(event).status_code == 503
        service.stop()
        assert service.child.exit_code == 0
    shelf.open().close()  # who becomes the packer sweeps
    assert shelf.files == shelf.names()
    # The server was silent a moment ago: a segment may be refused once more.
    eventually(lambda: shelf.load()[0] == values | more, 60)
