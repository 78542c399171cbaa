"""Polls of a source's catalogue wait for no table lock, and need no special right."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import psycopg2
import pytest

from services.cdc.agent import names
from services.cdc.agent.source_sql import SourceDatabase
from services.cdc.agent.source_state import Table
from services.cdc.change_detection.table_fingerprint import RowsStamp, why_again
from shared.registry.sources import Source
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import execute

MADE = """
    CREATE SCHEMA app;
    CREATE SCHEMA far;
    CREATE TABLE app.parts (id int, k int) PARTITION BY LIST (k);
    CREATE TABLE app.parts_1 PARTITION OF app.parts FOR VALUES IN (1);
    CREATE TABLE app.middle PARTITION OF app.parts FOR VALUES IN (2) PARTITION BY LIST (id);
    CREATE TABLE far.low PARTITION OF app.middle FOR VALUES IN (5);
    CREATE TABLE far.root (id int) PARTITION BY LIST (id);
    CREATE TABLE app.own PARTITION OF far.root FOR VALUES IN (1);
"""
KINDS: Final = {
    "wide": "id int PRIMARY KEY, note text",
    "narrow": "id int PRIMARY KEY, n int",
    "bare": "n int",
}
SILENT: Final = (
    "ALTER TABLE {0} SET UNLOGGED; INSERT INTO {0} VALUES (9); ALTER TABLE {0} SET LOGGED",
    "TRUNCATE {0}; ALTER TABLE {0} SET UNLOGGED; INSERT INTO {0} VALUES (8); ALTER TABLE {0} SET LOGGED",
    "ALTER TABLE {0} SET UNLOGGED; TRUNCATE {0}; INSERT INTO {0} VALUES (7); ALTER TABLE {0} SET LOGGED",
)
TOLD: Final = (
    "TRUNCATE {0}",
    "TRUNCATE {0}, app.parts",
    "TRUNCATE {0}; ANALYZE {0}",
    "TRUNCATE {0}; TRUNCATE {0}",
    "TRUNCATE {0}; ALTER TABLE {0} ADD more int",
)
_REWRITTEN: Final = "ALTER TABLE has rewritten it"


@pytest.fixture
def source(database: Database) -> Iterator[SourceDatabase]:
    execute(database.dsn, MADE)
    made = SourceDatabase(
        "shop", Source(dsn_env="ONRAMP_SOURCE_SHOP", schemas=("app",), publish="shop"), database.dsn
    )
    yield made
    made.close()


def tables(source: SourceDatabase) -> dict[str, Table]:
    return {table.full_name: table for table in source.inspect().tables}


def test_a_partition_that_is_locked_stops_no_look(source: SourceDatabase, database: Database) -> None:
    with closing(psycopg2.connect(database.dsn)) as conn, conn.cursor() as cursor:
        cursor.execute("LOCK TABLE app.parts_1, far.low IN ACCESS EXCLUSIVE MODE")
        stamp = tables(source)["app.parts"].rows_stamp
    assert (len(stamp.partitions), len(stamp.files)) == (2, 3)


def test_a_partition_whose_root_is_not_captured_is_a_table_of_its_own(source: SourceDatabase) -> None:
    assert {name: table.is_partition for name, table in tables(source).items()} == {
        "app.parts": False,
        "app.parts_1": True,
        "app.middle": True,
        "app.own": False,
    }


def test_a_partition_that_is_attached_again_has_another_stamp(
    source: SourceDatabase, database: Database
) -> None:
    before = tables(source)["app.parts"].rows_stamp
    assert before == tables(source)["app.parts"].rows_stamp
    execute(
        database.dsn,
        "ALTER TABLE app.parts DETACH PARTITION app.parts_1;"
        "ALTER TABLE app.parts ATTACH PARTITION app.parts_1 FOR VALUES IN (1)",
    )
    after = tables(source)["app.parts"].rows_stamp
    assert (before.partitions, before.files == after.files) == (after.partitions, False)


def why(source: SourceDatabase, database: Database, statement: str, table: str) -> str:
    """Why a table is read again after a statement; several are of one transaction."""
    before = tables(source)[f"app.{table}"].rows_stamp
    assert before == RowsStamp.of(before.document())
    with closing(psycopg2.connect(database.dsn)) as conn:
        conn.autocommit = statement.startswith(("VACUUM", "REINDEX"))
        with conn.cursor() as cursor:
            cursor.execute(statement.format(f"app.{table}"))
        conn.commit()
    return why_again(before, tables(source)[f"app.{table}"].rows_stamp, lambda _: True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [False, True])
def test_table_rewrite_without_change_events_is_distinguished_from_logged_changes(
    source: SourceDatabase, database: Database, kind: str, *, again: bool
) -> None:
    execute(database.dsn, f"CREATE TABLE app.{kind} ({KINDS[kind]})")
    if again:
        execute(database.dsn, f"TRUNCATE app.{kind}; INSERT INTO app.{kind} VALUES (3); ANALYZE app.{kind}")  # noqa: S608
    for silent in SILENT:
        assert why(source, database, silent, kind) == _REWRITTEN, silent
    # Nothing tells it of a table with neither index nor TOAST table: that is read once too often.
    unknown = _REWRITTEN if kind == "bare" else ""
    for told in TOLD:
        assert why(source, database, told, kind) == unknown, told
    for known in ("INSERT INTO {0} VALUES (6); ANALYZE {0}", "VACUUM {0}", "REINDEX TABLE {0}"):
        assert why(source, database, known, kind) == "", known
    assert why(source, database, "VACUUM FULL {0}", kind) == ("" if kind == "wide" else _REWRITTEN)


def test_statement_that_changes_no_row_gives_no_reason_to_re_snapshot(
    source: SourceDatabase, database: Database
) -> None:
    execute(database.dsn, "CREATE TABLE app.wide (id int PRIMARY KEY, note text)")
    for known in (
        "GRANT SELECT ON app.wide TO public",
        "CREATE INDEX ON app.wide (note)",
        "ALTER TABLE app.wide ADD more int",
        "ALTER TABLE app.wide REPLICA IDENTITY FULL",
        "COMMENT ON TABLE app.wide IS 'wide'",
        "GRANT USAGE ON SCHEMA app TO public",
        "ALTER SCHEMA far RENAME TO farther",
        "ALTER TABLE app.wide OWNER TO pg_monitor",
        "ALTER TABLE app.wide CLUSTER ON wide_pkey",
    ):
        assert why(source, database, known, "wide") == "", known


def test_columns_that_came_and_went_and_what_changes_no_row_of_columns(
    source: SourceDatabase, database: Database
) -> None:
    execute(
        database.dsn,
        "CREATE TYPE app.mood AS ENUM ('sad', 'glad'); CREATE TYPE app.pair AS (a int, b int);"
        "CREATE TABLE app.two (id int PRIMARY KEY, a int DEFAULT 1, b int, mood app.mood, pair app.pair[])",
    )
    for gone in ("ALTER TABLE {0} ADD more int; ALTER TABLE {0} DROP more", "ALTER TABLE {0} DROP b"):
        found = why(source, database, gone, "two")
        assert found == ("a column of it came and went" if "more" in gone else ""), gone
    execute(database.dsn, "ALTER TABLE app.two ADD b int")
    for known in (
        "ALTER TYPE app.pair RENAME ATTRIBUTE a TO x",
        "ALTER TABLE {0} ALTER a SET DEFAULT 2",
        "ALTER TABLE {0} ALTER a DROP DEFAULT",
        "ALTER TABLE {0} ALTER b SET NOT NULL",
        "ALTER TABLE {0} ALTER b SET STATISTICS 500",
        "ALTER TABLE {0} ALTER b SET (n_distinct = 5)",
        "ALTER TABLE {0} ADD CHECK (a > 0)",
        "ALTER TABLE {0} ADD FOREIGN KEY (a) REFERENCES {0}",
        "GRANT SELECT (a) ON {0} TO public",
        "COMMENT ON COLUMN {0}.a IS 'a'",
        "INSERT INTO {0} (id, a, b, mood) VALUES (1, 1, 1, 'sad'); ANALYZE {0}",
        "TRUNCATE {0}",
        "VACUUM FREEZE {0}",
        "ALTER TYPE app.mood ADD VALUE 'calm' BEFORE 'glad'",
        "ALTER TABLE {0} ADD more int DEFAULT 5; ALTER TABLE {0} ALTER more DROP DEFAULT",
    ):
        found = why(source, database, known, "two")
        assert found == ("the new column more has a default" if "more" in known else ""), known


def test_a_default_that_is_written_into_the_rows_and_gone(source: SourceDatabase, database: Database) -> None:
    execute(database.dsn, "CREATE TABLE app.wide (id int PRIMARY KEY, note text)")
    before = tables(source)["app.wide"].rows_stamp
    execute(
        database.dsn,
        "ALTER TABLE app.wide ADD more int DEFAULT 5; ALTER TABLE app.wide ALTER more DROP DEFAULT",
    )
    with closing(psycopg2.connect(database.dsn)) as conn, conn.cursor() as cursor:
        conn.autocommit = True
        cursor.execute("VACUUM FULL app.wide")
    found = why_again(before, tables(source)["app.wide"].rows_stamp, lambda _: True)
    assert found == "a new column of it may have had a default"


def test_a_table_that_was_not_published_for_a_moment_is_read_again(
    source: SourceDatabase, database: Database
) -> None:
    publication = names.publication("shop")
    made = (
        f"CREATE PUBLICATION {publication} FOR TABLES IN SCHEMA app WITH (publish_via_partition_root = true)"
    )
    execute(database.dsn, f"CREATE TABLE app.wide (id int PRIMARY KEY, note text); {made}")
    changed = "its publication was changed"
    for away, back in (
        (f"DROP PUBLICATION {publication}", made),
        (
            f"ALTER PUBLICATION {publication} DROP TABLES IN SCHEMA app",
            f"ALTER PUBLICATION {publication} ADD TABLES IN SCHEMA app",
        ),
        (
            f"ALTER PUBLICATION {publication} SET (publish = 'insert')",
            f"ALTER PUBLICATION {publication} SET (publish = 'insert, update, delete, truncate')",
        ),
    ):
        assert why(source, database, f"{away}; {back}", "wide") == changed
    assert why(source, database, f"ALTER PUBLICATION {publication} ADD TABLES IN SCHEMA far", "wide") == ""


def test_change_of_the_replica_identity_index_is_detected_as_a_key_change(
    source: SourceDatabase, database: Database
) -> None:
    execute(database.dsn, "CREATE TABLE app.two (id int PRIMARY KEY, u int NOT NULL UNIQUE, note text)")
    by_index = "ALTER TABLE {0} REPLICA IDENTITY USING INDEX two_u_key"
    assert why(source, database, by_index, "two") == "its key has changed"
    for known in (
        "REINDEX TABLE {0}",
        "ALTER TABLE {0} ADD UNIQUE (note)",
        "INSERT INTO {0} VALUES (1, 1, ''); ANALYZE {0}",
        "VACUUM FULL {0}",
        "TRUNCATE {0}",
    ):
        assert why(source, database, known, "two") == "", known
    execute(database.dsn, "ALTER TABLE app.two REPLICA IDENTITY DEFAULT")
    assert why(source, database, "REINDEX TABLE CONCURRENTLY {0}", "two") == ""
    another = "ALTER TABLE {0} DROP CONSTRAINT two_pkey, ADD PRIMARY KEY (u)"
    assert why(source, database, another, "two") == "its key has changed"


def test_index_invalid_during_a_concurrent_reindex_is_not_detected_as_a_change(
    source: SourceDatabase, database: Database
) -> None:
    execute(database.dsn, "CREATE TABLE app.two (id int PRIMARY KEY, u int NOT NULL UNIQUE)")
    invalid = "UPDATE pg_index SET indisvalid = NOT indisvalid WHERE indexrelid = 'app.two_u_key'::regclass"
    for _ in range(2):  # as REINDEX CONCURRENTLY and DROP INDEX CONCURRENTLY do of their own accord
        assert why(source, database, invalid, "two") == ""


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        ("id int PRIMARY KEY", ("id",)),
        ("a int, id int, PRIMARY KEY (id, a)", ("id", "a")),
        ("id int, n int, PRIMARY KEY (id) INCLUDE (n)", ("id",)),
        ("id int PRIMARY KEY DEFERRABLE", None),
        ("id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED", None),
        ("id int UNIQUE", None),
    ],
)
def test_table_key_is_an_immediately_unique_index_or_absent(
    source: SourceDatabase, database: Database, columns: str, key: tuple[str, ...] | None
) -> None:
    execute(database.dsn, f"CREATE TABLE app.told ({columns}); ALTER TABLE app.told REPLICA IDENTITY FULL")
    told = tables(source)["app.told"]
    assert told.key == key
    assert bool(told.rows_stamp.key) == bool(key)


def test_a_key_that_not_all_partitions_have_tells_no_row(source: SourceDatabase, database: Database) -> None:
    execute(database.dsn, "ALTER TABLE app.parts ALTER id SET NOT NULL, ALTER k SET NOT NULL")
    execute(database.dsn, "ALTER TABLE ONLY app.parts ADD PRIMARY KEY (id, k)")
    assert tables(source)["app.parts"].key is None
    execute(
        database.dsn,
        "ALTER TABLE app.parts DROP CONSTRAINT parts_pkey; ALTER TABLE app.parts ADD PRIMARY KEY (id, k)",
    )
    assert tables(source)["app.parts"].key == ("id", "k")


def test_partitioned_table_with_a_differently_identified_partition_is_excluded(
    source: SourceDatabase, database: Database
) -> None:
    def hidden(statement: str) -> str:
        execute(database.dsn, statement)
        return tables(source)["app.parts"].hidden

    assert hidden("ALTER TABLE app.parts_1 ADD UNIQUE (id), ADD PRIMARY KEY (k)") == "identity"
    assert hidden("ALTER TABLE app.parts_1 REPLICA IDENTITY FULL") == ""
    execute(database.dsn, "ALTER TABLE app.parts_1 DROP CONSTRAINT parts_1_pkey, ALTER id SET NOT NULL")
    assert hidden("ALTER TABLE app.parts_1 REPLICA IDENTITY DEFAULT") == ""  # nobody changes them
    assert hidden("ALTER TABLE app.parts ADD PRIMARY KEY (id, k)") == ""
    by_index = "REPLICA IDENTITY USING INDEX"
    assert hidden(f"ALTER TABLE app.parts_1 {by_index} parts_1_id_key") == "identity"
    assert hidden(f"ALTER TABLE app.parts_1 {by_index} parts_1_pkey") == ""
    assert hidden("ALTER TABLE far.low ADD UNIQUE (id, k)") == ""
    assert hidden(f"ALTER TABLE far.low {by_index} low_id_k_key") == ""  # by another index of the same


def test_a_default_of_a_moment_in_the_rows_of_partitions(source: SourceDatabase, database: Database) -> None:
    added = "ALTER TABLE {0} ADD more int DEFAULT 5; ALTER TABLE {0} ALTER more DROP DEFAULT"
    assert why(source, database, added, "parts") == "the new column more has a default"
    assert why(source, database, "ALTER TABLE {0} ADD another int", "parts") == ""


def test_partition_published_through_a_root_in_another_schema_is_excluded(
    source: SourceDatabase, database: Database
) -> None:
    publication = names.publication("shop")
    execute(
        database.dsn,
        f"CREATE PUBLICATION {publication} FOR TABLES IN SCHEMA app WITH (publish_via_partition_root = true)",
    )
    assert tables(source)["app.own"].hidden == ""
    for change in ("ADD TABLES IN SCHEMA far", "DROP TABLES IN SCHEMA far", "ADD TABLE far.root"):
        execute(database.dsn, f"ALTER PUBLICATION {publication} {change}")
        assert tables(source)["app.own"].hidden == ("" if "DROP" in change else "elsewhere")
        assert [table.hidden for name, table in tables(source).items() if name != "app.own"] == ["", "", ""]


def test_a_schema_whose_name_needs_quotes_is_there(database: Database) -> None:
    execute(database.dsn, 'CREATE SCHEMA "It\'s ""mine"""; CREATE TABLE "It\'s ""mine""".t (id int)')
    named = Source(dsn_env="ONRAMP_SOURCE_SHOP", schemas=('It\'s "mine"',), publish="shop")
    source = SourceDatabase("shop", named, database.dsn)
    source_state = source.inspect()
    source.close()
    assert ([table.name for table in source_state.tables], source_state.lacks_schema) == (["t"], False)
    assert "is not there" not in source_state.unprepared


def test_missing_schema_is_reported(source: SourceDatabase, database: Database) -> None:
    assert not source.inspect().lacks_schema
    execute(database.dsn, "ALTER SCHEMA app RENAME TO away")
    assert source.inspect().lacks_schema
