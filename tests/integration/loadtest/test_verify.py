# ruff: noqa: S608 - every statement is made of our own constants
"""Verify on a real Postgres: silent when all is well, and it names each planted violation."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from psycopg2.extensions import connection

from loadtest import landed_rows, verify
from loadtest.bodies import FIRST_NUMBER, SCHEMA, Names
from loadtest.client_claims import Claims
from loadtest.history import OK, REFUSED, UNKNOWN, Recorder, Reporter
from loadtest.shapes import BATCH, KAFKA, SYSLOG
from loadtest.verify import Verdict
from services.writer.persist.landing_tables import ensure_table
from services.writer.postgres.database import Database as WriterDatabase
from services.writer.postgres.migrations import migrate
from services.writer.postgres.pool import connected
from tests.fixtures.fix_postgres import Database

NAMES = Names("c0ffee")
LANDED = f"events.{NAMES.event}"
PACKETS = f"{SCHEMA}.{NAMES.event}"
ANSWERED, SILENT, REFUSED_ONES = 6, 2, 2


@dataclass
class Run:
    """A small run that went well: six answered, two unknown of which one landed, two refused."""

    conn: connection
    claims: Claims

    def execute(self, statement: str) -> None:
        with self.conn.cursor() as cursor:
            cursor.execute(statement)

    def verdict(self, via: str) -> Verdict:
        return verify.compare(self.conn, via, NAMES, self.claims)


def history(file: Path) -> Claims:
    with Recorder(file, FIRST_NUMBER) as recorder:
        reporter = Reporter(recorder.address, lease=12)
        for outcome, count in ((OK, ANSWERED), (UNKNOWN, SILENT), (REFUSED, REFUSED_ONES)):
            reporter.note(outcome, reporter.numbers(count), count, 1.0, 1.0, 1.1, 9, outcome, None, None)
        reporter.close()
    return Claims.read(file)


@pytest.fixture(scope="module")
def healthy(own_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The run as it went."""
    database = WriterDatabase("onramp", own_database.dsn)
    with closing(landed_rows.connect(own_database.dsn)) as conn:
        migrate(database)
        with connected(database, "land") as writer:
            ensure_table(writer, database, NAMES.event)
        landed_rows.make_table(conn, NAMES)
        made = Run(conn, history(tmp_path_factory.mktemp("run") / "history"))
        for n in range(FIRST_NUMBER, FIRST_NUMBER + ANSWERED + 1):
            made.execute(land(n))
            made.execute(f"INSERT INTO {PACKETS} (i) VALUES ({n})")
        yield made


@pytest.fixture
def run(healthy: Run) -> Iterator[Run]:
    """The run for a test to plant in: nothing of it stays."""
    healthy.execute("BEGIN")
    try:
        yield replace(healthy)
    finally:
        healthy.execute("ROLLBACK")


def land(number: int, event_id: str | None = None) -> str:
    return (
        f"INSERT INTO {LANDED} VALUES ('{event_id or f'c0ffee-{number}'}', '{NAMES.event}', now(), '1', "
        f"now(), 'events.{NAMES.event}', 0, {number}, '{{\"i\": {number}}}')"
    )


@pytest.mark.parametrize("via", [BATCH, KAFKA])
def test_a_run_that_went_well_is_sound(run: Run, via: str) -> None:
    verdict = run.verdict(via)
    assert verdict.sound
    assert (verdict.ok, verdict.unknown, verdict.refused) == (6, 2, 2)
    assert (verdict.landed, verdict.recovered) == (7, 1)


LOST, UNSENT, REFUSED_ONE = FIRST_NUMBER + 2, FIRST_NUMBER + 11, FIRST_NUMBER + 8


@pytest.mark.parametrize(
    ("via", "plant", "named", "examples"),
    [
        (BATCH, f"DELETE FROM {LANDED} WHERE _id = 'c0ffee-{LOST}'", "lost", [LOST]),
        (KAFKA, f"DELETE FROM {PACKETS} WHERE i = {LOST}", "lost", [LOST]),
        (
            BATCH,
            f"ALTER TABLE {LANDED} DROP CONSTRAINT {NAMES.event}_pkey; {land(LOST)}",
            "duplicate",
            [LOST],
        ),
        (KAFKA, f"INSERT INTO {PACKETS} (i) VALUES ({LOST})", "duplicate", [LOST]),
        (BATCH, land(UNSENT), "phantom", [UNSENT]),
        (BATCH, land(1, "somebody-elses"), "phantom", [-1]),
        (BATCH, land(7), "phantom", [-1]),
        (KAFKA, f"INSERT INTO {PACKETS} (i) VALUES ({UNSENT})", "phantom", [UNSENT]),
        (KAFKA, f"INSERT INTO {PACKETS} (i) VALUES (7)", "phantom", [7]),
        (BATCH, land(REFUSED_ONE), "resurrected", [REFUSED_ONE]),
    ],
)
def test_planted_fault_is_counted_under_its_kind_with_its_event_number(
    run: Run, via: str, plant: str, named: str, examples: list[int]
) -> None:
    run.execute(plant)
    verdict = run.verdict(via)
    assert not verdict.sound
    wrong = {n: getattr(verdict, n) for n in ("lost", "duplicate", "phantom", "resurrected")}
    assert {n for n, count in wrong.items() if count} == {named}
    assert wrong[named] == 1
    assert verdict.examples[named] == examples


def test_a_lost_packet_is_not_made_good_by_anothers_row(run: Run) -> None:
    run.execute(f"UPDATE {PACKETS} SET i = {LOST + 1} WHERE i = {LOST}")
    verdict = run.verdict(KAFKA)
    assert (verdict.lost, verdict.duplicate, verdict.landed) == (1, 1, 6)


def test_a_table_that_was_never_made_has_lost_everything(run: Run) -> None:
    run.execute(f"DROP TABLE {LANDED}")
    assert run.verdict(BATCH).lost == ANSWERED


@pytest.mark.parametrize(
    ("counted", "wrong"),
    [
        ({"landed": 7}, 0),
        ({"landed": 6}, 1),
        ({"landed": 7, "duplicate": 1}, 1),
        ({"landed": 7, "parked": 2}, 1),
    ],
)
def test_the_writers_own_count_must_agree(run: Run, counted: dict[str, int], wrong: int) -> None:
    for outcome, events in counted.items():
        run.execute(
            "INSERT INTO onramp.totals VALUES "
            f"(gen_random_uuid(), 'events.{NAMES.event}', 0, 'x', '{outcome}', {events})"
        )
    verdict = run.verdict(BATCH)
    verify.check_counts(verdict, landed_rows.outcomes(run.conn, BATCH, NAMES))
    assert len(verdict.miscounted) == wrong
    assert verdict.sound is not bool(wrong)


def test_syslog_is_found_by_its_message_among_others(run: Run) -> None:
    ensure = f"CREATE TABLE events.{landed_rows.SYSLOG_EVENT} (LIKE {LANDED})"
    copy = (
        f"INSERT INTO events.{landed_rows.SYSLOG_EVENT} SELECT _id, _event_name, _timestamp, _version, "
        "_received_at, _topic, _partition, _offset, "
        "jsonb_build_object('app_name', '{name}', 'message', {message}) FROM " + LANDED
    )
    run.execute(ensure)
    run.execute(copy.format(name=NAMES.event, message="right(_id, 9) || ' xxx'"))
    run.execute(copy.format(name="another_run", message="'whatever'"))
    assert run.verdict(SYSLOG).sound
    run.execute(copy.format(name=NAMES.event, message="'what'"))
    assert run.verdict(SYSLOG).phantom == ANSWERED + 1


def test_an_unsound_audit_or_a_lag_makes_the_run_unsound(run: Run) -> None:
    verdict = run.verdict(BATCH)
    verdict.audit = {"balanced": False, "findings": ["lost events.x/0"]}
    assert not verdict.sound
    assert "AUDIT: lost events.x/0" in verdict.lines()
    verdict.audit, verdict.unsettled = {"balanced": True}, 3
    assert not verdict.sound


def test_a_run_that_left_nothing_proves_nothing(run: Run, tmp_path: Path) -> None:
    with Recorder(tmp_path / "refused", FIRST_NUMBER) as recorder:
        reporter = Reporter(recorder.address, lease=2)
        reporter.note(REFUSED, reporter.numbers(2), 2, 1.0, 1.0, 1.1, 9, "HTTP 401", None, None)
        reporter.close()
    run.execute(f"TRUNCATE {LANDED}")
    run.claims = Claims.read(tmp_path / "refused")
    verdict = run.verdict(BATCH)
    assert (verdict.lost, verdict.sound) == (0, False)
    assert "NOTHING WAS FOUND: the run proves nothing" in verdict.lines()
