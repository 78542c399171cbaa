"""The agent detects in the landed changes whether a requested snapshot is complete."""

import orjson

from services.cdc.agent.source_state_sql import StateStore
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import execute

TABLE = ("app", "t")


def land(dsn: str, offset: int, op: str, snapshot: str) -> None:
    change = orjson.dumps({"op": op, "source": {"snapshot": snapshot}}).decode()
    execute(dsn, f"INSERT INTO landing.shop__app__t VALUES (0, {offset}, '{change}')")  # noqa: S608


def test_a_snapshots_end_counts_from_where_it_was_asked_for(migrated: Database) -> None:
    store = StateStore("shop", "ONRAMP_SOURCE_SHOP", migrated.dsn)
    assert store.has_snapshots_end(TABLE, 2) == (False, 2)
    execute(
        migrated.dsn,
        "CREATE SCHEMA IF NOT EXISTS landing;"
        "CREATE TABLE landing.shop__app__t (_partition int, _offset bigint, change jsonb)",
    )
    land(migrated.dsn, 1, "r", "last")
    assert store.has_snapshots_end(TABLE, 2) == (False, 2)
    land(migrated.dsn, 2, "r", "first")
    land(migrated.dsn, 3, "r", "true")
    # What comes after a snapshot that was cut off has its mark as well.
    land(migrated.dsn, 4, "c", "last")
    assert store.has_snapshots_end(TABLE, 2) == (False, 5)
    land(migrated.dsn, 5, "r", "last_in_data_collection")
    assert store.has_snapshots_end(TABLE, 5) == (True, 6)
    assert store.has_snapshots_end(TABLE, 1) == (True, 6)
    store.close()
