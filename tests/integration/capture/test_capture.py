"""Capture: committed changes reach Kafka in the form the writer needs, along with the table history."""

from contextlib import closing

import psycopg2
import pytest

from services.cdc.agent import names
from services.cdc.setup.check_sql import facts
from services.cdc.setup.prepare import statements
from shared import wire
from tests.fixtures.sources import (
    Captured,
    flows,
    password_of,
    statements_in,
)
from tests.fixtures.writer import eventually, records


def ops(shop: Captured, table: str = "orders") -> list[str]:
    return [change["op"] for change in shop.changes(table)]


def test_every_kind_of_change_reaches_the_topic_with_its_envelope_and_identity(shop: Captured) -> None:
    reconciler = shop.new_reconciler()
    flows(reconciler)
    shop.execute(
        "INSERT INTO app.orders VALUES (2, 'x')",
        "UPDATE app.orders SET note = 'y' WHERE id = 1",
        "DELETE FROM app.orders WHERE id = 2",
        "TRUNCATE app.orders",
    )
    eventually(lambda: ops(shop) == ["r", "c", "u", "d", "t"], 60)
    reconciler.close()

    changes = shop.changes("orders")
    assert changes[0]["after"] == {"id": 1, "note": "there before"}
    assert (changes[2]["before"], changes[2]["after"]) == (None, {"id": 1, "note": "y"})
    # A generated column is in a snapshot, and not in the stream: never in either.
    assert all("upper_note" not in (change["after"] or {}) for change in changes)
    identities = [
        (change["source"]["sequence"], change["transaction"]["total_order"]) for change in changes[1:]
    ]
    assert len(set(map(str, identities))) == 4
    topic = names.topic(shop.name, "app", "orders")
    headers = [dict(record.headers or ())[wire.HEADER_CONTEXT] for record in records(shop.bootstrap, topic)]
    assert set(headers) == {wire.CONTEXT_BYTES}
    transactions = shop.on_topic(f"{names.topic_prefix(shop.name)}-transaction")
    assert {each["status"] for each in transactions} == {"BEGIN", "END"}


def test_the_history_says_what_tables_were_and_when(shop: Captured) -> None:
    reconciler = shop.new_reconciler()
    flows(reconciler)
    shop.execute("ALTER TABLE app.orders ADD COLUMN total numeric(10, 2) NOT NULL DEFAULT 0")
    shop.execute("CREATE TABLE app.keyless (a int)")
    reconciler.reconcile()
    shop.execute("DROP TABLE app.keyless")
    reconciler.reconcile()
    reconciler.reconcile()
    reconciler.close()
    rows = shop.ask(
        "SELECT table_name, columns, key, dropped, lsn IS NOT NULL FROM onramp.source_tables "
        "WHERE source = %s ORDER BY observed_at",
        shop.name,
        at=shop.published,
    )
    assert [(row[0], row[2], row[3]) for row in rows] == [
        ("orders", ["id"], False),
        ("orders", ["id"], False),
        ("keyless", None, False),
        ("keyless", None, True),
    ]
    assert rows[1][1] == [
        {"name": "id", "type": "integer", "not_null": True, "generated": False},
        {"name": "note", "type": "text", "not_null": False, "generated": False},
        {"name": "upper_note", "type": "text", "not_null": False, "generated": True},
        {"name": "total", "type": "numeric(10,2)", "not_null": True, "generated": False},
    ]
    assert all(row[4] for row in rows)


def test_tables_that_would_fail_the_source_stay_out_and_the_others_flow(shop: Captured) -> None:
    shop.execute(
        'CREATE TABLE app."a.b" (id int PRIMARY KEY)',
        "CREATE TABLE app.a_b (id int PRIMARY KEY)",
        "CREATE TABLE app.cursors (id int PRIMARY KEY, c refcursor)",
        "INSERT INTO app.cursors VALUES (1, 'x')",
    )
    reconciler = shop.new_reconciler()
    shown = flows(reconciler)
    assert "app.a_b is excluded: its topic would collide with that of app.a.b" in shown.reason
    assert "app.cursors is excluded: a value of the type refcursor (c)" in shown.reason
    shop.execute(
        'INSERT INTO app."a.b" VALUES (1)',
        "INSERT INTO app.a_b VALUES (2)",
        "INSERT INTO app.orders VALUES (4, 'x')",
    )
    eventually(lambda: ops(shop) == ["r", "c"], 60)
    assert ops(shop, "a.b") == ["c"]
    assert flows(reconciler).state == "streaming"
    reconciler.close()


def test_columns_that_differ_only_by_case_are_reported_before_and_after_the_source_fails(
    shop: Captured,
) -> None:
    shop.execute('CREATE TABLE app.twice (id int PRIMARY KEY, "Id" int)')
    reconciler = shop.new_reconciler()
    assert "app.twice is excluded: columns differ by case alone (id)" in flows(reconciler).reason
    shop.execute("INSERT INTO app.twice VALUES (3, 3)")
    shown = eventually(lambda: s if (s := reconciler.reconcile()).state == "failed" else None, 60)
    assert "differ only by case" in shown.reason
    reconciler.close()


def test_rows_that_changed_without_an_event_are_read_again(shop: Captured) -> None:
    reconciler = shop.new_reconciler()
    flows(reconciler)
    reconciler.reconcile()
    shop.execute("ALTER TABLE app.orders ADD COLUMN paid bool DEFAULT true")

    def reads_again() -> bool:
        reconciler.reconcile()
        return ops(shop).count("r") == 2

    eventually(reads_again, 60)
    reconciler.close()
    assert shop.changes("orders")[-1]["after"] == {"id": 1, "note": "there before", "paid": True}


def test_a_removed_source_leaves_no_slot_no_connector_and_no_offsets(shop: Captured) -> None:
    reconciler = shop.new_reconciler()
    flows(reconciler)
    eventually(lambda: shop.api.offsets(shop.connector), 60)
    assert shop.slot()
    eventually(reconciler.remove, 60)
    reconciler.close()
    assert shop.slot() is None
    assert shop.api.config(shop.connector) is None
    # A connector of the same name begins with a snapshot, so nothing of the old one was left.
    again = shop.new_reconciler()
    flows(again)
    eventually(lambda: ops(shop) == ["r", "r"], 60)
    again.close()


def test_a_source_that_is_not_prepared_says_what_lacks_and_makes_no_slot(shop: Captured) -> None:
    shop.execute(f"DROP PUBLICATION {names.publication(shop.name)}")
    reconciler = shop.new_reconciler()
    shown = reconciler.reconcile()
    reconciler.close()
    assert shown.state == "setup_required"
    assert f"there is no publication {names.publication(shop.name)}" in shown.reason
    assert "onramp sources sql" in shown.reason
    assert shop.slot() is None
    assert shop.api.config(shop.connector) is None


def test_names_that_collide_when_dots_part_them_are_two_topics(shop: Captured) -> None:
    shop.execute(
        "CREATE SCHEMA app_x",
        "CREATE TABLE app_x.y (id int PRIMARY KEY)",
        'CREATE TABLE app."x.y" (id int PRIMARY KEY)',
        "CREATE TABLE app.x_y (id int PRIMARY KEY)",
        f"ALTER PUBLICATION {names.publication(shop.name)} ADD TABLES IN SCHEMA app_x",
        "DROP TABLE app.x_y",
    )
    reconciler = shop.new_reconciler(schemas=("app", "app_x"))
    assert flows(reconciler).reason == ""
    shop.execute("INSERT INTO app_x.y VALUES (1)", 'INSERT INTO app."x.y" VALUES (2)')
    eventually(lambda: [c["after"]["id"] for c in shop.changes("y", "app_x")] == [1], 60)
    eventually(lambda: [c["after"]["id"] for c in shop.changes("x.y")] == [2], 60)
    reconciler.close()


def test_role_prepared_with_the_printed_sql_has_all_required_privileges(shop: Captured) -> None:
    role = f"{shop.name}_role"
    superuser, dsn = shop.dsn, shop.dsn.replace("//onramp:", f"//{role}:")
    printed = statements(shop.name, shop.source, dsn)
    assert password_of(dsn) not in printed
    shop.execute(f"DROP PUBLICATION {names.publication(shop.name)}")
    for statement in statements_in(printed):
        if "ALTER SYSTEM" not in statement:
            shop.execute(statement)
    shop.dsn = dsn
    try:
        found = list(facts(shop.name, shop.source, shop.dsn, rows=True))
        assert {fact.level for fact in found} == {"ok"}, found
        reconciler = shop.new_reconciler()
        flows(reconciler)
        eventually(lambda: ops(shop) == ["r"], 60)
        # Also a table that is made later, by whoever made those before.
        made = "CREATE TABLE app.later (id int PRIMARY KEY); INSERT INTO app.later VALUES (7)"
        shop.execute_as(superuser, made)
        eventually(lambda: "c" in ops(shop, "later"), 60)
        eventually(reconciler.remove, 60)
        assert shop.slot() is None
        reconciler.close()
    finally:
        shop.dsn = superuser
        shop.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_check_reads_rows_for_a_limited_time_and_names_what_it_has_not_read(shop: Captured) -> None:
    shop.execute(
        "CREATE TABLE app.dated (id int PRIMARY KEY, at date)",
        "INSERT INTO app.dated VALUES (1, '0044-03-15 BC')",
    )
    wrong = "app.dated.at has dates before Christ: they would come out wrong"

    def found(seconds: float) -> set[str]:
        return {f.what for f in facts(shop.name, shop.source, shop.dsn, rows=True, row_seconds=seconds)}

    assert wrong in found(60)
    none = found(0)
    assert wrong not in none
    assert [what for what in none if what.startswith("rows were read for 0 s only: app.dated")]
    with closing(psycopg2.connect(shop.dsn)) as locking, locking.cursor() as cursor:
        cursor.execute("LOCK TABLE app.dated IN ACCESS EXCLUSIVE MODE")
        [unread_one] = [what for what in found(0.2) if "rows were read for 0.2 s only" in what]
    assert "app.dated may have further values" in unread_one


def test_check_tells_what_fails_the_application_and_what_comes_out_wrong(shop: Captured) -> None:
    shop.execute(
        "CREATE TYPE app.mood AS ENUM ('sad', 'glad')",
        "CREATE TABLE app.bare (a int, moments timestamptz[], at date, squares int[], moods app.mood[], "
        "whole app.mood[], old timestamp[], apart int[], late timestamp, zero float8, day date, "
        "large numeric[], amount numeric)",
        "INSERT INTO app.bare VALUES (1, NULL, '0044-03-15 BC', '{{1,2},{3,4}}', '{sad,NULL}', '{{glad}}', "
        "'{1582-10-14,2026-01-01}', '[0:1]={1,2}', '294276-12-31 23:59:59', '-0', '1582-10-10', "
        "'{1,Infinity}', 'Infinity')",
        "CREATE TABLE app.full (a int)",
        "ALTER TABLE app.full REPLICA IDENTITY FULL",
        "CREATE TABLE app.late (a int PRIMARY KEY DEFERRABLE)",
        "CREATE TABLE app.split (a int) PARTITION BY LIST (a)",
        "ALTER TABLE app.split REPLICA IDENTITY FULL",  # of the root alone
        'CREATE TABLE app."a part" PARTITION OF app.split FOR VALUES IN (1)',
    )
    found = {fact.what: fact.level for fact in facts(shop.name, shop.source, shop.dsn, rows=True)}
    told = "{} has no identity: once published the application's UPDATE and DELETE fail"
    for bare in ("app.bare", "app.late", 'app."a part"'):
        assert found[told.format(bare)] == "wrong"
    assert found["app.bare.at has dates before Christ: they would come out wrong"] == "wrong"
    assert found["app.bare.squares has arrays of several dimensions: they would come out wrong"] == "wrong"
    assert found["app.bare.apart has arrays that do not begin at 1: they would come out wrong"] == "wrong"
    late = "app.bare.late has dates after 294247-01-10 04:00:54.775807: they would come out wrong"
    assert found[late] == "wrong"
    assert found["app.bare.zero has -0: they would come out wrong"] == "wrong"
    assert found["app.bare.day has dates from October 5 to 14, 1582: they would come out wrong"] == "wrong"
    large = "app.bare.large has NaN or infinity in an array: they would come out wrong"
    assert found[large] == "wrong"
    assert not any("amount" in what for what in found)
    assert found["app.bare.moods has NULL in an array: they would come out wrong"] == "wrong"
    old = "app.bare.old has dates before 1582-10-15 in an array: they would come out wrong"
    assert found[old] == "wrong"
    assert "app.bare.whole has NULL in an array: they would come out wrong" not in found
    keyless = [status for text, status in found.items() if text.startswith("app.full has no key: ")]
    assert keyless == ["warn"]
    assert found["app.orders, by id"] == "ok"
    assert not any("moments has" in what for what in found)


def test_check_tells_of_what_postgres_refuses_once_it_is_published(shop: Captured) -> None:
    shop.execute(
        "CREATE TABLE app.made (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (2 * id) STORED)",
        "ALTER TABLE app.made REPLICA IDENTITY FULL",
        "INSERT INTO app.made VALUES (1)",
    )
    reconciler = shop.new_reconciler()
    flows(reconciler)
    reconciler.close()
    with pytest.raises(psycopg2.errors.InvalidColumnReference, match="unpublished generated columns"):
        shop.execute("DELETE FROM app.made")
    told = (
        "app.made has generated columns (twice) in its identity: once published the application's UPDATE and "
        "DELETE fail"
    )
    wrong = {f.what for f in facts(shop.name, shop.source, shop.dsn, rows=False) if f.level == "wrong"}
    assert told in wrong
    assert not any(what.startswith("app.orders") for what in wrong)  # it has them beside its key
