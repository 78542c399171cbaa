"""`onramp up --lake`: the flights in Delta tables are those of Postgres."""

import re
import signal
from pathlib import Path

import orjson
import psycopg2
import pytest
from deltalake import DeltaTable

from tests.fixtures.up import StartUp
from tests.fixtures.writer import eventually

EVENTS = 2_000


@pytest.mark.full
def test_flights_land_in_the_lake_as_in_postgres(up: StartUp) -> None:
    run = up("--events", str(EVENTS), "--lake")
    run.until("Ctrl-C stops everything")
    folder = Path(run.until(r"Lake      (\S+)").group(1)) / "flight_departed"
    dsn = run.until(r"Postgres  (\S+)").group(1)
    table = eventually(lambda: whole(folder))
    columns = ["_id", "_timestamp", "_version", "_received_at", "_topic", "_partition", "_offset", "payload"]
    landed = {
        tuple(row[name] for name in columns[:-1]): orjson.loads(row["payload"])
        for row in table.to_pyarrow_table(columns=columns).to_pylist()
    }
    with psycopg2.connect(dsn) as conn, conn.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(columns)} FROM events.flight_departed")  # noqa: S608 - names
        rows = {tuple(row[:-1]): row[-1] for row in cursor.fetchall()}
    conn.close()
    assert len(rows) == EVENTS
    assert landed == rows
    run.process.send_signal(signal.SIGINT)
    assert run.wait() == 0
    assert re.search("Stopping the lake service", run.text)


def whole(folder: Path) -> DeltaTable | None:
    """Return the table when it has all flights."""
    if not DeltaTable.is_deltatable(str(folder)):
        return None
    table = DeltaTable(str(folder))
    return table if table.count() >= EVENTS else None
