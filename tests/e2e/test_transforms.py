"""The way of a function's author: from a real flight to a deploy, and rows with names of airlines."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from services.transform.author.example_tests import read_source
from tests.fixtures.fix_postgres import Database
from tests.fixtures.up import ROOT, StartUp, Up
from tests.fixtures.writer import eventually, rows

pytestmark = pytest.mark.full

FLIGHTS = int(os.environ.get("ONRAMP_TRANSFORM_FLIGHTS", "3000"))
NAME = "flight_delays"
REGISTRY = {
    "event_types": {"flight_departed": {}, "flight_delayed": {}},
    "transforms": {NAME: {"from": "flight_departed", "to": ["flight_delayed"], "lookups": ["airlines"]}},
    "lookups": {
        "airlines": {
            "database": "onramp",
            "table": "public.airlines",
            "key": "carrier",
            "columns": ["name"],
        }
    },
}
COUNTS = """
    SELECT count(*) FILTER (WHERE payload->'dep_delay' = 'null'),
        count(*) FILTER (WHERE (payload->>'dep_delay')::int >= 30)
    FROM events.flight_departed
"""
DELAYED = """
    SELECT _id, payload->>'carrier', (payload->>'minutes')::int FROM events.flight_delayed ORDER BY _id
"""


class Author:
    """A terminal in the folder with the author's files."""

    def __init__(self, run: Up, folder: Path, dsn: str) -> None:
        run.until("Ctrl-C stops everything")
        self._run, self._folder, self._dsn = run, folder, dsn
        self._kafka = run.until(r"Kafka     (\S+)").group(1)
        self._data = str(run.output.parent / "data")

    def onramp(self, *words: str, where: bool = True) -> subprocess.CompletedProcess[str]:
        options = ["--kafka", self._kafka, "--dsn", self._dsn] if where else []
        return subprocess.run(
            [sys.executable, "-m", "services.cli", *words, *options],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=self._folder,
            env={**self._run.environment, "ONRAMP_DATA_DIR": self._data},
        )

    def send(self, *flights: tuple[str, int | None]) -> None:
        file = self._folder / "flights.ndjson"
        file.write_text("".join(map(_line, flights)))
        sent = self.onramp("send", str(file), where=False)
        assert sent.returncode == 0, sent.stderr


def _line(flight: tuple[str, int | None]) -> str:
    carrier, delay = flight
    metadata = {"id": f"mine-{carrier}-{delay}", "timestamp": "2026-01-01T12:00:00Z", "version": "1"}
    payload = {"carrier": carrier, "dep_delay": delay}
    return json.dumps({"metadata": metadata, "event_name": "flight_departed", "payload": payload}) + "\n"


def test_a_function_goes_from_a_real_flight_to_rows_while_onramp_up_runs(
    up: StartUp, database: Database, tmp_path: Path
) -> None:
    registry = tmp_path / "onramp.yaml"
    registry.write_text(yaml.safe_dump({"event_types": {"flight_departed": {}}}))
    run = up("--events", str(FLIGHTS), "--dsn", database.dsn, "--registry", str(registry))
    me = Author(run, tmp_path, database.dsn)
    ((null, delayed),) = rows(database.dsn, COUNTS)

    made = me.onramp("transforms", "new", NAME, "--from", "flight_departed")
    assert made.returncode == 0, made.stderr
    registry.write_text(yaml.safe_dump(REGISTRY))
    service = run.until(r"The transform service runs: (http://127\.0\.0\.1:\d+)/status").group(1)
    assert service in (run.output.parent / "data" / "addresses.json").read_text()

    folder = tmp_path / "transforms"
    shutil.copy(ROOT / "transforms" / f"{NAME}.tests.yaml", folder)
    source = read_source(ROOT / "transforms", NAME)
    (folder / f"{NAME}.py").write_text(source.replace('not flight["dep_delay"] or ', ""))
    assert me.onramp("transforms", "test", NAME, where=False).returncode == 1
    rehearsed = me.onramp("transforms", "rehearse", NAME, "--since", "24h")
    assert rehearsed.returncode == 1, rehearsed.stderr
    assert f"{NAME}@" in rehearsed.stdout
    assert re.search(
        rf"^ +{null:,} times transform_failed: TypeError at line \d+", rehearsed.stdout, re.MULTILINE
    )
    assert f"{delayed:,} emitted, {FLIGHTS - delayed - null:,} dropped, {null:,} parked" in rehearsed.stdout
    refused = me.onramp("transforms", "deploy", NAME)
    assert (refused.returncode, "is not deployed" in refused.stderr) == (1, True)

    (folder / f"{NAME}.py").write_text(source)
    deployed = me.onramp("transforms", "deploy", NAME, "--reason", "half an hour is a delay")
    assert deployed.returncode == 0, deployed.stderr
    eventually(lambda: _lag(me) == 0)
    me.send(("UA", 45), ("XX", 30), ("UA", 29), ("UA", None))
    expected = [
        (f"{NAME}:mine-UA-45", "United Air Lines Inc.", 45),
        (f"{NAME}:mine-XX-30", None, 30),
    ]
    exists = "SELECT to_regclass('events.flight_delayed') IS NOT NULL"
    eventually(lambda: rows(database.dsn, exists) == [(True,)])
    eventually(lambda: rows(database.dsn, DELAYED) == expected)


def _lag(me: Author) -> int | None:
    listed = me.onramp("transforms", "list", "--json")
    (entry,) = json.loads(listed.stdout)
    lag: int | None = entry["lag"]
    return lag
