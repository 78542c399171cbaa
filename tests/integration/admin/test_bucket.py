"""Segments in a bucket of a server that checks signatures, and what is said of one that cannot be used."""

from collections.abc import Iterator

import pytest

from services.admin.segments.folder import Segments
from services.admin.store.segments_sql import PackerSession
from shared.errors import BYTES_REMOVED, SEGMENT_MISSING, STORE_UNAVAILABLE, InfrastructureError
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.fix_s3 import Bucket
from tests.fixtures.writer import execute
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.shelf import AN_HOUR_AGO, BYTES, OVER, InBucket

MEBIBYTE = 2**20


@pytest.fixture
def shelf(postgres: HasDsn, bucket: Bucket) -> Iterator[InBucket]:
    with database_beside(postgres.dsn, "template0") as dsn:
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
    shelf.bucket.write(name.replace(".parquet", "0.parquet"), b"x")
    shelf.bucket.write("other/x.parquet", b"x")
    shelf.open().close()
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


def test_a_bucket_that_is_not_there_is_not_taken_for_an_empty_one(shelf: InBucket) -> None:
    shelf.keep(3)
    assert shelf.pack() == 3
    [name] = shelf.names()
    shelf.bucket.delete(name)
    shelf.bucket.remove()
    for ask in (shelf.load, shelf.open, lambda: shelf.segments.remove(name)):
        with pytest.raises(InfrastructureError) as told:
            ask()
        assert told.value.fault is STORE_UNAVAILABLE
        assert f"there is no bucket {shelf.bucket.name}: make it" in told.value.detail


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
    assert "S3 says NO_SUCH_BUCKET: make the bucket" in told.value.detail
    assert (shelf.rows(BYTES), shelf.load()) == ([(3,)], (values, {}))
