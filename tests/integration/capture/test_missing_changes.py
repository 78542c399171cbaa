"""Missing or outdated changes: affected tables are re-snapshotted once open transactions have ended."""

from contextlib import closing
from typing import Final

import psycopg2
import pytest

from services.cdc.agent import names
from tests.fixtures.sources import Captured, flows
from tests.fixtures.writer import eventually
from tests.integration.capture.test_changes_without_events import new_reconciler
from tests.integration.capture.warehouse import equal, pending

ENUM: Final = (
    "CREATE TYPE app.mood AS ENUM ('sad', 'glad')",
    "CREATE TABLE app.moods (id int PRIMARY KEY, mood app.mood)",
    "INSERT INTO app.moods VALUES (1, 'sad')",
)
TWO: Final = (
    "CREATE TABLE app.{0} (id int PRIMARY KEY, u int NOT NULL UNIQUE)",
    "INSERT INTO app.{0} VALUES (0, 10), (1, 11), (2, 12)",
)
BY_ANOTHER: Final = (
    "DELETE FROM app.keys WHERE id = 1",
    "ALTER TABLE app.keys DROP CONSTRAINT keys_pkey, ADD PRIMARY KEY (u)",
)


@pytest.mark.usefixtures("warehouse")
def test_rows_of_a_transaction_open_during_a_catalog_change_are_published_correctly(shop: Captured) -> None:
    shop.execute(*ENUM)
    publication = f"ALTER PUBLICATION {names.publication(shop.name)}"
    with (
        new_reconciler(shop) as reconciler,
        closing(psycopg2.connect(shop.dsn)) as conn,
        conn.cursor() as cursor,
    ):
        flows(reconciler)
        assert equal(shop, "moods", "id, mood::text")
        # Told by the name of then, and not told at all: both come only when it commits.
        cursor.execute("INSERT INTO app.moods VALUES (2, 'sad')")
        shop.execute(
            "ALTER TYPE app.mood RENAME VALUE 'sad' TO 'blue'", f"{publication} DROP TABLES IN SCHEMA app"
        )
        cursor.execute("INSERT INTO app.orders (id, note) VALUES (77, 'in the gap')")
        shop.execute(f"{publication} ADD TABLES IN SCHEMA app")
        eventually(lambda: "once transactions have ended" in reconciler.reconcile().reason, 30)
        conn.commit()
        eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
        shop.execute(
            "INSERT INTO app.moods VALUES (3, 'blue')", "INSERT INTO app.orders VALUES (78, 'behind it')"
        )
        assert equal(shop, "moods", "id, mood::text")
        assert equal(shop, "orders", "id, note")


@pytest.mark.usefixtures("warehouse")
def test_a_schema_that_has_another_name_for_a_while(shop: Captured) -> None:
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        assert equal(shop, "orders", "id, note")
        shop.execute("ALTER SCHEMA app RENAME TO away")
        assert "the schema app is not there" in reconciler.reconcile().reason
        shop.execute(
            "INSERT INTO away.orders (id, note) VALUES (55, 'away')", "ALTER SCHEMA away RENAME TO app"
        )
        flows(reconciler)
        eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
        assert equal(shop, "orders", "id, note")


@pytest.mark.usefixtures("warehouse")
def test_a_row_that_was_deleted_by_another_key_than_it_has_now(shop: Captured) -> None:
    shop.execute(*(each.format("keys") for each in TWO))
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        assert equal(shop, "keys", "id, u")
        shop.execute(*BY_ANOTHER)
        eventually(lambda: reconciler.reconcile() and pending(shop), 60)
        eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
        assert equal(shop, "keys", "id, u")
