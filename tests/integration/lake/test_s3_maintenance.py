"""Maintenance and queries of tables on an S3 server, as on a folder."""

from collections import deque
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from services.lake.compaction.delta_compact import compact
from services.lake.compaction.delta_maintain import (
    checkpoint_if_due,
    checkpoint_version,
    unreferenced,
    vacuum,
)
from services.lake.compaction.policy import Policy
from services.ops.lake.delta_facts import facts, opened
from services.ops.lake.delta_query import query
from shared.lake.delta_log import open_table
from shared.lake.delta_storage import list_tables
from shared.lake.storage import Storage
from tests.fixtures.fix_s3 import Bucket
from tests.unit.lake.orders import Lake

pytestmark = pytest.mark.full


def test_a_table_on_s3_is_compacted_vacuumed_and_queried(bucket: Bucket, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.storage = Storage(
        url=f"s3://{bucket.name}/lake",
        endpoint=f"http://{bucket.server.address}",
        access_key_id=bucket.server.key,
        secret_access_key=bucket.env["AWS_SECRET_ACCESS_KEY"],
        retry_seconds=20,
    )
    for number in range(4):
        lake.land_flights(range(number * 3, number * 3 + 3))
    assert list_tables(lake.storage) == ["flights"]
    table = _opened(lake.storage)
    deque(compact(table, Policy(min_small_files=4), datetime.now(UTC)), maxlen=0)
    table = _opened(lake.storage)
    assert (facts("flights", table).rows, facts("flights", table).files) == (12, 1)
    assert checkpoint_if_due(table, 2)
    assert checkpoint_version(table) == table.version()
    assert unreferenced(table, 1) == ([], [])
    assert len(vacuum(table, 0)) >= 4
    with query(lake.storage, "SELECT count(*) AS n, count(DISTINCT _offset) AS d FROM flights") as result:
        assert [*result.rows] == [{"n": 12, "d": 12}]
    assert opened(lake.storage, "flights").count() == 12


def _opened(storage: Storage) -> DeltaTable:
    table = open_table(storage, "flights")
    assert table is not None
    return table
