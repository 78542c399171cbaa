"""Sources from the registry's file: public tables equal the source after every kind of change."""

from pathlib import Path
from typing import Any

import psycopg2
import pytest
import yaml

from tests.fixtures.fix_postgres import Database
from tests.fixtures.up import StartUp
from tests.fixtures.writer import eventually, execute, rows

ENV = "ONRAMP_SOURCE_E2E"
NAME = "e2e_shop"
PREPARED = (
    "CREATE SCHEMA app; CREATE TABLE app.orders (id int PRIMARY KEY, note text);"
    "INSERT INTO app.orders SELECT n, 'before' FROM generate_series(1, 1000) n;"
    "CREATE PUBLICATION onramp_e2e_shop FOR TABLES IN SCHEMA app WITH (publish_via_partition_root = true)"
)


def there(dsn: str, query: str) -> list[tuple[Any, ...]] | None:
    """Return rows; None while a table or a column is not there yet."""
    try:
        return rows(dsn, query)
    except (psycopg2.errors.UndefinedTable, psycopg2.errors.UndefinedColumn):
        return None


def equal(source: Database, warehouse: Database, table: str, columns: str) -> bool:
    """Whether the public table has the source's rows, each as often."""
    query = "SELECT {} FROM {}.{} ORDER BY 1"
    wanted = rows(source.dsn, query.format(columns, "app", table))
    return there(warehouse.dsn, query.format(columns, "shop", table)) == wanted


@pytest.mark.full
def test_a_source_is_its_tables_here_equal_through_changes_of_rows_and_of_tables(
    up: StartUp, database: Database, own_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, warehouse = own_database, database
    monkeypatch.setenv(ENV, source.dsn)
    execute(source.dsn, PREPARED)
    file = tmp_path / "onramp.yaml"
    named = {"dsn_env": ENV, "schemas": ["app"], "publish": "shop"}
    file.write_text(yaml.safe_dump({"sources": {NAME: named}}))
    run = up("--events", "0", "--registry", str(file), "--dsn", warehouse.dsn)
    run.until("Ctrl-C stops everything")
    eventually(lambda: equal(source, warehouse, "orders", "id, note"), 120)

    execute(
        source.dsn,
        "UPDATE app.orders SET note = 'after' WHERE id <= 500; DELETE FROM app.orders WHERE id > 900",
    )
    eventually(lambda: equal(source, warehouse, "orders", "id, note"), 60)
    execute(source.dsn, "CREATE TABLE app.lines (id bigint PRIMARY KEY, amount numeric(10, 2))")
    execute(source.dsn, "INSERT INTO app.lines SELECT n, n / 100.0 FROM generate_series(1, 500) n")
    eventually(lambda: equal(source, warehouse, "lines", "id, amount::text"), 60)
    execute(source.dsn, "ALTER TABLE app.orders ADD COLUMN paid bool NOT NULL DEFAULT true")
    eventually(lambda: equal(source, warehouse, "orders", "id, note, paid"), 60)
    execute(source.dsn, "ALTER TABLE app.lines ALTER COLUMN amount TYPE text USING 'EUR ' || amount")
    eventually(lambda: equal(source, warehouse, "lines", "id, amount"), 60)
    execute(source.dsn, "TRUNCATE app.orders; INSERT INTO app.orders VALUES (1, 'again')")
    eventually(lambda: equal(source, warehouse, "orders", "id, note, paid"), 60)

    slot = "SELECT 1 FROM pg_replication_slots WHERE slot_name = 'onramp_e2e_shop'"
    assert rows(source.dsn, slot)
    file.write_text("sources: {}\n")
    eventually(lambda: not rows(source.dsn, slot), 60)
    assert equal(source, warehouse, "orders", "id, note, paid")
