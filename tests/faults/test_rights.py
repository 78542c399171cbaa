"""A right that is missing in one database affects only that database; the log prints the SQL."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.fixtures.inline import Inline
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import eventually, execute, landed, rows


@pytest.fixture
def limited(other: Other) -> Iterator[Other]:
    """The other database as a role sees it that may do nothing there."""
    role = f"role_{other.name}"
    execute(other.dsn, f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    parts = urlsplit(other.dsn)
    found = other.sibling(other.dsn)
    found.dsn = urlunsplit(parts._replace(netloc=f"{role}:x@{parts.netloc.rpartition('@')[2]}"))
    try:
        yield found
    finally:
        execute(other.dsn, f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")


def mend(writer: Inline, name: str, dsn: str) -> None:
    """Run, as a superuser, the SQL that the writer prints for the database."""
    said = eventually(lambda: writer.reasons.get(name, ""))
    assert "SQLSTATE 42501" in said
    [script] = re.findall(r"as a superuser of it: (.*)", said)
    execute(dsn, script)


def test_a_database_without_grants_is_out_alone_and_says_the_sql(
    inline: Scene, other: Other, limited: Other
) -> None:
    writer = inline.writer_into(limited)
    inline.send(10)
    inline.all_landed_once()
    eventually(lambda: writer.states == {inline.database: "landing", limited.name: "out"})
    mend(writer, limited.name, other.dsn)
    eventually(lambda: landed(other.dsn, inline.name) == 10)
    inline.audited(other)


def test_a_grant_that_is_revoked_while_the_writer_runs(inline: Scene, other: Other, limited: Other) -> None:
    writer = inline.writer_into(limited)
    mend(writer, limited.name, other.dsn)
    inline.send(10)
    eventually(lambda: landed(other.dsn, inline.name) == 10)
    [(role,)] = rows(limited.dsn, "SELECT current_user")
    execute(
        other.dsn, f"ALTER TABLE onramp.ledger OWNER TO CURRENT_USER; REVOKE ALL ON onramp.ledger FROM {role}"
    )
    inline.send(10)
    eventually(lambda: inline.landed() == 20)
    eventually(lambda: writer.states[limited.name] == "out")
    mend(writer, limited.name, other.dsn)
    eventually(lambda: landed(other.dsn, inline.name) == 20)
    inline.all_landed_once()
    inline.audited(other)


def test_a_database_of_a_newer_onramp_ends_the_writer_whichever_it_is(inline: Scene, other: Other) -> None:
    """The newer release's records on Kafka concern all databases, so no event lands."""
    first = inline.writer_into(other)
    eventually(lambda: set(first.states.values()) == {"landing"})
    first.stop()
    execute(other.dsn, "INSERT INTO onramp.migrations (name, checksum) VALUES ('9999_newer.sql', 'x')")
    inline.send(10)
    assert inline.writer_into(other, wait=False).ended() == 4
    execute(other.dsn, "DELETE FROM onramp.migrations WHERE name = '9999_newer.sql'")
    inline.writer_into(other)
    inline.all_landed_once()
    eventually(lambda: landed(other.dsn, inline.name) == 10)
