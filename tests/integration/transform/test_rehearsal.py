"""Rehearsals on a real Kafka: outcomes, failures by exception and line, differences; nothing is written."""

import os
import secrets
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import psycopg2
import pytest

from services.transform.rehearsal.rehearse import RehearsalRequest, WrongTransformError, rehearse
from services.transform.rehearsal.report import Report
from services.transform.rehearsal.tally import Cause
from shared.kafka_read.history import Window
from shared.registry.transforms import digest_of_source
from shared.settings import KafkaSettings
from shared.trial_program import Exit
from stack.registry import OwnRegistry
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import make_topics, produce

AIRLINES = """
    CREATE TABLE public.airlines (carrier text PRIMARY KEY, name text);
    INSERT INTO public.airlines VALUES ('UA', 'United');
"""
CODE = """\
def transform(event, lookup):
    flight = event["payload"]
    if flight["dep_delay"] < 30:
        return None
    airline = lookup("airlines", flight["carrier"]) or {}
    return {"event_name": "NAME", "payload": {"carrier": airline.get("name"), "minutes": flight["dep_delay"]}}
"""
#: The fault: a flight without a departure has no delay.
FAULT_LINE = 3
MENDED = CODE.replace('flight["dep_delay"] < 30', 'not flight["dep_delay"] or flight["dep_delay"] < 30')


class Ground(NamedTuple):
    """Types of names that no other test has, and their registry."""

    kafka: KafkaSettings
    registry: OwnRegistry
    database: str
    folder: Path
    flight: str
    delay: str

    def write(self, source: str) -> str:
        source = source.replace("NAME", self.delay)
        (self.folder / "delays.py").write_text(source, "utf-8")
        return source

    def document(self, **entry: Any) -> dict[str, Any]:
        schema = {"type": "object", "properties": {"carrier": {"type": ["string", "null"]}}}
        lookup = {"database": "onramp", "table": "public.airlines", "key": "carrier", "columns": ["name"]}
        transform = {"from": self.flight, "to": [self.delay], "lookups": ["airlines"], **entry}
        return {
            "event_types": {self.flight: {"personal": ["/tail"]}, self.delay: {"schema": schema}},
            "transforms": {"delays": transform},
            "lookups": {"airlines": lookup},
        }

    def send(self, *payloads: dict[str, Any]) -> None:
        make_topics(self.kafka.bootstrap, f"events.{self.flight}", partitions=1)
        produce(
            self.kafka.bootstrap,
            f"events.{self.flight}",
            [self.event(n, each) for n, each in enumerate(payloads)],
        )

    def event(self, number: int, payload: dict[str, Any]) -> bytes:
        metadata = {"id": f"f{number}", "timestamp": "2026-01-01T00:00:00Z", "version": "1"}
        return orjson.dumps({"metadata": metadata, "event_name": self.flight, "payload": payload})

    def rehearse(self, *, against_live: bool = False, last: int = 1000) -> Report:
        request = RehearsalRequest(
            name="delays",
            folder=self.folder,
            window=Window(last=last),
            is_against_live=against_live,
            environments={},
            databases={"onramp": self.database},
        )
        return rehearse(request, self.kafka, self.registry.settings, lambda _: None)


@pytest.fixture
def ground(kafka: HasBootstrap, database: Database, tmp_path: Path) -> Ground:
    with closing(psycopg2.connect(database.dsn)) as conn, conn, conn.cursor() as cursor:
        cursor.execute(AIRLINES)
    suffix = secrets.token_hex(4)
    settings = KafkaSettings(bootstrap=kafka.bootstrap)
    ground = Ground(
        settings, OwnRegistry(kafka.bootstrap), database.dsn, tmp_path, f"flight_{suffix}", f"delay_{suffix}"
    )
    ground.registry.put(ground.document())
    return ground


def flight(carrier: str, delay: float | None) -> dict[str, Any]:
    return {"carrier": carrier, "dep_delay": delay, "tail": "N14228"}


def test_a_planted_fault_is_found_at_its_line_and_count(ground: Ground) -> None:
    ground.send(*[flight("UA", 45)] * 3, flight("UA", 1), *[flight("AA", None)] * 2, flight("AA", 30))
    ground.write(CODE)
    report = ground.rehearse()
    tally = report.tally
    assert (tally.emitted, tally.dropped, tally.parked, tally.read) == (4, 1, 2, 7)
    assert tally.outputs == {ground.delay: 4}
    ((cause, group),) = tally.failures.by_frequency()
    assert cause == Cause("transform_failed", "TypeError", "transform", FAULT_LINE)
    assert group.events == 2
    assert [each.receipt for each in group.samples] == [f"events.{ground.flight}/0@{n}" for n in (4, 5)]
    assert group.samples[0].event["payload"] == {"carrier": "AA", "dep_delay": None, "tail": "***"}
    assert report.exit is Exit.FAILED
    assert len(tally.times) == 7
    text = "\n".join(report.lines())
    assert "2 times transform_failed: TypeError at line 3 in transform()" in text
    assert "N14228" not in text + orjson.dumps(report.as_dict()).decode()

    ground.write(MENDED)
    mended = ground.rehearse()
    assert (mended.tally.emitted, mended.tally.dropped, mended.tally.parked) == (4, 3, 0)
    assert mended.exit is Exit.OK
    assert ground.rehearse(last=2).tally.events == 2


def test_differences_from_the_live_version_are_named_by_place(ground: Ground) -> None:
    ground.send(flight("UA", 45), flight("AA", 30), flight("UA", 40), flight("UA", None))
    live = ground.write(MENDED)
    ground.registry.put(ground.document(source=live, digest=digest_of_source(live)))
    same = ground.rehearse(against_live=True)
    assert (same.tally.differing, same.exit) == (0, Exit.OK)
    assert "this version is the deployed one" in same.notes()

    ground.write(
        MENDED.replace('flight["dep_delay"] < 30', 'flight["dep_delay"] < 35')
        .replace('airline.get("name")', 'airline.get("name", "unknown").upper()')
        .replace('"minutes": ', '"late": ')
    )
    report = ground.rehearse(against_live=True)
    assert report.tally.differing == 3
    assert {key: group.events for key, group in report.tally.differences.by_frequency()} == {
        "/*/payload/carrier": 2,
        "/*/payload/late: absent from the live version": 2,
        "/*/payload/minutes: only in the live version": 2,
        "outcome: emitted → dropped": 1,
    }
    assert report.exit is Exit.OK

    ground.write(CODE)
    assert ground.rehearse(against_live=True).exit is Exit.FAILED


def test_an_output_that_the_gateway_would_refuse_is_parked(ground: Ground) -> None:
    ground.send(flight("UA", 45), flight("UA", 50))
    ground.write(MENDED.replace('airline.get("name")', "7"))
    report = ground.rehearse()
    ((cause, group),) = report.tally.failures.by_frequency()
    assert (cause.code, group.events) == ("transform_bad_output", 2)
    assert "schema_mismatch" in cause.detail
    ground.write('def transform(event, lookup):\n    return {"event_name": "other", "payload": {}}\n')
    ((cause, group),) = ground.rehearse().tally.failures.by_frequency()
    assert "does not list this event name in `to`" in cause.detail


def test_a_function_that_ends_its_process_stops_the_rehearsal(ground: Ground) -> None:
    ground.send(*[flight("UA", 45)] * 30)
    ground.write("import os\ndef transform(event, lookup):\n    os._exit(1)\n")
    report = ground.rehearse()
    assert (report.tally.parked, report.tally.deaths) == (10, 20)
    assert "stopped after 20 deaths" in report.unchecked()[0]
    assert report.exit is Exit.FAILED


def test_an_empty_window_checks_nothing(ground: Ground) -> None:
    ground.write(CODE)
    report = ground.rehearse()
    assert report.exit is Exit.UNCHECKED


def test_an_absent_transform_is_refused(ground: Ground) -> None:
    with pytest.raises(WrongTransformError, match=r"delays\.py cannot be read"):
        ground.rehearse()
    ground.write(CODE)
    with pytest.raises(WrongTransformError, match="is not deployed"):
        ground.rehearse(against_live=True)
    ground.registry.put({"transforms": {}})
    with pytest.raises(WrongTransformError, match="the registry in force has no transform delays"):
        ground.rehearse()


def test_the_program_prints_json_and_exits_as_the_report_says(ground: Ground) -> None:
    ground.send(flight("UA", None))
    ground.write(CODE)
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "services.transform.rehearsal", "delays"),
            *("--last=5", "--json", f"--folder={ground.folder}"),
        ],
        env={
            **os.environ,
            **ground.registry.env,
            "ONRAMP_KAFKA_BOOTSTRAP": ground.kafka.bootstrap,
            "ONRAMP_WRITER_DSN": ground.database,
        },
        capture_output=True,
        check=False,
    )
    assert ran.returncode == Exit.FAILED, ran.stderr
    assert orjson.loads(ran.stdout)["failures"][0]["events"] == 1
