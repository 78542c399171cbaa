"""`onramp up --lake`: the flights in Delta tables are those of Postgres."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import orjson
import psycopg2
import pytest
import yaml
from deltalake import DeltaTable

from stack.flights import TOTAL
from stack.java import find_java
from stack.services import ROOT
from tests.fixtures.up import StartUp, Up
from tests.fixtures.writer import eventually

EVENTS = 2_000
#: Seconds of the whole data set on two busy cores.
ALL_SECONDS = 1_500.0
ROWS_OF_A_BATCH = 5_000
COLUMNS = ["_id", "_timestamp", "_version", "_received_at", "_topic", "_partition", "_offset", "payload"]
TYPES = {"origin": "string", "carrier": "string", "dep_delay": ["integer", "null"], "distance": "integer"}
REGISTRY = {
    "event_types": {
        "flight_departed": {
            "schema": {"properties": {name: {"type": each} for name, each in TYPES.items()}},
            "lake": {"partition": "month"},
        }
    }
}
#: Flights, delayed flights, their minutes, and the miles of each origin and carrier.
QUESTION = """
    SELECT {origin} AS origin, {carrier} AS carrier, count(*) AS flights,
        count(CASE WHEN {delay} >= 30 THEN 1 END) AS delayed,
        CAST(sum({delay}) AS bigint) AS minutes, CAST(sum({distance}) AS bigint) AS miles
    FROM {table} GROUP BY 1, 2 ORDER BY 1, 2
"""
TYPED = {"origin": "p_origin", "carrier": "p_carrier", "delay": "p_dep_delay", "distance": "p_distance"}
OF_JSON = {
    "origin": "payload->>'origin'",
    "carrier": "payload->>'carrier'",
    "delay": "(payload->>'dep_delay')::int",
    "distance": "(payload->>'distance')::int",
}


@pytest.mark.full
def test_flights_land_in_the_lake_as_in_postgres(up: StartUp) -> None:
    run = up("--events", str(EVENTS), "--lake")
    run.until("Ctrl-C stops everything")
    folder = Path(run.until(r"Lake      (\S+)").group(1)) / "flight_departed"
    dsn = run.until(r"Postgres  (\S+)").group(1)
    table = eventually(lambda: whole(folder))
    landed = {
        tuple(row[name] for name in COLUMNS[:-1]): orjson.loads(row["payload"])
        for row in table.to_pyarrow_table(columns=COLUMNS).to_pylist()
    }
    with psycopg2.connect(dsn) as conn, conn.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(COLUMNS)} FROM events.flight_departed")  # noqa: S608 - names
        rows = {tuple(row[:-1]): row[-1] for row in cursor.fetchall()}
    conn.close()
    assert len(rows) == EVENTS
    assert landed == rows
    run.process.send_signal(signal.SIGINT)
    assert run.wait() == 0
    assert re.search("Stopping the lake service", run.text)


@pytest.mark.full
@pytest.mark.timeout(2 * ALL_SECONDS)
def test_all_flights_are_in_the_lake_as_in_postgres_and_answer_alike(up: StartUp, tmp_path: Path) -> None:
    registry = tmp_path / "flights.yaml"
    registry.write_text(yaml.safe_dump(REGISTRY))
    run = up("--lake", "--registry", str(registry))
    run.until("Ctrl-C stops everything", ALL_SECONDS)
    folder = Path(run.until(r"Lake      (\S+)").group(1)) / "flight_departed"
    dsn = run.until(r"Postgres  (\S+)").group(1)
    table = eventually(lambda: whole(folder, TOTAL), ALL_SECONDS)
    assert table.count() == TOTAL

    with psycopg2.connect(dsn) as conn:
        for number, (row, landed) in enumerate(zip_longest(rows_of_postgres(conn), rows_of_lake(table))):
            assert row == landed, f"row {number}"
        assert number + 1 == TOTAL
        with conn.cursor() as cursor:
            cursor.execute(QUESTION.format(table="events.flight_departed", **OF_JSON))
            expected = [list(each) for each in cursor.fetchall()]
    conn.close()
    assert sum(each[2] for each in expected) == TOTAL

    queried = onramp(run, "lake", "query", QUESTION.format(table="flight_departed", **TYPED), "--json")
    assert [[*json.loads(line).values()] for line in queried.splitlines()] == expected
    assert answer_of_spark(QUESTION.format(table=f"delta.`{folder}`", **TYPED)) == expected

    audited = onramp(run, "audit")
    assert "Reconciled: " in audited
    assert re.search(r"lake: [\d,]+ rows of \d tables", audited)
    (line,) = json.loads(onramp(run, "statement", "--type", "flight_departed", "--json"))["lake"]
    assert (line["landed"], line["lag"], line["adds_up"]) == (TOTAL, 0, True)
    assert [name.partition(".")[2] for name in line["compared_with"]] == ["events.flight_departed"]
    eventually(lambda: "landed" in tracers_in_lake(run))


def tracers_in_lake(run: Up) -> set[str]:
    """Return the last results of tracers in the lake."""
    url = json.loads((run.output.parent / "data" / "addresses.json").read_text())["tracer"]
    with urllib.request.urlopen(f"{url}/status", timeout=30) as answer:  # noqa: S310 - its own
        cells = json.load(answer)["tracers"]
    return {cell["result"] for cell in cells if cell["destination"] == "lake.onramp_probe"}


def rows_of_postgres(conn: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the rows by receipt, in batches."""
    with conn.cursor(name="flights") as cursor:
        cursor.itersize = ROWS_OF_A_BATCH
        cursor.execute(
            f"SELECT {', '.join(COLUMNS)} FROM events.flight_departed ORDER BY _partition, _offset"  # noqa: S608
        )
        yield from cursor


def rows_of_lake(table: DeltaTable) -> Iterator[tuple[Any, ...]]:
    """Yield the rows by receipt, in batches."""
    ordered = table.to_pyarrow_table(columns=COLUMNS).sort_by(
        [("_partition", "ascending"), ("_offset", "ascending")]
    )
    for batch in ordered.to_batches(ROWS_OF_A_BATCH):
        for *row, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield (*row, orjson.loads(payload))


def onramp(run: Up, *words: str) -> str:
    """Return the output of a verb for this `onramp up`."""
    return subprocess.run(
        [sys.executable, "-m", "services.cli", *words],
        env={**run.environment, "ONRAMP_DATA_DIR": str(run.output.parent / "data")},
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def answer_of_spark(sql: str) -> list[list[Any]]:
    """Return the rows of a query by Delta's own Spark reader."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": str(find_java().home)}
    command = [sys.executable, "-m", "tests.fixtures.delta_spark", "--sql", sql]
    done = subprocess.run(command, env=env, capture_output=True, check=True, text=True)
    return [[*json.loads(line).values()] for line in done.stdout.splitlines() if line.startswith("{")]


def whole(folder: Path, events: int = EVENTS) -> DeltaTable | None:
    """Return the table when it has all flights."""
    if not DeltaTable.is_deltatable(str(folder)):
        return None
    table = DeltaTable(str(folder))
    return table if table.count() >= events else None
