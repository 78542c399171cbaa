"""Checks of tables are read once for all pages: in the background, and at once only if they are old."""

from types import SimpleNamespace
from typing import Any, cast

from services.admin.registry_api.checked_tables import FRESH_SECONDS, MAX_SECONDS, CheckedTables
from services.ops.registry.database_addresses import KnownPlaces
from services.ops.registry.registry_reader import RegistryReader
from shared.registry import Snapshot
from tests.fixtures.writer import eventually

#: No database is known, so that each table has one fact, which does not hold.
TYPES: Any = {
    "order": {"destinations": [{"type": "postgres", "database": "a", "schema": "public", "table": "orders"}]}
}


def test_readings_are_shared_and_renewed_in_the_background() -> None:
    now, registry = [0.0], SimpleNamespace(tag="1", snapshot=Snapshot(event_types=TYPES))
    desk = SimpleNamespace(read=lambda: registry, places=KnownPlaces({}))
    checked = CheckedTables(cast("RegistryReader", desk), lambda: now[0])
    first = checked.read()
    assert [(each.key, each.holds) for each in first.tables] == [(("a", "public.orders", "order"), False)]
    now[0] += FRESH_SECONDS - 1
    assert checked.read() is first
    now[0] += 2
    assert checked.read() is first, "nobody waits for the next reading"
    second = eventually(lambda: found if (found := checked.read()) is not first else None)
    now[0] += MAX_SECONDS
    third = checked.read()
    assert third is not second, "a reading that is a minute old is not shown"
    registry.tag = "2"
    assert checked.read() is not third, "the tables of another registry are checked at once"


def test_each_table_of_an_unreachable_database_has_one_failed_fact() -> None:
    destinations = [
        {"type": "postgres", "database": "a", "schema": "public", "table": name} for name in ("x", "y")
    ]
    types: Any = {"order": {"destinations": destinations}}
    desk = SimpleNamespace(
        read=lambda: SimpleNamespace(tag="1", snapshot=Snapshot(event_types=types)),
        places=KnownPlaces({"a": "host=127.0.0.1 port=1"}),
    )
    tables = CheckedTables(cast("RegistryReader", desk)).read().tables
    assert [each.place.table for each in tables] == ["x", "y"]
    for each in tables:
        (fact,) = each.facts
        assert not fact.holds
        assert fact.text.startswith("the database answers: ")
