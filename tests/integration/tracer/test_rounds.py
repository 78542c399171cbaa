"""Rounds of tracers: a gateway of the test's own accepts them, and the test lands their rows."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from services.tracer import rows_sql
from services.tracer.entrances import FORMS, HttpEntrance, row_id
from services.tracer.journal import Journal
from services.tracer.lake_rows import LakeRows
from services.tracer.metrics import TracerMetrics
from services.tracer.results import Limits, Result, Tracer
from services.tracer.rounds import Rounds
from services.tracer.rows_sql import PACKETS, SYSLOG, Rows
from services.tracer.status import status
from services.tracer.syslog import SyslogEntrance
from services.tracer.transform_entrance import TransformEntrance
from shared import landing_columns, wire
from tests.fixtures.fix_postgres import Database
from tests.fixtures.raw_server import Asked, Bytes, Worst, answer, problem, serving
from tests.fixtures.writer import event, execute, rows
from tests.unit.lake.orders import Lake

NOW = 1_000_000.0


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def accepted(_: Asked) -> Bytes:
    return answer(202, b"{}", "application/json")


@pytest.fixture
def gateway() -> Iterator[Worst]:
    with serving() as server:
        server.script = accepted
        yield server


@pytest.fixture
def writer() -> Iterator[Worst]:
    with serving() as server:
        server.script = lambda _: answer(200, b'{"databases":{"onramp":"landing"}}', "application/json")
        yield server


class Tracing:
    """A tracer's rounds, and what the test does to their rows."""

    def __init__(
        self,
        dsn: str,
        gateway: str,
        writer: str,
        file: Path,
        *,
        through: TransformEntrance | None = None,
        lake: LakeRows | None = None,
    ) -> None:
        self.file = file
        self.dsn = dsn
        self.clock = Clock()
        self.metrics = TracerMetrics()
        self.database = Rows("onramp", dsn)
        self.journal = Journal.open(file, NOW)
        self.rounds = Rounds(
            entrances=[HttpEntrance(gateway, form, "key") for form in FORMS],
            packets=None,
            through_transform=through,
            databases=[self.database],
            lake=lake,
            lake_seconds=300,
            writers=[writer],
            journal=self.journal,
            metrics=self.metrics,
            limits=Limits(30, 600),
            interval=10,
            clock=self.clock,
        )

    @property
    def tracers(self) -> list[Tracer]:
        return self.rounds.tracers()

    def send(self) -> None:
        asyncio.run(self.rounds.send())

    def poll(self, after: float) -> set[Result]:
        self.clock.now = NOW + after
        asyncio.run(self.rounds.poll())
        return {watch.result for tracer in self.tracers for watch in tracer.watches.values()}

    def land(self) -> None:
        ids = ", ".join(f"('{row_id(t.entrance, t.id)}')" for t in self.tracers)
        execute(
            self.dsn,
            "CREATE SCHEMA IF NOT EXISTS events;"  # noqa: S608
            "CREATE TABLE IF NOT EXISTS events.onramp_probe (_id text, _received_at timestamptz);"
            f"INSERT INTO events.onramp_probe (_id) VALUES {ids}",
        )

    def counted(self, result: Result) -> float:
        self.metrics.page()  # new counters count from the first page on
        samples = [s for m in self.metrics.results.collect() for s in m.samples if s.name.endswith("_total")]
        return sum(s.value for s in samples if s.labels["result"] == result.value)

    def shown(self, result: Result) -> float:
        samples = [s for m in self.metrics.recent.collect() for s in m.samples]
        return sum(s.value for s in samples if s.labels["result"] == result.value)


@pytest.fixture
def tracing(migrated: Database, gateway: Worst, writer: Worst, tmp_path: Path) -> Iterator[Tracing]:
    made = Tracing(migrated.dsn, gateway.url, writer.url, tmp_path / "tracers.jsonl")
    yield made
    made.database.close()
    made.journal.close()


def test_a_tracer_of_each_form_lands(tracing: Tracing, gateway: Worst) -> None:
    tracing.send()
    assert len(gateway.asked) == len(FORMS)
    assert tracing.poll(1) == {Result.IN_FLIGHT}
    tracing.land()
    assert tracing.poll(2) == {Result.LANDED}
    assert tracing.counted(Result.LANDED) == len(FORMS)
    assert [each.seconds for each in status(tracing.tracers, {}).tracers] == [2.0] * len(FORMS)


def test_a_tracer_is_on_disk_before_it_is_sent(tracing: Tracing, gateway: Worst, tmp_path: Path) -> None:
    on_disk: list[str] = []

    def look(_: Asked) -> Bytes:
        lines = (tmp_path / "tracers.jsonl").read_bytes().splitlines()
        on_disk.append(orjson.loads(lines[0])["id"])
        return accepted(_)

    gateway.script = look
    tracing.send()
    assert on_disk[0] in {tracer.id for tracer in tracing.tracers}


def test_a_row_that_never_comes_is_lost(tracing: Tracing) -> None:
    tracing.send()
    assert tracing.poll(31) == {Result.LATE}
    assert tracing.poll(601) == {Result.LOST}
    assert tracing.shown(Result.LOST) == len(FORMS)
    tracing.land()
    assert tracing.poll(700) == {Result.LATE}
    assert tracing.shown(Result.LOST) == 0


def test_tracers_wait_while_the_writer_says_that_the_database_is_out(tracing: Tracing, writer: Worst) -> None:
    tracing.send()
    writer.script = lambda _: answer(503, b'{"databases":{"onramp":"out"}}', "application/json")
    assert tracing.poll(601) == {Result.WAITING}
    writer.script = lambda _: answer(200, b'{"databases":{"onramp":"landing"}}', "application/json")
    tracing.land()
    assert tracing.poll(602) == {Result.LANDED}


def test_a_refusal_is_no_loss(tracing: Tracing, gateway: Worst) -> None:
    gateway.script = lambda _: problem(503)
    tracing.send()
    assert tracing.poll(601) == {Result.REFUSED}
    assert set(tracing.rounds.refusals.values()) == {"answered 503"}


def test_two_rows_of_a_packet_are_a_duplicate(tracing: Tracing) -> None:
    tracing.database.prepare()
    execute(tracing.dsn, f"INSERT INTO {PACKETS} (id) VALUES ('a'), ('b'), ('b')")  # noqa: S608
    counts = tracing.database.count({PACKETS: ["a", "b"]})
    assert {row: n for (_, row), n in counts.items()} == {"a": 1, "b": 2}


def add_duplicates(dsn: str, events: int) -> None:
    execute(
        dsn,
        "INSERT INTO onramp.totals (topic_id, topic, partition, destination, outcome, events) SELECT "  # noqa: S608
        f"'00000000-0000-0000-0000-000000000001', 'events.onramp_probe', 0, d, 'duplicate', {events} "
        "FROM unnest('{events.onramp_probe,events.order}'::text[]) d "
        "ON CONFLICT (topic_id, partition, destination, outcome) DO UPDATE "
        "SET events = totals.events + EXCLUDED.events",
    )


def test_a_repeated_envelope_that_the_totals_count_is_a_duplicate(tracing: Tracing) -> None:
    add_duplicates(tracing.dsn, 3)  # earlier ones, which the tracer did not watch
    asyncio.run(tracing.rounds.find_duplicates())
    assert tracing.tracers == []
    add_duplicates(tracing.dsn, 2)
    asyncio.run(tracing.rounds.find_duplicates())
    assert tracing.shown(Result.DUPLICATE) == tracing.counted(Result.DUPLICATE) == 2
    [cell] = status(tracing.tracers, {}).tracers
    assert (cell.entrance, cell.destination, cell.day) == (
        "any_envelope",
        "onramp.events.onramp_probe",
        {"duplicate": 2},
    )
    assert tracing.poll(601) == {Result.DUPLICATE}
    tracing.journal.close()
    for _ in range(2):  # as it was appended, and as opening has written it again
        with closing(Journal.open(tracing.file, NOW)) as again:
            assert again.duplicates == {"onramp": 5}
    with closing(Journal.open(tracing.file, NOW)) as again:
        assert [t.watches for t in again.tracers.values()] == [t.watches for t in tracing.tracers]
    asyncio.run(tracing.rounds.find_duplicates())
    assert len(tracing.tracers) == 2


def test_a_message_of_syslog_is_found_among_those_of_users_and_trimmed(tracing: Tracing) -> None:
    assert tracing.database.prepare_syslog() == ""  # the writer creates the table with the first message
    assert tracing.database.count({SYSLOG: ["t-1"]}) == {}
    columns = [f"{column.name} {column.type}" for column in landing_columns.COLUMNS]
    execute(
        tracing.dsn,
        f"CREATE SCHEMA IF NOT EXISTS events; CREATE TABLE {SYSLOG} ({', '.join(columns)});"  # noqa: S608
        f"INSERT INTO {SYSLOG} (_id, _received_at, payload) SELECT n, now() - (n || ' hours')::interval, "
        "jsonb_build_object('app_name', app, 'message', 't-' || n) "
        "FROM generate_series(0, 48, 24) n, unnest('{onramp_probe,cron}'::text[]) app",
    )
    assert tracing.database.prepare_syslog() == ""
    counts = tracing.database.count({SYSLOG: ["t-0", "t-48", "t-9"]})
    assert {row: n for (_, row), n in counts.items()} == {"t-0": 1, "t-48": 1}
    tracing.database.trim(syslog=True)
    left = rows(tracing.dsn, f"SELECT _id, payload->>'app_name' FROM {SYSLOG} ORDER BY 1, 2")  # noqa: S608
    assert left == [("0", "cron"), ("0", "onramp_probe"), ("24", "cron"), ("48", "cron")]


def test_a_large_table_of_syslog_is_not_locked_for_an_index(
    tracing: Tracing, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(
        tracing.dsn,
        f"CREATE SCHEMA IF NOT EXISTS events; CREATE TABLE {SYSLOG} (_id text, payload jsonb);"  # noqa: S608
        f"INSERT INTO {SYSLOG} VALUES ('1', '{{}}')",
    )
    monkeypatch.setattr(rows_sql, "_SMALL_BYTES", 0)
    assert "CREATE INDEX" in tracing.database.prepare_syslog()
    tracing.rounds._entrances = [SyslogEntrance.of("udp://127.0.0.1:9")]
    tracing.send()
    assert tracing.tracers == []


def test_a_table_that_was_dropped_is_created_again_and_trimmed(tracing: Tracing) -> None:
    tracing.database.prepare()
    execute(tracing.dsn, f"DROP TABLE {PACKETS}")
    assert tracing.database.count({PACKETS: ["a"]}) == {}
    assert not tracing.database.has_packets
    tracing.database.prepare()
    assert tracing.database.has_packets
    execute(
        tracing.dsn,
        f"INSERT INTO {PACKETS} VALUES ('old', '', now() - interval '2 days'), ('new', '', now())",  # noqa: S608
    )
    tracing.database.trim()
    assert rows(tracing.dsn, f"SELECT id FROM {PACKETS}") == [("new",)]  # noqa: S608


def test_a_tracer_goes_through_a_transform_while_a_service_runs_it(
    migrated: Database, gateway: Worst, writer: Worst, tmp_path: Path
) -> None:
    def serve(transforms: bytes) -> None:
        service.script = lambda _: answer(200, b'{"transforms":%b}' % transforms, "application/json")

    with serving() as service, serving() as silent:
        entrance = HttpEntrance(gateway.url, wire.TRANSFORM_ENTRANCE, "key")
        through = TransformEntrance(entrance, [service.url])
        tracing = Tracing(migrated.dsn, gateway.url, writer.url, tmp_path / "tracers.jsonl", through=through)
        with closing(tracing.database), closing(tracing.journal):
            serve(b'{"flight_delays":{}}')
            tracing.send()
            assert len(tracing.tracers) == len(FORMS)
            serve(b'{"flight_delays":{},"onramp_probe":{}}')
            tracing.send()
            [tracer] = [each for each in tracing.tracers if each.entrance == entrance.name]
            assert row_id(tracer.entrance, tracer.id) == f"onramp_probe:{tracer.id}"
            tracing.land()
            assert tracing.poll(2) == {Result.LANDED}
            through._services = [silent.url]  # the service is down: its tracers are not silently left out
            silent.script = lambda _: b""
            tracing.send()
            assert sum(each.entrance == entrance.name for each in tracing.tracers) == 2
            assert tracing.poll(700) == {Result.LANDED, Result.LOST}


def test_tracers_in_the_lake_are_found_by_their_ids(
    migrated: Database, gateway: Worst, writer: Worst, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake")
    in_lake = LakeRows(lake.storage, "flights")
    made = Tracing(migrated.dsn, gateway.url, writer.url, tmp_path / "tracers.jsonl", lake=in_lake)
    made.send()
    made.land()
    assert made.poll(60) == {Result.LATE, Result.IN_FLIGHT}
    first, *others = made.tracers
    lake.land([event(row_id(each.entrance, each.id), "flight") for each in others])
    made.poll(120)
    cells = {cell.destination: cell.result for cell in status([others[0]], {}).tracers}
    assert cells["lake.flights"] == "landed"
    made.poll(301)
    cells = {cell.destination: cell.result for cell in status([first], {}).tracers}
    assert cells["lake.flights"] == "not_in_lake"
    made.database.close()
    made.journal.close()
