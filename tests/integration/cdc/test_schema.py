"""The tables of change data capture: created by the first process that needs them."""

import subprocess
import sys
import threading
from contextlib import closing

import psycopg2
import pytest

from services.cdc.agent.source_state_sql import StateStore, StateStoreError, sources_in
from services.cdc.merger.merger import Merger
from services.cdc.merger.published import Published
from services.cdc.merger.settings import MergerSettings
from services.cdc.schema.migrations import migrate
from services.writer.postgres.migrations import migrate as migrate_writer
from shared.registry.sources import Source
from stack.services import ROOT
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import database_of, eventually, execute, rows

COLUMNS = """
    SELECT table_schema, table_name, ordinal_position, column_name, data_type, column_default
    FROM information_schema.columns WHERE table_schema LIKE 'onramp%%' ORDER BY 1, 2, 3
"""
APPLIED = """
    SELECT 'writer', name, checksum FROM onramp.migrations
    UNION ALL SELECT 'cdc', name, checksum FROM onramp_agent.migrations ORDER BY 1, 2
"""
_MIGRATE = """
import sys
import psycopg2
from services.cdc.schema.migrations import migrate as of_cdc
from services.writer.postgres.database import Database
from services.writer.postgres.migrations import migrate as of_writer
if sys.argv[2] == "writer":
    of_writer(Database("onramp", sys.argv[1]))
else:
    of_cdc(psycopg2.connect(sys.argv[1]), "onramp")
"""


def migrate_cdc(dsn: str) -> None:
    with closing(psycopg2.connect(dsn)) as conn:
        migrate(conn, "onramp")


def test_the_tables_are_the_same_whichever_process_comes_first(
    database: Database, published: Database
) -> None:
    migrate_cdc(database.dsn)
    migrate_writer(database_of(database.dsn))
    for query in (COLUMNS, APPLIED):
        assert rows(database.dsn, query) == rows(published.dsn, query)


def test_the_writer_and_cdc_that_start_together_do_not_hinder_each_other(
    database: Database, published: Database
) -> None:
    starts = [
        subprocess.Popen(
            [sys.executable, "-c", _MIGRATE, database.dsn, owner], cwd=ROOT, stderr=subprocess.PIPE
        )
        for owner in ("writer", "cdc", "writer", "cdc")
    ]
    ends = [(process.communicate(timeout=60)[1], process.returncode) for process in starts]
    assert [code for _, code in ends] == [0] * 4, ends
    assert rows(database.dsn, APPLIED) == rows(published.dsn, APPLIED)


def test_a_schema_of_a_newer_onramp_is_refused(published: Database) -> None:
    execute(published.dsn, "INSERT INTO onramp_agent.migrations VALUES ('9999_later.sql', '')")
    with pytest.raises(StateStoreError, match=r"9999_later\.sql was applied .* by a newer Onramp"):
        sources_in(published.dsn)


def test_agent_started_before_the_writer_reports_it_and_works_after_migration(database: Database) -> None:
    with closing(StateStore("shop", "ONRAMP_SOURCE_SHOP", database.dsn)) as store:
        with pytest.raises(StateStoreError, match="start the writer"):
            store.read()
        migrate_writer(database_of(database.dsn))
        assert store.read().suspended == 0


def test_a_modeler_that_comes_before_the_writer_waits_for_it(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(dsn_env="ONRAMP_SOURCE_SHOP", schemas=("app",), publish="shop")
    published = Published(sources={"shop": source}, models={})
    merger = Merger(
        "onramp", database.dsn, lambda: published, MergerSettings(poll_seconds=0.05, retry_seconds=0.1)
    )
    caplog.set_level("INFO", "services.cdc.merger.merger")
    thread = threading.Thread(target=merger.run)
    thread.start()
    try:
        eventually(lambda: "waiting for the writer to create its tables" in caplog.text)
        assert rows(database.dsn, "SELECT count(*) FROM onramp.table_settings") == [(0,)]
        migrate_writer(database_of(database.dsn))
        execute(
            database.dsn,
            "INSERT INTO onramp.source_tables (source, schema_name, table_name, columns) "
            """VALUES ('shop', 'app', 't', '[]')""",
        )
        eventually(lambda: rows(database.dsn, "SELECT table_name FROM onramp.table_settings") == [("t",)])
    finally:
        merger.stop()
        thread.join()
