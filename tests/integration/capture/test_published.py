"""The path of changes with a real source, Kafka Connect, writer and merger, without Spark."""

import asyncio
from contextlib import closing

import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from services.cdc.agent import names
from services.cli.app import app
from services.ops.audit.run import Request, audit
from shared.kafka_security import Brokers, KafkaSecurity
from tests.fixtures.sources import Captured, flows
from tests.fixtures.writer import eventually
from tests.integration.capture.test_wal import write_elsewhere
from tests.integration.capture.warehouse import (
    differ,
    equal,
    is_amid_reading,
    pending,
    rows,
    unreadable_from,
)

_LOSE = (
    "DELETE FROM landing.{0} WHERE _offset = (SELECT min(_offset) FROM landing.{0} WHERE _offset "
    "{1} FROM landing.{0})) RETURNING _offset"
)


def _lost(shop: Captured) -> list[tuple[str, str]]:
    """The audit's finding for changes that did not land, and its fix."""
    topics = rf"cdc\.{shop.name}-app-.+"
    request = Request(Brokers(shop.bootstrap, KafkaSecurity()), {"here": shop.published}, topics, deep=True)
    return [(f.detail, f.fix) for f in asyncio.run(audit(request)).findings if "transaction" in f.detail]


@pytest.mark.usefixtures("warehouse")
def test_public_tables_are_what_the_source_has(shop: Captured) -> None:
    reconciler = shop.new_reconciler()
    flows(reconciler)
    shop.execute(
        "CREATE TABLE app.loose (a int, b text); ALTER TABLE app.loose REPLICA IDENTITY FULL",
        "INSERT INTO app.orders (id, note) SELECT i, repeat(md5(i::text), 300) FROM generate_series(2, 40) i",
        "ALTER TABLE app.orders ALTER COLUMN note SET STORAGE EXTERNAL",
    )
    reconciler.reconcile()
    shop.execute(
        "INSERT INTO app.loose SELECT 1, 'x' FROM generate_series(1, 3)",
        "UPDATE app.orders SET id = id + 1000 WHERE id BETWEEN 5 AND 15",
        "UPDATE app.orders SET id = id WHERE id > 20; DELETE FROM app.orders WHERE id = 20",
        "DELETE FROM app.loose WHERE ctid = (SELECT min(ctid) FROM app.loose)",
        "UPDATE app.loose SET b = 'y' WHERE ctid = (SELECT min(ctid) FROM app.loose)",
    )
    assert equal(shop, "orders", "id, note")
    assert equal(shop, "loose", "a, b")
    shop.execute(
        "TRUNCATE app.orders; INSERT INTO app.orders (id, note) VALUES (7, 'after')",
        "ALTER TABLE app.orders ADD n int",
    )
    reconciler.reconcile()
    shop.execute("INSERT INTO app.orders (id, note, n) VALUES (8, 'more', 3)")
    assert equal(shop, "orders", "id, note, n")
    assert _lost(shop) == []

    def is_read_again() -> bool:
        reconciler.reconcile()
        return not pending(shop)

    # The ALTER with the TRUNCATE asked for it; of transactions before it nothing is looked for.
    eventually(is_read_again)
    # One between the others, and the last, which only the confirmed position of the slot proves lost.
    shop.execute("INSERT INTO app.orders (id, note) VALUES (9, 'a'), (10, 'b'), (11, 'c')")
    shop.execute("INSERT INTO app.orders (id, note) VALUES (12, 'last')")
    assert equal(shop, "orders", "id, note, n")
    for place in ("> (SELECT max(_offset) - 3", "= (SELECT max(_offset)"):
        shop.ask(_LOSE.format(f"{shop.name}__app__orders", place), at=shop.published)

    def told() -> bool:
        reconciler.reconcile()
        return [fix for _, fix in _lost(shop)] == [f"onramp sources resync {shop.name}"] * 2

    eventually(told, 60)
    inner, last = (detail for detail, _ in _lost(shop))
    assert "made 3 changes of app.orders, and 2 of them have landed" in inner
    assert "made 1 changes of app.orders, and 0 of them have landed" in last
    reconciler.close()


def _is_signal_taken(shop: Captured) -> bool:
    """Return whether the connector has committed all signals, so that it does not read them again."""
    signals = TopicPartition(names.signal_topic(shop.name), 0)
    group = {"bootstrap.servers": shop.bootstrap, "group.id": f"onramp.signals.{shop.name}"}
    with closing(Consumer(group)) as consumer:
        (committed,) = consumer.committed([signals], timeout=30)
        end = consumer.get_watermark_offsets(signals, timeout=30)[1]
    return end > 0 and bool(committed.offset == end)


@pytest.mark.full
@pytest.mark.usefixtures("warehouse")
def test_a_table_is_read_again_although_kafka_connect_is_killed_amid_it(shop: Captured) -> None:
    shop.execute(
        "CREATE TABLE app.items (id int PRIMARY KEY, body text) PARTITION BY RANGE (id)",
        "CREATE TABLE app.items_kept PARTITION OF app.items FOR VALUES FROM (0) TO (1000)",
        "CREATE TABLE app.items_gone PARTITION OF app.items FOR VALUES FROM (1000) TO (2000)",
        "ALTER TABLE app.items_kept ALTER body SET STORAGE EXTERNAL",
        # Several times what is fetched at once is before the first value that is stored out of line.
        "INSERT INTO app.items SELECT i, repeat('x', CASE WHEN i > 100 THEN 3000 ELSE 3 END) "
        "FROM generate_series(1, 300) i",
        "INSERT INTO app.items SELECT i, 'goes' FROM generate_series(1001, 1050) i",
    )
    reconciler = shop.new_reconciler()
    flows(reconciler)
    assert equal(shop, "items", "id, body")
    # No event says that these rows are gone: it is the reason of the re-snapshot.
    shop.execute("DROP TABLE app.items_gone")
    eventually(lambda: reconciler.reconcile() and pending(shop), 60)
    with unreadable_from(shop, "app.items_kept"):
        landing = f"{shop.name}__app__items"
        eventually(lambda: reconciler.reconcile() and is_amid_reading(shop, landing), 60)
        # The signal will not come again by itself.
        eventually(lambda: _is_signal_taken(shop), 60)
        shop.connect.kill()
    reconciler.close()
    shop.execute(
        "DELETE FROM app.items WHERE id IN (2, 290)",
        "UPDATE app.items SET body = 'changed' WHERE id IN (3, 291)",
        "INSERT INTO app.items VALUES (301, 'new')",
    )
    shop.connect.start()
    shop.connect.wait_ready()

    # By another agent: what was asked for is kept.
    reconciler = shop.new_reconciler()

    def differs() -> str:
        """How the tables differ and the source is; empty when all is well and nothing is to be read."""
        shown, found = reconciler.reconcile(), differ(shop, "items", "id, body")
        left = pending(shop)
        return f"{found} {shown.state} {shown.reason} {left}" if found or left else ""

    try:
        eventually(lambda: not differs(), 60)
    except AssertionError:
        pytest.fail(differs())
    reconciler.close()


@pytest.mark.full
@pytest.mark.usefixtures("warehouse")
def test_old_changes_do_not_undo_what_no_event_says(shop: Captured) -> None:
    shop.execute(
        "CREATE TABLE app.prices (id int PRIMARY KEY, price int, note int)",
        "INSERT INTO app.prices SELECT i, i, 0 FROM generate_series(1, 4000) i",
    )
    reconciler = shop.new_reconciler()
    flows(reconciler)
    assert equal(shop, "prices", "id, price, note")
    eventually(lambda: shop.api.offsets(shop.connector), 60)  # without them it takes a whole new snapshot
    shop.connect.kill()
    # So much that the table would be read again long before Kafka has the last of it.
    shop.execute(*["UPDATE app.prices SET note = note + 1"] * 40)
    shop.execute("ALTER TABLE app.prices ALTER price TYPE numeric(8, 1) USING price + 0.5")
    shop.connect.start()
    shop.connect.wait_ready()

    def is_over() -> bool:
        """Whether all changes are merged, and nothing is to be read."""
        landing = f"landing.{shop.name}__app__prices"
        merged = (
            f"SELECT m.next_offset > max(l._offset), count(*) FILTER (WHERE change ->> 'op' = 'u') "  # noqa: S608
            f"FROM {landing} l, onramp.table_settings m WHERE m.table_name = 'prices' GROUP BY m.next_offset"
        )
        return shop.ask(merged, at=shop.published) == [(True, 160_000)] and not pending(shop)

    eventually(lambda: reconciler.reconcile() and is_over(), 120)
    assert differ(shop, "prices", "id, price, note") == ""
    reconciler.close()


@pytest.mark.full
@pytest.mark.usefixtures("warehouse")
def test_after_the_budget_and_a_resync_public_tables_are_what_the_source_has(shop: Captured) -> None:
    shop.execute(
        "INSERT INTO app.orders VALUES (2, 'goes'), (3, 'changes')",
        "CREATE TABLE app.emptied (id int PRIMARY KEY)",
        "INSERT INTO app.emptied VALUES (1)",
    )
    reconciler = shop.new_reconciler(wal_alarm="16MB", wal_budget="64MB")
    flows(reconciler)
    assert equal(shop, "orders", "id, note")
    assert equal(shop, "emptied", "id")
    eventually(lambda: shop.api.offsets(shop.connector), 60)
    shop.connect.kill()
    eventually(lambda: (slot := shop.slot()) is not None and not slot[0], 60)
    shop.execute(
        "DELETE FROM app.orders WHERE id = 2",
        "DELETE FROM app.emptied",
        "UPDATE app.orders SET note = 'changed' WHERE id = 3",
        "CREATE TABLE app.later (id int PRIMARY KEY)",
        "INSERT INTO app.later VALUES (1)",
    )
    write_elsewhere(shop, 24)
    shown = reconciler.reconcile()
    assert (shown.state, "wal_alarm is 16MB" in shown.reason) == ("unreachable", True), shown
    write_elsewhere(shop, 64)
    assert reconciler.reconcile().state == "out_of_sync"
    assert shop.slot() is None
    assert "goes" in str(rows(shop, f"{shop.name}.orders", "note", shop.published))

    shop.connect.start()
    shop.connect.wait_ready()
    asked = CliRunner().invoke(app, ["sources", "resync", shop.name, "--no-wait", "--dsn", shop.published])
    assert asked.exit_code == 0, asked.output
    eventually(lambda: reconciler.reconcile().state == "streaming", 60)
    assert equal(shop, "orders", "id, note")
    assert equal(shop, "later", "id")
    # A table is emptied after a second look of the agent.
    eventually(lambda: reconciler.reconcile() and not differ(shop, "emptied", "id"), 60)
    shop.execute("INSERT INTO app.later VALUES (2)", "DELETE FROM app.orders WHERE id = 1")
    assert equal(shop, "orders", "id, note")
    assert equal(shop, "later", "id")
    reconciler.close()
