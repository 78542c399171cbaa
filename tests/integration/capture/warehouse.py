"""Comparisons of public tables with their source, for tests of the whole path."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
import pytest
from psycopg2 import sql

from tests.fixtures.sources import Captured
from tests.fixtures.writer import eventually


def rows(shop: Captured, table: str, columns: str, at: str) -> list[str]:
    return sorted(str(row) for row in shop.ask(f"SELECT {columns} FROM {table}", at=at))  # noqa: S608


def differ(shop: Captured, table: str, columns: str) -> str:
    """Return how the public table differs from the source's, as texts; empty when it does not."""
    public = f"{shop.name}.{table}"
    there = shop.ask("SELECT to_regclass(%s) IS NOT NULL", public, at=shop.published)
    held = shop.ask("SELECT reason FROM onramp.table_settings WHERE reason IS NOT NULL", at=shop.published)
    if there != [(True,)]:
        return f"it is not there; held: {held}"
    theirs = rows(shop, f"app.{table}", columns, "")
    try:
        ours = rows(shop, public, columns, shop.published)
    except psycopg2.errors.UndefinedColumn as error:  # the source has it already
        return str(error)
    return "" if theirs == ours else f"{held} theirs: {theirs[:3]} ours: {ours[:3]}"


def equal(shop: Captured, table: str, columns: str) -> bool:
    try:
        eventually(lambda: not differ(shop, table, columns), 30)
    except AssertionError:
        pytest.fail(differ(shop, table, columns))
    return True


@contextmanager
def unreadable_from(shop: Captured, partition: str) -> Iterator[None]:
    """Make readers of a partition wait at its first row with a value that is stored out of line."""
    index = (
        "SELECT n.nspname, c.relname FROM pg_class t JOIN pg_index i ON i.indrelid = t.reltoastrelid "
        "JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE t.oid = %s::regclass"
    )
    (name,) = shop.ask(index, partition)
    with closing(psycopg2.connect(shop.dsn)) as conn, conn.cursor() as cursor:
        cursor.execute(sql.SQL("REINDEX INDEX {}").format(sql.Identifier(*name)))
        yield


def is_amid_reading(shop: Captured, landing: str) -> bool:
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


def pending(shop: Captured) -> Any:
    """Return the tables that must be read again, as the agent keeps them."""
    return shop.ask("SELECT resnapshots FROM onramp_agent.sources", at=shop.published)[0][0]
