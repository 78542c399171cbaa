"""Audit on a real Kafka and Postgres: correct data reconcile, and each planted fault is a finding."""

import json
import secrets
from urllib.parse import urlsplit, urlunsplit

import orjson
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from services.cli.app import app
from services.writer.kafka.producer import Record, publish
from services.writer.model.routes import Routes
from services.writer.park.diverted_topic import HEADER
from services.writer.partitions.plan_log import Totals
from services.writer.waiting.release import Release
from shared import wire
from shared.kafka_read.offsets import Range
from shared.kafka_security import Brokers
from tests.fixtures.writer import CONTEXT, envelope, event
from tests.integration.admin.conftest import BAD, Stage


def _copy(of: str, under: str, offset: str = "_offset", topic: str = "_topic") -> str:
    """A statement that copies a row under another id."""
    return (
        f"INSERT INTO {{t}} SELECT '{under}', _event_name, _timestamp, _version, _received_at, "  # noqa: S608
        f"{topic}, _partition, {offset}, payload FROM {{t}} WHERE _id = '{of}'"
    )


def test_every_kind_of_verdict_balances_by_receipt(settled: Stage) -> None:
    report = settled.audit()
    assert (report.findings, report.unchecked, report.unsettled) == ([], [], 0)
    (line,) = report.lines
    assert line.outcomes == {"duplicate": 1, "landed": 5, "parked": 1}
    assert (line.filtered, line.unroutable, line.probes, line.holes) == (1, 1, 1, 0)
    assert (line.read, line.accounted, report.receipts) == (9, 9, 10)


def test_the_totals_alone_balance_and_say_what_they_did_not_read(stage: Stage) -> None:
    stage.settle(event("a", stage.name), event("a", stage.name), b"no json")
    report = stage.audit(deep=False)
    assert report.findings == []
    assert report.unchecked == ["receipts were not read: --deep reads them"]


def test_events_above_the_ledger_are_not_yet_settled(settled: Stage) -> None:
    settled.send(event("later", settled.name))
    report = settled.audit()
    assert (report.findings, report.unsettled) == ([], 1)


@pytest.mark.parametrize(
    ("plant", "named"),
    [
        ("DELETE FROM {t} WHERE _id = 'e-2'", {("lost", 2), ("wrong_total", None)}),
        (_copy("e-3", "other"), {("duplicate", 3), ("wrong_total", None)}),
        (_copy("e-3", "ghost", offset="77"), {("phantom", 77), ("wrong_total", None)}),
        (_copy("e-3", "ghost", topic="'events.never'"), set()),  # not of the topic that is audited here
        ("UPDATE {t} SET _id = 'ghost' WHERE _offset = 3", {("corrupt", 3)}),
        ("UPDATE {t} SET payload = '{{\"n\":7}}' WHERE _id = 'e-3'", {("corrupt", 3)}),
        ("UPDATE {t} SET payload = '{{\"n\":3,\"more\":1}}' WHERE _id = 'e-3'", {("corrupt", 3)}),
        ("UPDATE {t} SET _timestamp = now() WHERE _id = 'e-3'", {("corrupt", 3)}),
        (
            "UPDATE {t} SET payload = replace(payload::text, '890.5', '890.25')::jsonb WHERE _id = 'e-4'",
            {("corrupt", 4)},
        ),
        ("UPDATE {t} SET _offset = 4 WHERE _id = 'e-3'", {("duplicate", 4), ("lost", 3)}),
        (
            "UPDATE {t} SET _offset = _offset + 2 WHERE _offset IN (4)",
            {("double_terminal", 6), ("lost", 4)},
        ),
        ("UPDATE {t} SET _offset = 8 WHERE _id = 'e-3'", {("double_terminal", 8), ("lost", 3)}),
        (
            "UPDATE onramp.totals SET events = events + 1 WHERE outcome = 'landed'",
            {("wrong_total", None), ("unbalanced", None)},
        ),
        (
            "UPDATE onramp.totals SET events = events - 1 WHERE outcome = 'parked'",
            {("wrong_total", None), ("unbalanced", None)},
        ),
        (
            "UPDATE onramp.totals SET events = 2 WHERE outcome = 'duplicate'",
            {("wrong_total", None), ("unbalanced", None)},
        ),
        ("UPDATE onramp.ledger SET next_offset = 99", {("unbalanced", None), ("gap", 10)}),
    ],
)
def test_fault_planted_in_the_database_is_reported_with_its_code_and_offset(
    settled: Stage, plant: str, named: set[tuple[str, int | None]]
) -> None:
    settled.execute(plant.format(t=settled.table))
    assert settled.found() == named


@pytest.mark.parametrize(
    ("plant", "named"),
    [
        ("DELETE FROM {t} WHERE _id = 'e-2'", {("wrong_total", None)}),
        ("UPDATE {t} SET _offset = 4 WHERE _id = 'e-3'", {("duplicate", 4)}),
        (
            "UPDATE onramp.totals SET events = events - 1 WHERE outcome = 'duplicate'",
            {("unbalanced", None)},
        ),
    ],
)
def test_the_totals_alone_see_what_changes_a_sum(
    stage: Stage, plant: str, named: set[tuple[str, int | None]]
) -> None:
    stage.settle(*(event(f"e-{i}", stage.name) for i in range(5)), event("e-0", stage.name))
    stage.execute(plant.format(t=stage.table))
    assert stage.found(deep=False) == named


def test_the_sums_of_a_compacted_topic_are_not_checked(settled: Stage) -> None:
    settled.execute("UPDATE onramp.totals SET events = 3 WHERE outcome = 'duplicate'")  # Kafka had two more
    assert settled.found() == {("wrong_total", None), ("unbalanced", None)}
    with settled.compacted():
        report = settled.audit()
    assert report.findings == []
    assert [sentence.partition(": ")[2] for sentence in report.unchecked] == [
        "compacted, so Kafka has not kept every event that was settled: the sums cannot be checked"
    ]


def test_a_row_of_a_compacted_topic_may_have_lost_its_record(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send_first(stage: Stage, *values: bytes, **_: bool) -> int:
        """Put the marker of a transaction where the second record was before it was compacted."""
        producer = Producer({"bootstrap.servers": stage.bootstrap, "transactional.id": stage.name})
        producer.init_transactions(30)
        producer.begin_transaction()
        topic, number = stage.partition
        producer.produce(topic, values[0], partition=number, headers=CONTEXT)
        producer.commit_transaction(30)
        stage.at += len(values)
        return stage.at - len(values)

    monkeypatch.setattr(Stage, "send", send_first)
    stage.settle(event("a", stage.name), event("b", stage.name))
    assert stage.found() >= {("phantom", 1)}
    with stage.compacted():
        report = stage.audit()
    assert report.findings == []
    unknown, sums = report.unchecked
    assert "the records of 1 rows may have been removed" in unknown
    assert sums.endswith("the sums cannot be checked")


def test_another_event_under_a_landed_id_must_be_parked_not_dropped(settled: Stage) -> None:
    settled.execute(f"UPDATE {settled.table} SET payload = '{{}}' WHERE _id = 'e-0'")  # noqa: S608
    assert settled.found() >= {("corrupt", 0), ("lost", 5)}


def test_a_parked_event_that_never_reached_the_topic_is_missed(settled: Stage) -> None:
    settled.execute(
        "INSERT INTO onramp.totals SELECT topic_id, topic, partition, 'events.elsewhere', 'parked', 1 "
        "FROM onramp.ledger"
    )
    assert ("wrong_total", None) in settled.found()


def test_event_still_in_the_outbox_is_counted_as_parked(stage: Stage) -> None:
    stage.settle(event("a", stage.name), envelope("b", stage.name, BAD))
    stage.execute(
        "INSERT INTO onramp.outbox SELECT topic_id, topic, partition, 1, 'onramp.events.x', '', '{}' "
        "FROM onramp.ledger"
    )
    assert ("wrong_total", None) in stage.found()  # one more is kept than was counted


# --- waiting ----------------------------------------------------------------------------------


def test_events_waiting_behind_a_marker_reconcile(stage: Stage) -> None:
    stage.settle(event("a", stage.name))
    stage.settle(event("b", stage.name), b"no json", event("c", stage.name), divert=True)
    report = stage.audit()
    assert report.findings == []
    (line,) = report.lines
    assert (line.waiting, line.unroutable, line.next_offset) == (2, 1, 4)
    assert stage.audit(deep=False).findings == []


def test_a_marker_that_counts_more_than_waits_is_named(stage: Stage) -> None:
    first = stage.settle(event("a", stage.name), divert=True)
    stage.mark(Range(stage.topic_id, stage.partition, first, first + 1), 2)
    assert stage.found() == {("bad_marker", 0)}


def test_an_event_that_its_marker_forgot_is_lost(stage: Stage) -> None:
    first = stage.send(event("a", stage.name))
    stage.mark(Range(stage.topic_id, stage.partition, first, first + 1), 0)
    stage.commit()
    assert stage.found() == {("lost", 0), ("unbalanced", None)}


def test_a_row_that_waits_as_well_is_in_two_places(stage: Stage) -> None:
    stage.settle(event("a", stage.name))
    stage.settle(event("b", stage.name), divert=True)
    stage.execute(_copy("a", "b", offset="1").format(t=stage.table))
    assert ("double_terminal", 1) in stage.found()


def test_diverted_record_without_a_closing_marker_causes_no_finding(stage: Stage) -> None:
    stage.settle(event("a", stage.name))
    head = {
        "kind": "event",
        "database": "onramp",
        "topic": stage.partition.topic,
        "partition": 0,
        "offset": 0,
    }
    header = (HEADER, orjson.dumps(head))
    publish(Brokers(stage.bootstrap), [Record(wire.SYSTEM_ERRORS, b"k", b"v", (header,))])
    assert stage.found() == set()


def test_events_waiting_in_their_own_database_reconcile_before_and_after_they_land(stage: Stage) -> None:
    stage.settle(event("a", stage.name))
    stage.hold("table", stage.table, "blocked")
    stage.settle(event("b", stage.name), event("c", stage.name))
    report = stage.audit()
    assert (report.findings, report.lines[0].waiting, report.lines[0].outcomes) == ([], 2, {"landed": 1})
    assert stage.audit(deep=False).findings == []
    assert Release(stage.database).run(Routes("onramp")) == []
    report = stage.audit()
    assert (report.findings, report.lines[0].waiting, report.lines[0].outcomes) == ([], 0, {"landed": 3})


def test_a_waiting_event_that_is_gone_is_lost(stage: Stage) -> None:
    stage.settle(event("a", stage.name))
    stage.hold("type", stage.name, "paused")
    stage.settle(event("b", stage.name))
    stage.execute("DELETE FROM onramp.waiting")
    assert stage.found() == {("lost", 1), ("wrong_total", None)}


def test_several_landing_tables_of_one_database_are_kept_apart(stage: Stage) -> None:
    """Two events of one partition in two tables: each row is of its own table."""
    first, second = stage.name, f"{stage.name}_x"
    stage.settle(*(event(f"e-{i}", name) for i in range(3) for name in (first, second)))
    report = stage.audit()
    assert (report.findings, report.lines[0].outcomes) == ([], {"landed": 6})
    stage.execute(f"DELETE FROM events.{first} WHERE _id = 'e-1'")  # noqa: S608
    assert stage.found() == {("lost", 2), ("wrong_total", None)}


def test_the_routes_of_another_writer_of_this_kafka_explain_nothing(stage: Stage) -> None:
    """A repeat and a parked event have no row, and went nowhere else for that."""
    stage.settle(event("a", stage.name), event("a", stage.name), envelope("bad", stage.name, BAD))
    for database in ("onramp", "elsewhere"):
        stage.note_routes(Routes(database))
    report = stage.audit()
    assert (report.findings, report.unchecked) == ([], [])


# --- packets ----------------------------------------------------------------------------------


def _packet(*tables: str) -> bytes:
    named = [{"type": "postgres", "vanity": "onramp", "schema": "public", "table": t} for t in tables]
    return orjson.dumps({"pipeline_context": {"destinations": named}, "data": {"n": 1}})


def test_packets_are_checked_by_their_counts(stage: Stage) -> None:
    stage.execute("CREATE TABLE public.one (n int); CREATE TABLE public.two (n int)")
    stage.settle(_packet("one", "two"), _packet("one"), _packet("nowhere", "one"), _packet())
    report = stage.audit()
    assert report.findings == []
    assert report.lines[0].accounted == 6
    assert any("keeps no receipts" in said for said in report.unchecked)
    stage.execute("UPDATE onramp.totals SET events = events - 1 WHERE destination = 'public.two'")
    assert stage.found() == {("unbalanced", None)}


def _elsewhere(n: int) -> list[bytes]:
    """Packets for `public.one` and for n destinations that are not granted."""
    named = orjson.loads(_packet("one"))["pipeline_context"]["destinations"]
    refused = [named[0] | {"schema": f"closed_{i}"} for i in range(n)]
    context = {"destinations": [refused[0], *named, *refused[1:]]}
    return [orjson.dumps({"pipeline_context": context, "data": {"n": 1}})]


def test_a_refused_destination_of_an_event_that_lands_elsewhere_has_its_place(stage: Stage) -> None:
    stage.execute("CREATE TABLE public.one (n int)")
    stage.settle(*_elsewhere(2), b"no json", event("a", stage.name))
    for deep in (True, False):
        report = stage.audit(deep=deep)
        assert report.findings == []
        (line,) = report.lines
        assert (line.unroutable, line.refused, line.accounted) == (1, 3, 5)
        assert line.outcomes == {"landed": 2}


def test_a_refused_destination_that_never_reached_the_topic_is_missed(stage: Stage) -> None:
    stage.settle(event("a", stage.name))
    stage.note(Totals(1, 0, 0, 1))
    assert ("wrong_total", None) in stage.found(deep=False)
    assert stage.found() == {("wrong_total", None), ("unbalanced", None)}


def test_uncounted_refused_destination_is_reported_as_a_wrong_total(stage: Stage) -> None:
    stage.execute("CREATE TABLE public.one (n int)")
    stage.settle(event("a", stage.name), *_elsewhere(1), b"no json")
    stage.settle(event("b", stage.name))
    stage.note(Totals(4, 0, 1, 1))
    assert stage.found() == {("wrong_total", None), ("unbalanced", None)}


def test_table_unreadable_for_the_audit_role_is_named_and_its_events_are_not_reported_lost(
    stage: Stage,
) -> None:
    stage.settle(event("a", stage.name), event("b", stage.name), event("a", stage.name))
    stage.execute(f"CREATE SCHEMA shut; CREATE TABLE shut.copy (LIKE {stage.table} INCLUDING ALL)")
    role = f"auditor_{secrets.token_hex(4)}"
    stage.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'; GRANT USAGE ON SCHEMA onramp, events TO {role};"
        f"GRANT SELECT ON ALL TABLES IN SCHEMA onramp, shut TO {role}"
    )
    at = urlsplit(stage.dsn)
    dsn = urlunsplit(at._replace(netloc=f"{role}:x@{at.netloc.rpartition('@')[2]}"))
    try:
        asked = ["audit", "--kafka", stage.bootstrap, "--dsn", dsn, "--topics", stage.partition.topic]
        tables = {f"onramp.{stage.table}", "onramp.shut.copy"}
        for how in ("--deep", "--totals"):
            said = json.loads(CliRunner().invoke(app, [*asked, how, "--json"]).output)
            assert (said["findings"], said["balanced"], set(said["unreadable"])) == ([], False, tables)
            named = [why for why in said["unchecked"] if "may not be read" in why]
            assert {why.split()[0] for why in named} == tables
            assert not any("keeps no receipts" in why for why in said["unchecked"])
        shown = CliRunner().invoke(app, [*asked, "--deep"])
        assert shown.exit_code == 4
        assert "NOT ALL CHECKED: no violation, but onramp.events." in shown.output.splitlines()[0]
        stage.execute(f"GRANT SELECT ON {stage.table} TO {role}; GRANT USAGE ON SCHEMA shut TO {role}")
        assert CliRunner().invoke(app, [*asked, "--deep"]).exit_code == 0
    finally:
        stage.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


# --- the command ------------------------------------------------------------------------------


def test_the_command_names_a_violation_and_exits_with_1(settled: Stage) -> None:
    topics = ["--topics", settled.partition.topic]
    said = CliRunner().invoke(app, ["audit", *settled.arguments, *topics])
    assert said.exit_code == 0
    first, *others = said.output.splitlines()
    assert first == "Reconciled: 9 records of 1 partitions (10 receipts read)."
    assert not any(line.startswith(settled.partition.topic) for line in others)
    settled.execute(f"DELETE FROM {settled.table} WHERE _id = 'e-2'")  # noqa: S608
    said = CliRunner().invoke(app, ["audit", *settled.arguments, *topics])
    assert said.exit_code == 1
    assert ["LOST", f"{settled.partition.topic}/0/2"] in [
        line.split()[:2] for line in said.output.splitlines()
    ]
    found = json.loads(CliRunner().invoke(app, ["audit", *settled.arguments, *topics, "--json"]).output)
    assert not found["balanced"]
    assert {"code": "lost", "offset": 2}.items() <= found["findings"][1].items()
