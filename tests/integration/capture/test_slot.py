"""Slot problems and failed connectors: each is reported with its remedy, and a resync heals it."""

from contextlib import closing

import psycopg2
import pytest
from psycopg2.extras import LogicalReplicationConnection

from services.cdc.agent import names
from services.cdc.agent.reconcile import SourceReconciler
from services.cdc.agent.source_state import Shown
from services.cdc.setup.source_requests_sql import ask_for_resync
from tests.fixtures.sources import Captured, flows, password_of
from tests.fixtures.writer import eventually
from tests.integration.capture.test_wal import write_elsewhere


def stopped(shop: Captured) -> SourceReconciler:
    """Capture a source, and stop its connector, so that its slot has no reader."""
    reconciler = shop.new_reconciler()
    flows(reconciler)
    eventually(lambda: shop.api.offsets(shop.connector), 60)
    shop.api.stop(shop.connector)
    eventually(lambda: (slot := shop.slot()) is not None and not slot[0], 60)
    return reconciler


def becomes(reconciler: SourceReconciler, state: str) -> Shown:
    return (
        eventually(lambda: shown if (shown := reconciler.reconcile()).state == state else None, 60)
        or reconciler.reconcile()
    )


def resync(shop: Captured, reconciler: SourceReconciler) -> None:
    """A resync, after which all rows that the source has were read."""
    before = len(shop.changes("orders"))
    assert ask_for_resync(shop.published, shop.name)
    becomes(reconciler, "streaming")
    theirs = sorted(shop.ask("SELECT id, note FROM app.orders"))
    eventually(lambda: len(shop.changes("orders")) >= before + len(theirs), 60)
    read = [change["after"] for change in shop.changes("orders")[before:] if change["op"] == "r"]
    assert sorted((row["id"], row["note"]) for row in read) == theirs
    reconciler.close()


def test_slot_read_by_another_client_is_reported_and_the_consumed_changes_are_a_gap(shop: Captured) -> None:
    reconciler = stopped(shop)
    other = psycopg2.connect(
        shop.dsn, connection_factory=LogicalReplicationConnection, application_name="somebody"
    )
    with closing(other), other.cursor() as cursor:
        options = {"proto_version": "1", "publication_names": names.publication(shop.name)}
        cursor.start_replication(slot_name=names.slot(shop.name), decode=False, options=options)
        eventually(lambda: (slot := shop.slot()) is not None and slot[0], 60)
        shown = reconciler.reconcile()
        assert (shown.state, "(somebody, PID " in shown.reason) == ("slot_in_use", True), shown
        shop.execute("INSERT INTO app.orders VALUES (2, 'taken')")
        ((upto,),) = shop.ask("SELECT (pg_current_wal_insert_lsn() - '0/0')::int8")

        def took() -> bool:
            cursor.read_message()
            cursor.send_feedback(write_lsn=upto, flush_lsn=upto, apply_lsn=upto, force=True)
            return bool(reconciler.reconcile().state == "out_of_sync")

        eventually(took, 60)
    shown = reconciler.reconcile()
    assert "another program (somebody) has read its slot" in shown.reason
    assert f"onramp sources resync {shop.name}" in shown.reason
    eventually(lambda: reconciler.reconcile().state == "out_of_sync" and shop.slot() is None, 60)
    resync(shop, reconciler)


@pytest.mark.full
def test_changes_consumed_from_a_slot_by_another_client_are_a_gap_for_the_next_agent(shop: Captured) -> None:
    reconciler = stopped(shop)
    # An agent has looked since, and went.
    shop.ask("UPDATE onramp_agent.sources SET slot_reader = 'nobody' RETURNING 1", at=shop.published)
    reconciler.close()
    shop.execute("INSERT INTO app.orders VALUES (2, 'taken')")
    taking = "SELECT count(*) FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, VARIADIC %s)"
    options = ["proto_version", "1", "publication_names", names.publication(shop.name)]
    assert shop.ask(taking, names.slot(shop.name), options) != [(0,)]
    reconciler = shop.new_reconciler()
    assert "another program has read its slot" in becomes(reconciler, "out_of_sync").reason
    reconciler.close()


@pytest.mark.full
def test_slot_with_wal_removed_by_the_server_is_reported_and_a_resync_heals_it(shop: Captured) -> None:
    reconciler = stopped(shop)
    limit(shop, "SET max_slot_wal_keep_size = '1MB'")
    try:
        shop.execute("DELETE FROM app.orders", "INSERT INTO app.orders VALUES (2, 'missed')")

        def is_lost() -> bool:
            write_elsewhere(shop, 32)
            return (slot := shop.slot()) is not None and slot[1] == "lost"

        eventually(is_lost, 60)
        shown = reconciler.reconcile()
    finally:
        limit(shop, "RESET max_slot_wal_keep_size")
    assert (shown.state, "(max_slot_wal_keep_size)" in shown.reason) == ("out_of_sync", True), shown
    resync(shop, reconciler)


def limit(shop: Captured, setting: str) -> None:
    with closing(psycopg2.connect(shop.server.dsn)) as conn:
        conn.autocommit = True
        with conn.cursor() as cursor:
            cursor.execute(f"ALTER SYSTEM {setting}")
            cursor.execute("SELECT pg_reload_conf()")


def test_password_unknown_to_kafka_connect_is_reported_with_its_variable(shop: Captured) -> None:
    role = f"{shop.name}_role"
    shop.execute(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'another'")
    user_and_password = f"//onramp:{password_of(shop.dsn)}@"
    assert user_and_password in shop.dsn
    own, shop.dsn = shop.dsn, shop.dsn.replace(user_and_password, f"//{role}:another@")
    reconciler = shop.new_reconciler()
    try:
        shown = eventually(lambda: s if "password" in (s := reconciler.reconcile()).reason else None, 60)
        assert shown is not None
        assert f"set {shop.source.dsn_env}_PASSWORD in its environment" in shown.reason
        assert shown.state in {"unreachable", "failed"}
        reconciler.close()
        shop.dsn = own.replace(user_and_password, "//onramp:wrong@")
        reconciler = shop.new_reconciler()
        refused = f"it refuses the role or the password in {shop.source.dsn_env}"
        eventually(lambda: refused in reconciler.reconcile().reason)
    finally:
        reconciler.close()
        shop.dsn = own
        shop.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.full
def test_row_above_the_size_limit_is_reported_with_a_remedy_and_its_table_can_be_excluded(
    shop: Captured,
) -> None:
    reconciler = shop.new_reconciler()
    flows(reconciler)
    shop.execute("CREATE TABLE app.large (id int PRIMARY KEY, body text)")
    reconciler.reconcile()
    shop.execute("INSERT INTO app.large VALUES (1, repeat('x', 17 << 20))")
    shown = becomes(reconciler, "failed")
    assert "larger than 16 MB" in shown.reason, shown
    assert "name its table in exclude" in shown.reason
    reconciler.close()
    reconciler = shop.new_reconciler(exclude=("app.large",))
    shop.execute("INSERT INTO app.orders VALUES (5, 'behind it')")
    eventually(
        lambda: (
            reconciler.reconcile()
            and any(c["after"] and c["after"]["id"] == 5 for c in shop.changes("orders"))
        ),
        90,
    )
    reconciler.close()


@pytest.mark.full
def test_column_type_changed_while_connect_is_down_is_reported_with_a_remedy(shop: Captured) -> None:
    reconciler = stopped(shop)
    shop.execute(
        "UPDATE app.orders SET note = 'no number'",
        "ALTER TABLE app.orders DROP upper_note",
        "ALTER TABLE app.orders ALTER note TYPE int USING 1",
    )
    shown = becomes(reconciler, "failed")
    assert f"onramp sources resync {shop.name}" in shown.reason, shown
    resync(shop, reconciler)
