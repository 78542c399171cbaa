"""The whole path, real in each part: a source, Kafka Connect, the writer with Spark, the modeler."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg2
import pytest
from confluent_kafka import Consumer, TopicPartition
from psycopg2 import sql
from typer.testing import CliRunner

from services.admin.audit.run import Request, audit
from services.cli.app import app
from services.elt.agent import names
from services.elt.modeler.modeler import Modeler
from services.elt.modeler.published import Published
from services.elt.modeler.settings import ModelerSettings
from shared.kafka_security import Brokers, KafkaSecurity
from stack.registry import OwnRegistry
from tests.fixtures.fix_stack import StartWriter
from tests.fixtures.sources import Captured, flows
from tests.fixtures.writer import eventually
from tests.integration.capture.test_wal import write_elsewhere


@pytest.fixture
def warehouse(shop: Captured, start_writer: StartWriter) -> Iterator[None]:
    """A writer that reads the source's topics, and a modeler."""
    name = shop.published.rsplit("/", 1)[1].partition("?")[0]
    source = shop.source.model_dump(mode="json", exclude_none=True)
    registry = OwnRegistry(shop.bootstrap, {"sources": {shop.name: source}})
    start_writer(
        shop.bootstrap,
        shop.published,
        {
            "ONRAMP_WRITER_TOPICS": "none",
            "ONRAMP_WRITER_DATABASE": name,
            "ONRAMP_WRITER_STANDBY": "false",
            "ONRAMP_WRITER_DISCOVER_MS": "100",
            **registry.env,
        },
    )
    published = Published(sources={shop.name: shop.source}, models={})
    modeler = Modeler(name, shop.published, lambda: published, ModelerSettings(look_s=0.1, retry_s=0.5))
    thread = threading.Thread(target=modeler.run)
    thread.start()
    yield
    modeler.stop()
    thread.join(30)


def _rows(shop: Captured, table: str, columns: str, at: str) -> list[str]:
    return sorted(str(row) for row in shop.ask(f"SELECT {columns} FROM {table}", at=at))  # noqa: S608


def _differ(shop: Captured, table: str, columns: str) -> str:
    """Return how the public table differs from the source's, as texts; empty when it does not."""
    public = f"{shop.name}.{table}"
    there = shop.ask("SELECT to_regclass(%s) IS NOT NULL", public, at=shop.published)
    held = shop.ask("SELECT reason FROM onramp.models WHERE reason IS NOT NULL", at=shop.published)
    if there != [(True,)]:
        return f"it is not there; held: {held}"
    theirs = _rows(shop, f"app.{table}", columns, "")
    ours = _rows(shop, public, columns, shop.published)
    return "" if theirs == ours else f"{held} theirs: {theirs[:3]} ours: {ours[:3]}"


def _equal(shop: Captured, table: str, columns: str) -> bool:
    try:
        eventually(lambda: not _differ(shop, table, columns), 30)
    except AssertionError:
        pytest.fail(_differ(shop, table, columns))
    return True


_LOSE = (
    "DELETE FROM landing.{0} WHERE _offset = (SELECT min(_offset) FROM landing.{0} WHERE _offset "
    "{1} FROM landing.{0})) RETURNING _offset"
)


def _lost(shop: Captured) -> list[tuple[str, str]]:
    """What the audit says of changes that did not land, and how to fix it."""
    topics = rf"cdc\.{shop.name}-app-.+"
    request = Request(Brokers(shop.bootstrap, KafkaSecurity()), {"here": shop.published}, topics, deep=True)
    return [(f.detail, f.fix) for f in asyncio.run(audit(request)).findings if "transaction" in f.detail]


@pytest.mark.usefixtures("warehouse")
def test_public_tables_are_what_the_source_has(shop: Captured) -> None:
    look = shop.looking()
    flows(look)
    shop.execute(
        "CREATE TABLE app.loose (a int, b text); ALTER TABLE app.loose REPLICA IDENTITY FULL",
        "INSERT INTO app.orders (id, note) SELECT i, repeat(md5(i::text), 300) FROM generate_series(2, 40) i",
        "ALTER TABLE app.orders ALTER COLUMN note SET STORAGE EXTERNAL",
    )
    look.look()
    shop.execute(
        "INSERT INTO app.loose SELECT 1, 'x' FROM generate_series(1, 3)",
        "UPDATE app.orders SET id = id + 1000 WHERE id BETWEEN 5 AND 15",
        "UPDATE app.orders SET id = id WHERE id > 20; DELETE FROM app.orders WHERE id = 20",
        "DELETE FROM app.loose WHERE ctid = (SELECT min(ctid) FROM app.loose)",
        "UPDATE app.loose SET b = 'y' WHERE ctid = (SELECT min(ctid) FROM app.loose)",
    )
    assert _equal(shop, "orders", "id, note")
    assert _equal(shop, "loose", "a, b")
    shop.execute(
        "TRUNCATE app.orders; INSERT INTO app.orders (id, note) VALUES (7, 'after')",
        "ALTER TABLE app.orders ADD n int",
    )
    look.look()
    shop.execute("INSERT INTO app.orders (id, note, n) VALUES (8, 'more', 3)")
    assert _equal(shop, "orders", "id, note, n")
    assert _lost(shop) == []

    # One amid the others, and the last, which only the slot's confirmed position tells from one on its way.
    shop.execute("INSERT INTO app.orders (id, note) VALUES (9, 'last')")
    assert _equal(shop, "orders", "id, note, n")
    for place in ("> (SELECT min(_offset) + 10", "= (SELECT max(_offset)"):
        shop.ask(_LOSE.format(f"{shop.name}__app__orders", place), at=shop.published)

    def told() -> bool:
        look.look()
        return [fix for _, fix in _lost(shop)] == [f"onramp sources resync {shop.name}"] * 2

    eventually(told, 60)
    amid, last = (detail for detail, _ in _lost(shop))
    assert "made 39 changes of app.orders, and 38 of them have landed" in amid
    assert "made 1 changes of app.orders, and 0 of them have landed" in last
    look.close()


@contextmanager
def _unreadable_from(shop: Captured, partition: str) -> Iterator[None]:
    """Have whoever reads a partition wait at its first row whose value is stored out of line."""
    index = (
        "SELECT n.nspname, c.relname FROM pg_class t JOIN pg_index i ON i.indrelid = t.reltoastrelid "
        "JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE t.oid = %s::regclass"
    )
    (name,) = shop.ask(index, partition)
    with closing(psycopg2.connect(shop.dsn)) as conn, conn.cursor() as cursor:
        cursor.execute(sql.SQL("REINDEX INDEX {}").format(sql.Identifier(*name)))
        yield


def _is_amid_reading(shop: Captured, landing: str) -> bool:
    """Whether a snapshot's first rows have landed, and who takes it waits for the others."""
    waits = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND starts_with(application_name, 'Debezium') AND wait_event_type = 'Lock'"
    )
    # Its last row of all is the newest that has landed, until another snapshot begins.
    begun = (
        "SELECT change ->> 'op' = 'r' AND NOT starts_with(change #>> '{source,snapshot}', 'last') "  # noqa: S608
        f"FROM landing.{landing} ORDER BY _offset DESC LIMIT 1"
    )
    return shop.ask(waits) == [(1,)] and shop.ask(begun, at=shop.published) == [(True,)]


def _is_signal_taken(shop: Captured) -> bool:
    """Whether the connector has said that it has read all signals: it would not read them again."""
    signals = TopicPartition(names.signal_topic(shop.name), 0)
    group = {"bootstrap.servers": shop.bootstrap, "group.id": f"onramp.signals.{shop.name}"}
    with closing(Consumer(group)) as consumer:
        (committed,) = consumer.committed([signals], timeout=30)
        end = consumer.get_watermark_offsets(signals, timeout=30)[1]
    return end > 0 and bool(committed.offset == end)


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
    look = shop.looking()
    flows(look)
    assert _equal(shop, "items", "id, body")
    with _unreadable_from(shop, "app.items_kept"):
        # No event says that these rows are gone: it is what the table is read again for.
        shop.execute("DROP TABLE app.items_gone")
        landing = f"{shop.name}__app__items"
        eventually(lambda: look.look() and _is_amid_reading(shop, landing), 60)
        # The signal will not come again by itself.
        eventually(lambda: _is_signal_taken(shop), 60)
        shop.connect.kill()
    look.close()
    shop.execute(
        "DELETE FROM app.items WHERE id IN (2, 290)",
        "UPDATE app.items SET body = 'changed' WHERE id IN (3, 291)",
        "INSERT INTO app.items VALUES (301, 'new')",
    )
    shop.connect.start()
    shop.connect.wait_ready()

    # By another agent: what was asked for is kept.
    look = shop.looking()

    def differs() -> str:
        """How the tables differ and the source is; empty when all is well and nothing is to be read."""
        shown, found = look.look(), _differ(shop, "items", "id, body")
        pending = shop.ask("SELECT rereads FROM onramp_agent.sources", at=shop.published)
        return f"{found} {shown.state} {shown.reason} {pending}" if found or pending != [({},)] else ""

    try:
        eventually(lambda: not differs(), 60)
    except AssertionError:
        pytest.fail(differs())
    look.close()


@pytest.mark.usefixtures("warehouse")
def test_old_changes_do_not_undo_what_no_event_says(shop: Captured) -> None:
    shop.execute(
        "CREATE TABLE app.prices (id int PRIMARY KEY, price int, note int)",
        "INSERT INTO app.prices SELECT i, i, 0 FROM generate_series(1, 4000) i",
    )
    look = shop.looking()
    flows(look)
    assert _equal(shop, "prices", "id, price, note")
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
            f"FROM {landing} l, onramp.models m WHERE m.table_name = 'prices' GROUP BY m.next_offset"
        )
        rereads = "SELECT rereads FROM onramp_agent.sources"
        found = [shop.ask(each, at=shop.published) for each in (merged, rereads)]
        return found == [[(True, 160_000)], [({},)]]

    eventually(lambda: look.look() and is_over(), 120)
    assert _differ(shop, "prices", "id, price, note") == ""
    look.close()


@pytest.mark.usefixtures("warehouse")
def test_after_the_budget_and_a_resync_public_tables_are_what_the_source_has(shop: Captured) -> None:
    shop.execute(
        "INSERT INTO app.orders VALUES (2, 'goes'), (3, 'changes')",
        "CREATE TABLE app.emptied (id int PRIMARY KEY)",
        "INSERT INTO app.emptied VALUES (1)",
    )
    look = shop.looking(wal_alarm="16MB", wal_budget="64MB")
    flows(look)
    assert _equal(shop, "orders", "id, note")
    assert _equal(shop, "emptied", "id")
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
    shown = look.look()
    assert (shown.state, "wal_alarm is 16MB" in shown.reason) == ("unreachable", True), shown
    write_elsewhere(shop, 64)
    assert look.look().state == "out_of_sync"
    assert shop.slot() is None
    assert "goes" in str(_rows(shop, f"{shop.name}.orders", "note", shop.published))

    shop.connect.start()
    shop.connect.wait_ready()
    asked = CliRunner().invoke(app, ["sources", "resync", shop.name, "--dsn", shop.published])
    assert asked.exit_code == 0, asked.output
    eventually(lambda: look.look().state == "flowing", 60)
    assert _equal(shop, "orders", "id, note")
    assert _equal(shop, "later", "id")
    assert _equal(shop, "emptied", "id")
    shop.execute("INSERT INTO app.later VALUES (2)", "DELETE FROM app.orders WHERE id = 1")
    assert _equal(shop, "orders", "id, note")
    assert _equal(shop, "later", "id")
    look.close()
