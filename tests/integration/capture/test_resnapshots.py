"""Re-snapshots of tables that are empty or written to meanwhile: no row is missing or doubled."""

from contextlib import closing
from typing import Final

import psycopg2
import pytest

from tests.fixtures.sources import Captured, flows
from tests.fixtures.writer import eventually
from tests.integration.capture.warehouse import equal, is_amid_reading, pending, unreadable_from

TABLES: Final = ("app.first", 'app."la.st"')
MAKE: Final = """
    CREATE TABLE {0} (a int, b text, "it's ""so" int DEFAULT 3);
    ALTER TABLE {0} REPLICA IDENTITY FULL;
    ALTER TABLE {0} ALTER b SET STORAGE EXTERNAL;
    INSERT INTO {0} SELECT i % 50, repeat('x', CASE WHEN i > 100 THEN 3000 ELSE 3 END)
    FROM generate_series(1, 120) i
"""
CHANGES: Final = (
    "INSERT INTO {0} VALUES (7, 'new'), (7, 'new'), (8, 'goes')",
    "DELETE FROM {0} WHERE b = 'goes' OR ctid = '(0,2)'",
    # Of rows with a large value nobody could, while that cannot be read.
    "UPDATE {0} SET c = 8 WHERE a = 3 AND b = 'xxx'",
)

END_SNAPSHOTS: Final = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()
    AND starts_with(application_name, 'Debezium') AND wait_event_type = 'Lock'
"""
OPEN: Final = "INSERT INTO {0} VALUES (1, 'open')"


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("is_restarted", [pytest.param(True, marks=pytest.mark.full), False])
def test_changes_made_during_a_re_snapshot_are_published_once(shop: Captured, *, is_restarted: bool) -> None:
    shop.execute(*(MAKE.format(table) for table in TABLES))
    reconciler = shop.new_reconciler()
    flows(reconciler)
    assert equal(shop, "first", "a, b")
    assert equal(shop, '"la.st"', "a, b")
    if is_restarted:
        # A connector that did not make its slot itself reads each table by a snapshot of its own.
        shop.connect.kill()
        shop.connect.start()
        shop.connect.wait_ready()
    shop.execute(*(f"ALTER TABLE {table} ADD c int DEFAULT 7" for table in TABLES))
    eventually(lambda: reconciler.reconcile() and pending(shop), 60)  # what is open by then has to end first
    with closing(psycopg2.connect(shop.dsn)) as conn, conn.cursor() as cursor:
        for table in TABLES:
            cursor.execute(OPEN.format(table))
        with unreadable_from(shop, TABLES[0]):
            # The first one's snapshot has begun, and the other one's has not.
            eventually(
                lambda: reconciler.reconcile() and is_amid_reading(shop, f"{shop.name}__app__first"), 60
            )
            for table in TABLES:
                shop.execute(*(change.format(table) for change in CHANGES))
        eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
        conn.commit()
    assert equal(shop, "first", "a, b, c")
    assert equal(shop, '"la.st"', "a, b, c")
    reconciler.close()


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("has_key", [pytest.param(True, marks=pytest.mark.full), False])
def test_the_last_partition_takes_all_rows_with_it(shop: Captured, *, has_key: bool) -> None:
    shop.execute(
        f"CREATE TABLE app.parts (id int {'PRIMARY KEY' if has_key else ''}) PARTITION BY RANGE (id)",
        "CREATE TABLE app.parts_1 PARTITION OF app.parts FOR VALUES FROM (1) TO (10)",
        *([] if has_key else [f"ALTER TABLE app.{t} REPLICA IDENTITY FULL" for t in ("parts", "parts_1")]),
        "INSERT INTO app.parts VALUES (1), (2)",
    )
    reconciler = shop.new_reconciler()
    flows(reconciler)
    assert equal(shop, "parts", "id")
    shop.execute(
        "DROP TABLE app.parts_1",
        "CREATE TABLE app.parts_2 PARTITION OF app.parts FOR VALUES FROM (1) TO (10)",
        *([] if has_key else ["ALTER TABLE app.parts_2 REPLICA IDENTITY FULL"]),
    )
    eventually(lambda: reconciler.reconcile() and pending(shop), 60)
    eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
    assert equal(shop, "parts", "id")
    shop.execute("INSERT INTO app.parts VALUES (2), (3)", "DELETE FROM app.parts WHERE id = 2")
    assert equal(shop, "parts", "id")
    reconciler.close()


@pytest.mark.usefixtures("warehouse")
def test_a_snapshot_whose_session_ends_amid_it_is_asked_for_again(shop: Captured) -> None:
    shop.execute(
        MAKE.format(TABLES[0]), "ALTER TABLE app.first ADD id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    )
    reconciler = shop.new_reconciler()
    flows(reconciler)
    assert equal(shop, "first", "a, b")
    # The default is gone by the time that somebody looks: so do those who add a field that must not be NULL.
    shop.execute(
        "ALTER TABLE app.first ADD c int NOT NULL DEFAULT 7; ALTER TABLE app.first ALTER c DROP DEFAULT"
    )
    eventually(lambda: reconciler.reconcile() and pending(shop), 60)
    with unreadable_from(shop, TABLES[0]):
        eventually(lambda: reconciler.reconcile() and is_amid_reading(shop, f"{shop.name}__app__first"), 60)
        # Debezium warns, goes on with the log and tells nobody.
        assert shop.ask(END_SNAPSHOTS) == [(1,)]
    eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
    assert equal(shop, "first", "a, b, c")
    reconciler.close()
