"""WAL retained for a source is bounded: heartbeats free it, and at the budget the slot is dropped."""

import pytest

from services.cdc.agent import names
from services.cdc.agent.source_sql import SourceDatabase
from tests.fixtures.sources import Captured, flows
from tests.fixtures.writer import eventually

#: `wal_budget` of these tests, in bytes: four of Postgres' segments.
_BUDGET = 64 << 20


def write_elsewhere(shop: Captured, megabytes: int) -> None:
    """Write WAL in another database of the server: the source's own connector is sent nothing of it."""
    shop.ask(
        "SELECT count(pg_logical_emit_message(false, 'x', repeat('x', 1 << 20))) FROM generate_series(1, %s)",
        megabytes,
        at=shop.server.dsn,
    )
    shop.ask("SELECT pg_switch_wal(); CHECKPOINT; SELECT 1", at=shop.server.dsn)


def test_heartbeats_free_what_other_databases_write(shop: Captured) -> None:
    reconciler = shop.new_reconciler()
    flows(reconciler)
    write_elsewhere(shop, 100)
    eventually(lambda: (slot := shop.slot()) is not None and slot[2] < 40 << 20, 60)
    eventually(lambda: flows(reconciler).heartbeat_age_s is not None, 60)
    reconciler.close()


def test_restarted_connector_finds_its_offset_while_its_database_has_no_writes(shop: Captured) -> None:
    reconciler = shop.new_reconciler()
    flows(reconciler)
    shop.execute("INSERT INTO app.orders VALUES (2, 'the last')")
    eventually(lambda: len(shop.changes("orders")) == 2, 60)
    # A transaction was the last that it sent, and it said so.
    shop.api.stop(shop.connector)
    eventually(lambda: (status := shop.api.status(shop.connector)) and status.is_stopped, 60)
    write_elsewhere(shop, 100)
    eventually(
        lambda: reconciler.reconcile() and (slot := shop.slot()) is not None and slot[2] < 40 << 20, 60
    )
    reconciler.close()


def test_at_the_budget_the_slot_goes_and_a_resync_brings_everything_back(shop: Captured) -> None:
    reconciler = shop.new_reconciler(wal_alarm="16MB", wal_budget="64MB")
    flows(reconciler)
    eventually(lambda: len(shop.changes("orders")) == 1, 60)
    eventually(lambda: shop.api.offsets(shop.connector), 60)
    shop.connect.kill()
    try:
        shop.execute("DELETE FROM app.orders", "INSERT INTO app.orders VALUES (2, 'missed')")
        eventually(lambda: (slot := shop.slot()) is not None and not slot[0], 60)
        write_elsewhere(shop, 100)
        shown = reconciler.reconcile()
        assert shown.state == "out_of_sync", shown
        assert "wal_budget is 64MB" in shown.reason
        assert "onramp sources resync" in shown.reason
        # It is freed although Kafka Connect is away.
        assert shop.slot() is None
    finally:
        shop.connect.start()
        shop.connect.wait_ready()
    # The worker that came back must not go on as if nothing was missing.
    assert eventually(lambda: reconciler.reconcile().state == "out_of_sync" and shop.slot() is None, 60)
    eventually(lambda: (s := shop.api.status(shop.connector)) is not None and s.is_stopped, 60)
    assert reconciler.reconcile().state == "out_of_sync"
    assert [change["op"] for change in shop.changes("orders")] == ["r"]

    shop.ask(
        "UPDATE onramp_agent.sources SET resync_requested_at = now() WHERE source = %s RETURNING 1",
        shop.name,
        at=shop.published,
    )
    eventually(lambda: reconciler.reconcile().state == "streaming", 60)
    eventually(lambda: len(shop.changes("orders")) == 2, 60)
    assert shop.changes("orders")[-1]["after"] == {"id": 2, "note": "missed"}
    assert shop.changes("orders")[-1]["op"] == "r"
    reconciler.close()


def test_a_slot_that_somebody_dropped_is_no_silent_gap(shop: Captured) -> None:
    reconciler = shop.new_reconciler()
    flows(reconciler)
    eventually(lambda: shop.api.offsets(shop.connector), 60)
    shop.api.stop(shop.connector)
    eventually(lambda: (slot := shop.slot()) is not None and not slot[0], 60)
    shop.ask("SELECT pg_drop_replication_slot(%s)", names.slot(shop.name))
    # Another look, as after a restart of the agent: Connect's offsets say that there was one.
    reconciler.close()
    reconciler = shop.new_reconciler()
    eventually(lambda: reconciler.reconcile().state == "out_of_sync")
    assert "its slot is gone" in reconciler.reconcile().reason
    reconciler.close()


def test_slot_created_during_a_reconcile_is_not_reported_lost(
    shop: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconciler = shop.new_reconciler()
    before = reconciler.reconcile().source_state
    assert before is not None
    assert before.slot is None
    # The connector makes its slot and has offsets after the look has inspected the source.
    eventually(lambda: shop.api.offsets(shop.connector), 60)
    inspect, outdated = SourceDatabase.inspect, [before]
    monkeypatch.setattr(
        SourceDatabase, "inspect", lambda source: outdated.pop() if outdated else inspect(source)
    )
    assert reconciler.reconcile().state == "starting"
    assert not outdated
    flows(reconciler)
    reconciler.close()
