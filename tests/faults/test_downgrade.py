"""A writer that is older than what worked here before it touches nothing."""

from tests.fixtures.scenes import Scene
from tests.fixtures.writer import execute


def test_a_writer_that_finds_a_newer_ones_migration_ends(inline: Scene) -> None:
    newer = inline.writer()
    inline.send(20)
    inline.all_landed_once()
    newer.stop()
    execute(inline.dsn, "INSERT INTO onramp.migrations (name, checksum) VALUES ('9999_later.sql', '')")

    inline.send(20)
    older = inline.writer(wait=False)
    assert older.ended() == 4
    assert inline.landed() == 20

    execute(inline.dsn, "DELETE FROM onramp.migrations WHERE name = '9999_later.sql'")
    inline.writer()
    inline.all_landed_once()
