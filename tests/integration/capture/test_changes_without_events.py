"""Rows that change without an event in the WAL: the public table equals the source after a re-snapshot."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest

from services.cdc.agent import names
from services.cdc.agent.connect_api import ConnectApi, ConnectError, snapshot_of
from services.cdc.agent.reconcile import SourceReconciler
from services.cdc.agent.source_sql import SourceDatabase
from services.cdc.agent.source_state import HIDDEN, SourceState
from services.cdc.setup.prepare import statements
from services.cdc.setup.source_requests_sql import ask_for_resync
from tests.fixtures.sources import Captured, delete_topic, flows, password_of, statements_in
from tests.fixtures.writer import eventually
from tests.integration.capture.changes_without_events import CHANGE_SILENTLY, MAKE_SILENT, SILENT
from tests.integration.capture.conftest import Warehouse
from tests.integration.capture.warehouse import differ, equal, pending

DELETE: Final = "DELETE FROM app.{0}"
ONE_ROW: Final = ("CREATE TABLE app.{0} (id int{1}, note text)", "INSERT INTO app.{0} VALUES (1, 'before')")


@contextmanager
def new_reconciler(shop: Captured, **changed: object) -> Iterator[SourceReconciler]:
    reconciler = shop.new_reconciler(**changed)
    try:
        yield reconciler
    finally:
        reconciler.close()


@pytest.mark.usefixtures("warehouse")
def test_table_changed_without_change_events_is_re_snapshotted(shop: Captured) -> None:
    shop.execute(*MAKE_SILENT)
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        for table, columns in SILENT.items():
            assert equal(shop, table, columns.replace(", twice", ""))
        shop.execute(*CHANGE_SILENTLY)
        eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
        for table, columns in SILENT.items():
            assert equal(shop, table, columns)


@pytest.mark.usefixtures("warehouse")
def test_table_changed_while_unpublished_is_re_snapshotted(shop: Captured) -> None:
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        assert equal(shop, "orders", "id, note")
        publication = f"ALTER PUBLICATION {names.publication(shop.name)}"
        shop.execute(f"{publication} DROP TABLES IN SCHEMA app")
        assert reconciler.reconcile().state == "setup_required"
        shop.execute("UPDATE app.orders SET note = 'in the gap'", f"{publication} ADD TABLES IN SCHEMA app")
        flows(reconciler)
        eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
        assert equal(shop, "orders", "id, note")


@pytest.mark.full
@pytest.mark.usefixtures("warehouse")
def test_table_changed_while_unpublished_between_two_polls_is_re_snapshotted(shop: Captured) -> None:
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        assert equal(shop, "orders", "id, note")
        gap = (
            "ALTER PUBLICATION {0} DROP TABLES IN SCHEMA app; UPDATE app.orders SET note = 'in the gap';"
            "ALTER PUBLICATION {0} ADD TABLES IN SCHEMA app"
        )
        shop.execute(gap.format(names.publication(shop.name)))
        eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
        assert equal(shop, "orders", "id, note")


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("ends", [False, pytest.param(True, marks=pytest.mark.full)])
def test_excluded_table_returns_with_its_current_rows(
    shop: Captured, monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    tables = {"emptied": " PRIMARY KEY", "bare": "", "changed": " PRIMARY KEY"}
    for table, key in tables.items():
        shop.execute(*(each.format(table, key) for each in ONE_ROW))
    shop.execute("ALTER TABLE app.bare REPLICA IDENTITY FULL")
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        for table in tables:
            assert equal(shop, table, "id, note")
        first = reader(reconciler)
    with (
        new_reconciler(shop, exclude=tuple(f"app.{table}" for table in tables)) as reconciler,
        monkeypatch.context() as m,
    ):
        if ends:  # as soon as Kafka Connect knows
            m.setattr(ConnectApi, "put_config", and_end(ConnectApi.put_config))
            with pytest.raises(RuntimeError, match="the agent ends"):
                reconciler.reconcile()
            eventually(lambda: reader_of(shop) not in (None, first), 60)
        else:
            eventually(lambda: reader(reconciler) not in (None, first), 60)
        shop.execute(
            *(DELETE.format(table) for table in tables),
            "INSERT INTO app.changed VALUES (2, 'meanwhile')",
            "INSERT INTO app.orders VALUES (2, 'behind it')",
        )
        assert equal(shop, "orders", "id, note")
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
        for table in tables:
            assert equal(shop, table, "id, note")


def and_end(put: Callable[..., None]) -> Callable[..., None]:
    def putting(*arguments: Any) -> None:
        put(*arguments)
        raise RuntimeError("the agent ends")

    return putting


def reader_of(shop: Captured) -> str | None:
    """Return the slot's reader, as `reader` does, without an agent."""
    slot = seen_by(shop, shop.dsn).slot
    return slot.reader if slot else None


def reader(reconciler: SourceReconciler) -> str | None:
    source_state = reconciler.reconcile().source_state
    return source_state.slot.reader if source_state and source_state.slot else None


@pytest.mark.usefixtures("warehouse")
def test_removed_source_returns_with_its_current_rows(shop: Captured) -> None:
    shop.execute(
        *(each.format("emptied", "") for each in ONE_ROW), "ALTER TABLE app.emptied REPLICA IDENTITY FULL"
    )
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        for table in ("emptied", "orders"):
            assert equal(shop, table, "id, note")
        eventually(reconciler.remove, 60)
    shop.execute("DELETE FROM app.emptied", "UPDATE app.orders SET note = 'while it was away'")
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        # The agent notes the end of the first snapshot, behind which a table without rows is emptied.
        for table in ("emptied", "orders"):
            eventually(lambda table=table: reconciler.reconcile() and not differ(shop, table, "id, note"), 60)
    shop.execute("INSERT INTO app.emptied VALUES (3, 'after')")
    assert equal(shop, "emptied", "id, note")


def test_a_resync_goes_on_with_a_topic_that_was_made_again(shop: Captured, warehouse: Warehouse) -> None:
    shop.execute("INSERT INTO app.orders SELECT i, 'before' FROM generate_series(2, 50) i")
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        assert equal(shop, "orders", "id, note")
        delete_topic(shop.bootstrap, names.topic(shop.name, "app", "orders"))
        shop.execute("DELETE FROM app.orders WHERE id > 5", "UPDATE app.orders SET note = 'meanwhile'")
        assert ask_for_resync(shop.published, shop.name)
        eventually(lambda: reconciler.reconcile().state == "streaming", 60)
        warehouse.restart_writer()
        assert equal(shop, "orders", "id, note")
        shop.execute("UPDATE app.orders SET note = 'after'")
        assert equal(shop, "orders", "id, note")


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("all_of_it", [pytest.param(True, marks=pytest.mark.full), False])
def test_kafka_connect_has_forgotten_a_source_whose_slot_is_there(shop: Captured, *, all_of_it: bool) -> None:
    for table, key in {"emptied": " PRIMARY KEY", "bare": ""}.items():
        shop.execute(*(each.format(table, key) for each in ONE_ROW))
    shop.execute("ALTER TABLE app.bare REPLICA IDENTITY FULL")
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        for table in ("emptied", "bare", "orders"):
            assert equal(shop, table, "id, note")
        eventually(
            lambda: reconciler.reconcile() and snapshot_of(shop.api.offsets(shop.connector)) is None, 60
        )
        reconciler.reconcile()
        shop.api.stop(shop.connector)
        eventually(lambda: (status := shop.api.status(shop.connector)) and status.is_stopped, 60)
        shop.api.delete_offsets(shop.connector)
        if all_of_it:
            shop.api.delete(shop.connector)
        shop.execute("DELETE FROM app.emptied", "INSERT INTO app.bare VALUES (2, 'meanwhile')")
        reconciler.reconcile()
        # The connector's new snapshot ends before the next look.
        eventually(lambda: snapshot_of(shop.api.offsets(shop.connector)) is None, 60)
        flows(reconciler)
        eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
        for table in ("emptied", "bare", "orders"):
            assert equal(shop, table, "id, note")


@pytest.mark.full
def test_a_kafka_connect_that_starts_has_forgotten_nothing(shop: Captured) -> None:
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        eventually(
            lambda: reconciler.reconcile() and snapshot_of(shop.api.offsets(shop.connector)) is None, 60
        )
        reconciler.reconcile()
        shop.connect.stop()
        shop.connect.start()

        def is_back() -> bool:
            shown = reconciler.reconcile()
            assert not pending(shop)
            with suppress(ConnectError):
                assert shop.api.config(shop.connector) is not None
                assert shop.api.status(shop.connector) is not None
                assert shop.api.offsets(shop.connector) != []
            return shown.state == "streaming"

        eventually(is_back, 60)
    assert [change["op"] for change in shop.changes("orders")] == ["r"]


def test_tables_whose_rows_cannot_be_captured_stay_out_and_say_why(shop: Captured) -> None:
    role = f"{shop.name}_role"
    made = (
        "CREATE TABLE app.parent (id int PRIMARY KEY)",
        "CREATE TABLE app.child () INHERITS (app.parent)",
        "CREATE TABLE app.secret (id int PRIMARY KEY)",
        "ALTER TABLE app.secret ENABLE ROW LEVEL SECURITY",
        "CREATE TABLE app.parts (id int, k int) PARTITION BY LIST (k)",
        "CREATE UNLOGGED TABLE app.parts_1 PARTITION OF app.parts FOR VALUES IN (1)",
        "CREATE TABLE app.far (id int, k int) PARTITION BY LIST (k)",
        "CREATE FOREIGN DATA WRAPPER nothing",
        "CREATE SERVER far FOREIGN DATA WRAPPER nothing",
        "CREATE FOREIGN TABLE app.far_1 PARTITION OF app.far FOR VALUES IN (1) SERVER far",
    )
    shop.execute(*made)
    why = {"parent": "heirs", "secret": "policies", "parts": "unlogged", "far": "foreign"}
    named = {f"app.{table}": HIDDEN[why] for table, why in why.items()}
    shop.execute(*statements_of_role(shop, role))
    dsn = shop.dsn.replace("//onramp:", f"//{role}:")
    try:
        assert seen_by(shop, dsn).excluded_tables == named
        shop.execute(f"ALTER ROLE {role} BYPASSRLS", "ALTER TABLE app.child NO INHERIT app.parent")
        assert list(seen_by(shop, dsn).excluded_tables) == ["app.parts", "app.far"]
    finally:
        shop.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def statements_of_role(shop: Captured, role: str) -> list[str]:
    printed = [
        s
        for s in statements_in(statements(shop.name, shop.source, f"user={role}"))
        if "ALTER SYSTEM" not in s
    ]
    prepared = [s for s in printed if "CREATE PUBLICATION" not in s and "lacking" not in s]
    return [*prepared, f"ALTER ROLE {role} PASSWORD '{password_of(shop.dsn)}'"]


def seen_by(shop: Captured, dsn: str) -> SourceState:
    database = SourceDatabase(shop.name, shop.source, dsn)
    try:
        return database.inspect()
    finally:
        database.close()
