"""A table on a full disk: its events wait in the database, none is parked, and other events land."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest

from tests.fixtures.fix_postgres import Database
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import event, eventually, execute, landed

pytestmark = pytest.mark.full

_BYTES = 4 << 20


@pytest.fixture
def small_disk(database: Database) -> Iterator[Path]:
    """A tablespace of four MiB, named like its folder, on a separate file system."""
    with closing(psycopg2.connect(database.dsn)) as conn, conn.cursor() as cursor:
        conn.autocommit = True  # a tablespace is not made in a transaction
        cursor.execute("SELECT current_setting('data_directory'), current_database()")
        data, name = cursor.fetchone() or ("", "")
        with _mounted(Path(data).parent / f"disk_{name}", Path(data).stat()) as folder:
            cursor.execute(f"CREATE TABLESPACE {folder.name} LOCATION '{folder}'")
            yield folder
            cursor.execute("DROP SCHEMA events CASCADE")
            cursor.execute(f"DROP TABLESPACE {folder.name}")


@contextmanager
def _mounted(folder: Path, owner: os.stat_result) -> Iterator[Path]:
    options = f"size={_BYTES},mode=700,uid={owner.st_uid},gid={owner.st_gid}"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("a file system of its own size takes the right to mount one")
        try:
            yield folder
        finally:
            subprocess.run(["umount", folder], check=True)
    finally:
        folder.rmdir()


def _fill(folder: Path) -> Path:
    """A file that leaves no byte to others."""
    ballast = folder / "ballast"
    left = os.statvfs(folder)
    ballast.write_bytes(b"\0" * (left.f_bavail * left.f_frsize))
    assert os.statvfs(folder).f_bavail == 0
    return ballast


def test_events_for_a_table_on_a_full_disk_wait_and_no_event_is_parked(
    small_disk: Path, inline: Scene
) -> None:
    other = f"{inline.name}_other"
    inline.send(10)
    writer = inline.writer()
    inline.all_landed_once()
    execute(inline.dsn, f"ALTER TABLE events.{inline.name} SET TABLESPACE {small_disk.name}")
    ballast = _fill(small_disk)
    inline.send(500)
    eventually(lambda: inline.totals().get("waiting") == 500)
    inline.produce(*(event(f"o-{i}", other) for i in range(10)))
    eventually(lambda: landed(inline.dsn, other) == 10)
    assert (inline.landed(), set(writer.states.values())) == (10, {"landing"})
    ballast.unlink()
    eventually(lambda: inline.landed() == inline.accepted)
    assert {k: n for k, n in inline.totals().items() if n} == {"landed": 520}
    inline.audited()
