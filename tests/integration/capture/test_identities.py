"""Keys and replica identities: the public table equals the source, or the table is excluded."""

from collections.abc import Iterator
from typing import Final

import pytest

from services.cdc.agent.reconcile import SourceReconciler
from services.cdc.agent.source_state import HIDDEN
from tests.fixtures.sources import Captured, flows
from tests.fixtures.writer import eventually
from tests.integration.capture.test_changes_without_events import new_reconciler
from tests.integration.capture.warehouse import equal, pending

LARGE: Final = "repeat(md5(id::text), 300)"
ROOT: Final = "CREATE TABLE app.{0} (id int{1}, n int, note text) PARTITION BY RANGE (id)"
LEAVES: Final = (
    "CREATE TABLE app.{0}_low PARTITION OF app.{0} FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE app.{0}_high PARTITION OF app.{0} FOR VALUES FROM (100) TO (1000)",
    "ALTER TABLE app.{0} ALTER note SET STORAGE EXTERNAL",
)
FULL: Final = "ALTER TABLE app.{} REPLICA IDENTITY FULL"


@pytest.fixture(scope="module")
def shop(shop_of_module: Captured) -> Captured:
    return shop_of_module


@pytest.fixture
def reconciler(shop: Captured) -> Iterator[SourceReconciler]:
    with new_reconciler(shop) as made:
        yield made


def made(table: str, columns: str, *more: str) -> tuple[str, ...]:
    filled = f"INSERT INTO app.{table} SELECT id, 0, {LARGE} FROM generate_series(1, 9) id"  # noqa: S608
    return (f"CREATE TABLE app.{table} ({columns})", *more, filled)


def parts(table: str, key: str, *more: str) -> tuple[str, ...]:
    rows = f"INSERT INTO app.{table} SELECT id, 0, {LARGE} FROM generate_series(90, 110) id"  # noqa: S608
    return tuple(each.format(table, key) for each in (ROOT, *LEAVES, *more, rows))


def changed(table: str) -> tuple[str, ...]:
    """Return statements that change rows, their keys, and leave large values alone."""
    return tuple(
        each.format(table)
        for each in (
            "UPDATE app.{0} SET n = id",
            "DELETE FROM app.{0} WHERE id % 5 = 0",
            "INSERT INTO app.{0} (id, n) VALUES (5, 7)",
            # Also into another partition.
            "UPDATE app.{0} SET n = n + 1, id = id / 101 * 95 WHERE id IN (5, 101)",
        )
    )


@pytest.mark.usefixtures("warehouse")
def test_changed_rows_stay_equal_when_identified_by_an_immediate_key_or_the_full_row(
    shop: Captured, reconciler: SourceReconciler
) -> None:
    shifted = "UPDATE app.{} SET id = id + 1"
    shop.execute(
        *made("late", "id int PRIMARY KEY DEFERRABLE, n int, note text", FULL.format("late")),
        *made("wide", "id int, n int, note text, PRIMARY KEY (id) INCLUDE (n)"),
        *made("wider", "id int, n int, note text, PRIMARY KEY (id) INCLUDE (n)", FULL.format("wider")),
        *parts("of_root", " PRIMARY KEY", FULL.format("{0}")),
        *parts("keyless", "", *(FULL.format(f"{{0}}_{leaf}") for leaf in ("low", "high"))),
    )
    tables = ("late", "wide", "wider", "of_root", "keyless")
    flows(reconciler)
    for table in tables:
        assert equal(shop, table, "id, n, note"), table
    shop.execute(shifted.format("late"), *(each for table in tables for each in changed(table)))
    shop.execute(shifted.format("late"), "DELETE FROM app.late WHERE id = (SELECT max(id) FROM app.late)")
    for table in tables:
        assert equal(shop, table, "id, n, note"), table
    reconciler.reconcile()
    assert not pending(shop)


@pytest.mark.usefixtures("warehouse")
def test_a_default_that_partitions_alone_know(shop: Captured, reconciler: SourceReconciler) -> None:
    shop.execute(*parts("added", " PRIMARY KEY"))
    flows(reconciler)
    assert equal(shop, "added", "id, n, note")
    shop.execute(
        "ALTER TABLE app.added ADD more int DEFAULT 5; ALTER TABLE app.added ALTER more DROP DEFAULT",
        "INSERT INTO app.added (id) VALUES (120)",
    )
    eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
    assert equal(shop, "added", "id, n, note, more")


@pytest.mark.usefixtures("warehouse")
def test_table_with_a_partition_identified_by_other_columns_is_excluded(
    shop: Captured, reconciler: SourceReconciler
) -> None:
    shop.execute(
        *parts("by_index", " PRIMARY KEY", "ALTER TABLE app.{0}_low ALTER n SET NOT NULL"),
        *parts("by_own", "", "ALTER TABLE app.{0}_low ADD PRIMARY KEY (id)", FULL.format("{0}")),
        FULL.format("by_own_high"),
        "UPDATE app.by_index SET n = id",
        "CREATE UNIQUE INDEX by_n ON app.by_index_low (n)",
    )
    tables = {
        "by_index": "ALTER TABLE app.{0}_low REPLICA IDENTITY DEFAULT",
        "by_own": FULL.format("{0}_low"),
    }
    flows(reconciler)
    assert equal(shop, "by_index", "id, n, note")
    assert reconciler.reconcile().source_state.excluded_tables == {"app.by_own": HIDDEN["identity"]}
    shop.execute("ALTER TABLE app.by_index_low REPLICA IDENTITY USING INDEX by_n")
    shop.execute("DELETE FROM app.by_index WHERE id = 91", "UPDATE app.by_index SET n = -1 WHERE id = 92")
    assert set(reconciler.reconcile().source_state.excluded_tables) == {"app.by_index", "app.by_own"}
    for table, mended in tables.items():
        shop.execute(mended.format(table))
    eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
    shop.execute(*(each for table in tables for each in changed(table)))
    for table in tables:
        assert equal(shop, table, "id, n, note")
