"""Database ownership: a second public name or a second installation is refused and loses no event."""

import re
import threading
from typing import Any

import pytest

from services.writer.databases.claims import Claims
from services.writer.databases.owner import Owner, take
from services.writer.postgres.migrations import migrate
from shared.errors import DATABASE_OWNED, Fault, InfrastructureError
from tests.fixtures.fix_postgres import Database
from tests.fixtures.inline import Inline
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import database_of, eventually, execute, landed, rows


def hand_over(writer: Inline, name: str, dsn: str) -> None:
    """Run the statement that the writer prints for a database of another owner."""
    said = eventually(lambda: writer.reasons.get(name, ""))
    [statement] = re.findall(r"UPDATE onramp\.owner .*", said)
    execute(dsn, statement)


def test_a_second_name_for_a_database_is_halted_and_its_events_wait(inline: Scene, other: Other) -> None:
    first = inline.writer()
    inline.send(10)
    inline.all_landed_once()
    first.stop()

    alias = other.sibling(inline.dsn)
    alias.name = f"alias_{inline.database}"
    writer = inline.writer_into(alias)
    inline.send(20)
    inline.all_landed_once()
    assert writer.states == {inline.database: "landing", alias.name: "halted"}
    assert inline.database in writer.reasons[alias.name]
    writer.stop()
    moved = other.sibling(other.dsn)  # the name gets a database of its own
    moved.name = alias.name
    inline.writer_into(moved)
    eventually(lambda: landed(other.dsn, inline.name) == 20)
    inline.audited(moved)


def test_a_database_of_another_kafka_is_halted_until_it_is_handed_over(inline: Scene) -> None:
    first = inline.writer()
    inline.send(5)
    inline.all_landed_once()
    first.stop()
    execute(inline.dsn, "UPDATE onramp.owner SET cluster_id = 'another'")
    execute(inline.dsn, "INSERT INTO onramp.migrations (name, checksum) VALUES ('9999_newer.sql', 'x')")
    writer = inline.writer(wait=False)
    inline.send(5)
    eventually(lambda: writer.states == {inline.database: "halted"})
    assert "another" in writer.reasons[inline.database]
    assert inline.landed() == 5
    execute(inline.dsn, "DELETE FROM onramp.migrations WHERE name = '9999_newer.sql'")
    hand_over(writer, inline.database, inline.dsn)
    inline.all_landed_once()


def test_later_epoch_on_ledger_rows_of_another_kafka_does_not_fence_the_writer(
    inline: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    compares: list[None] = []
    compare = Claims.compare

    def counted(*given: Any) -> None:
        compares.append(None)
        compare(*given)

    monkeypatch.setattr(Claims, "compare", counted)
    writer = inline.writer()
    inline.send(5)
    inline.all_landed_once()
    execute(
        inline.dsn,
        "INSERT INTO onramp.ledger VALUES (gen_random_uuid(), 'events.of_another', 0, 10, 1000000)",
    )
    begun = len(compares)
    eventually(lambda: len(compares) > begun + 1 or writer.exit is not None)
    inline.send(5)
    inline.all_landed_once()
    assert writer.exit is None


def test_database_claimed_under_several_names_at_once_has_a_single_owner(database: Database) -> None:
    migrate(database_of(database.dsn))
    names = [f"name_{n}" for n in range(4)]
    refused: dict[str, Fault] = {}
    together = threading.Barrier(len(names))

    def start(name: str) -> None:
        together.wait()
        try:
            take(database_of(database.dsn), Owner("cluster", name))
        except InfrastructureError as e:
            refused[name] = e.fault

    threads = [threading.Thread(target=start, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [(owner,)] = rows(database.dsn, "SELECT name FROM onramp.owner")
    assert sorted([owner, *refused]) == names
    assert set(refused.values()) == {DATABASE_OWNED}
