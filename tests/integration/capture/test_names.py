"""Names with a meaning in SQL, regular expressions, topics or templates are captured unchanged."""

from collections.abc import Sequence
from typing import Final

import psycopg2
import pytest
from psycopg2 import sql

from services.cdc.agent import names
from tests.fixtures.sources import Captured, flows
from tests.fixtures.writer import eventually
from tests.integration.capture.test_changes_without_events import new_reconciler
from tests.integration.capture.warehouse import pending

TABLES: Final = (
    *("a b", "it's", 'qu"ote', "do.t", "com,ma", "dol$lar", "back\\slash", "br[ack]et", "UPPER"),
    *(
        "ünï",
        "漢字",
        "日本",
        "😀",
        "1digit",
        "select",
        "signal",
        "transaction",
        "message",
        "x" * 63,
        "x" * 62 + "y",
    ),
    *("p{1}", "star*", "quest?", "paren(1)", "pipe|x", "plus+", "--c", "/*c*/", "tab\tx"),
    *("vt\x0bx", "ff\x0cx"),
)
COLUMNS: Final = (
    *(
        "a b",
        "it's",
        'qu"ote',
        '"',
        "do.t",
        "%s",
        "back\\slash",
        "UPPER",
        "ünï",
        "漢字",
        "op",
        "before",
        "at",
    ),
    *("after", "source", "row", "key", "p", "f", "n", "select", "x" * 63, "f.row", "{0}", "commit"),
    *("_partition", "line\nends", "tab\tx"),
)
#: Debezium takes one for a name in quotes, and would fail at it; psycopg2 the other for a place of a value.
#: Of those in which a line ends, as Java sees it, a snapshot has no row.
STAY_OUT: Final = ('"', "per%cent", "cr\rx", "nel\x85x", "ls\u2028x", "ps\u2029x", "new\nline", "end\n")
#: No regular expressions for certain: without a key they stay out as well.
NO_PATTERNS: Final = ("back\\slash", "p{1}")


def named(text: str, *names: str) -> sql.Composed:
    return sql.SQL(text).format(*map(sql.Identifier, names))


def differ(shop: Captured, table: str, columns: Sequence[str]) -> str:
    """Return how the public table differs from the source's; empty when it does not."""
    wanted = sql.SQL(", ").join(map(sql.Identifier, columns))
    both = (("app", table, shop.dsn), (shop.name, table, shop.published))
    try:
        theirs, ours = (
            shop.ask(sql.SQL("SELECT {} FROM {} ORDER BY 1").format(wanted, sql.Identifier(*name)), at=dsn)
            for *name, dsn in both
        )
    except (psycopg2.errors.UndefinedTable, psycopg2.errors.UndefinedColumn) as error:
        return str(error)
    return "" if theirs == ours else f"theirs: {theirs} ours: {ours}"


def all_equal(shop: Captured, tables: Sequence[str], columns: Sequence[str]) -> None:
    for table in tables:
        try:
            eventually(lambda table=table: not differ(shop, table, columns), 30)
        except AssertionError:
            held = shop.ask(
                "SELECT table_name, reason FROM onramp.table_settings WHERE reason <> ''", at=shop.published
            )
            pytest.fail(f"{table!r}: {differ(shop, table, columns)}; held: {held}")


@pytest.mark.parametrize("key", [pytest.param(" PRIMARY KEY", marks=pytest.mark.full), ""])
@pytest.mark.usefixtures("warehouse")
def test_names_come_out_as_they_are_and_those_that_would_stop_all_stay_out(shop: Captured, key: str) -> None:
    tables = tuple(name for name in TABLES if key or name not in NO_PATTERNS)
    out = {*STAY_OUT, "nothing", "far.told", *TABLES} - {*tables}
    texts = sql.SQL(", ").join(named("{} text", name) for name in COLUMNS)
    keys = sql.SQL(", ").join(map(sql.Identifier, COLUMNS[:16]))
    values = sql.SQL(", ").join(map(sql.Literal, COLUMNS))
    wide = ("of_columns", "of_keys")
    shop.execute(
        *(named(f"CREATE TABLE app.{{}} (id int{key}, v text)", name) for name in (*TABLES, *STAY_OUT)),
        *(named("ALTER TABLE app.{} REPLICA IDENTITY FULL", name) for name in TABLES),
        *(named("INSERT INTO app.{} VALUES (0, 'snapshot'), (1, 'snapshot')", name) for name in TABLES),
        sql.SQL("CREATE TABLE app.of_columns ({})").format(texts),
        "CREATE TABLE app.nothing ()",  # it would stop all as well
        'CREATE SCHEMA "app.far"; CREATE TABLE "app.far".told (id int); CREATE TABLE app."far.told" (id int)',
        "ALTER TABLE app.of_columns REPLICA IDENTITY FULL",
        sql.SQL("CREATE TABLE app.of_keys ({}, PRIMARY KEY ({}))").format(texts, keys),
        *(sql.SQL("INSERT INTO app.{} VALUES ({})").format(sql.Identifier(name), values) for name in wide),
    )
    schemas = ("app", "app.far")
    shop.execute(
        named("ALTER PUBLICATION {} ADD TABLES IN SCHEMA {}", names.publication(shop.name), schemas[1]),
    )
    with new_reconciler(shop, schemas=schemas) as reconciler:
        flows(reconciler)
        shop.execute(
            *(named("INSERT INTO app.{} VALUES (2, 'stream')", name) for name in tables),
            *(named("UPDATE app.{} SET v = 'changed' WHERE id = 1", name) for name in tables),
            *(named("UPDATE app.{} SET {} = 'changed'", name, COLUMNS[0]) for name in wide),
        )
        all_equal(shop, tables, ("id", "v"))
        all_equal(shop, wide, COLUMNS)
        # Each also has a re-snapshot.
        again = (*tables, *wide)
        shop.execute(*(named("ALTER TABLE app.{} ADD more int DEFAULT 5", name) for name in again))
        eventually(lambda: reconciler.reconcile() and not pending(shop), 120)
        all_equal(shop, again, ("more",))
        excluded_tables = reconciler.reconcile().source_state.excluded_tables
        assert set(excluded_tables) == {f"app.{name}" for name in out}
        assert "two tables" in excluded_tables["app.far.told"]
