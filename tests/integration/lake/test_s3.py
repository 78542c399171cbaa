"""Tables of the lake on an S3 server that enforces If-None-Match: conflicts, lost answers, SlowDown."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.lake.task import delta_commit
from shared.errors import LAKE_UNAVAILABLE
from shared.lake.delta_log import open_table
from shared.lake.storage import Storage
from tests.fixtures.fix_s3 import Bucket
from tests.fixtures.s3_faults import FaultyS3
from tests.unit.lake.orders import Lake

pytestmark = pytest.mark.full


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[FaultyS3]:
    with FaultyS3(bucket.server.address).running() as proxy:
        yield proxy


@pytest.fixture
def lake(bucket: Bucket, proxy: FaultyS3, tmp_path: Path) -> Lake:
    """Credentials come from a file, as in production."""
    file = tmp_path / "credentials"
    secret = bucket.env["AWS_SECRET_ACCESS_KEY"]
    file.write_text(f"access_key_id={bucket.server.key}\nsecret_access_key={secret}\n")
    lake = Lake(tmp_path)
    lake.storage = Storage(
        url=f"s3://{bucket.name}/lake", endpoint=proxy.url, credentials_file=file, retry_seconds=20
    )
    return lake


def offsets(lake: Lake) -> list[int]:
    table = open_table(lake.order().storage, "flights")
    assert table is not None
    return sorted(table.to_pyarrow_table(columns=["_offset"])["_offset"].to_pylist())


def test_two_commits_of_one_version_land_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lake.land_flights(range(3)).rows == 3
    write, other = delta_commit._write, list[bool]()

    def write_second(*arguments: Any) -> None:
        if not other:
            other.append(True)
            assert lake.land_flights(range(3, 6)).rows == 3
        write(*arguments)

    monkeypatch.setattr(delta_commit, "_write", write_second)
    report = lake.land_flights(range(3, 6))
    assert (report.refused, report.rows) == (1, 0)
    assert offsets(lake) == list(range(6))


def test_a_commit_whose_answer_is_lost_lands_once(lake: Lake, proxy: FaultyS3) -> None:
    lake.land_flights(range(3))
    proxy.lost_commits = 1
    first = lake.land_flights(range(3, 6))
    assert proxy.lost_commits == 0
    assert first.failure in (None, LAKE_UNAVAILABLE.code)
    assert lake.land_flights(range(3, 6)).failure is None
    assert offsets(lake) == list(range(6))


def test_slow_down_delays_a_commit_and_credentials_are_renewed(
    lake: Lake, proxy: FaultyS3, bucket: Bucket
) -> None:
    lake.land_flights(range(3))
    proxy.slow_downs = 3
    assert lake.land_flights(range(3, 6)).failure is None
    file = lake.order().storage.credentials_file
    assert file is not None
    good = file.read_text()
    file.write_text(good.replace(bucket.env["AWS_SECRET_ACCESS_KEY"], "expired"))
    assert lake.land_flights(range(6, 9)).failure == LAKE_UNAVAILABLE.code
    file.write_text(good)
    assert lake.land_flights(range(6, 9)).failure is None
    assert offsets(lake) == list(range(9))
