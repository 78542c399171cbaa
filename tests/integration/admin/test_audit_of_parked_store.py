"""Audit of the control database: parked events are stored, replays are known, edits match the rows."""

import asyncio
import gc
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from services.admin.store import edits_sql
from services.admin.store.control_sql import transaction
from services.admin.store.jobs_sql import Plan
from services.ops import totals_sql
from services.ops.audit import parked_store
from services.ops.audit.audit_data import AuditData
from services.ops.audit.collect import collect
from services.ops.audit.parked_store import Comparison, StoreCheck
from services.ops.findings import Code, Report, Source
from services.ops.fixes.steps import Fix
from services.ops.kafka_logs import KafkaLogs
from services.ops.parked_store_sql import StoredRange, opened
from services.writer.model.routes import Routes
from services.writer.replay.replay import Replay
from shared.kafka_security import Brokers
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.writer import event, execute, rows
from tests.integration.admin.conftest import database_beside, disconnect
from tests.integration.admin.job_bench import EVERY, Desk

DROP = Fix([{"drop": "/a"}])
NOT_EDITED = "UPDATE {t} SET payload = '{{\"n\": 1}}' WHERE _offset = 2"
BEFORE = "UPDATE onramp_admin.states SET state = '{}', attempt = 0, job = NULL"
BYTES_OF_1 = '{} WHERE event = (SELECT id FROM onramp_admin.events WHERE "offset" = 1)'
OF_1 = 'UPDATE onramp_admin.parked SET {} WHERE "offset" = 1'
STATE_OF_1 = BYTES_OF_1.format("UPDATE onramp_admin.states SET {}")


def found(desk: Desk, *, deep: bool = True) -> set[tuple[str, int | None]]:
    """The findings' codes and offsets."""
    return {(f.code.value, f.offset) for f in desk.stage.audit(deep=deep, control=desk.dsn).findings}


def replay(desk: Desk, **filters: int) -> None:
    """Replay the events parked for the landing table, except those that the database refuses."""
    desk.start(plan=Plan(fix=DROP.text), **filters)
    desk.work()
    Replay(desk.stage.database).run(Routes("onramp"))
    desk.work()


@pytest.fixture
def replayed(desk: Desk) -> Desk:
    """All five have landed, edited."""
    replay(desk)
    assert desk.states() == [(n, "replayed", 1) for n in EVERY]
    return desk


@pytest.fixture
def restored(desk: Desk, postgres: HasDsn) -> Iterator[Desk]:
    """The same, and then the events' database is one from before the replay."""
    disconnect()
    with database_beside(postgres.dsn, urlsplit(desk.stage.dsn).path.removeprefix("/")) as before:
        replay(desk)
        assert found(desk) == set()
        yield Desk(
            replace(desk.stage, dsn=before), desk.dsn, replace(desk.session, databases={"onramp": before})
        )
        disconnect()


def test_parked_event_is_counted_once_by_its_stored_state(desk: Desk) -> None:
    report = desk.stage.audit(control=desk.dsn)
    assert (report.findings, report.stored, report.not_yet_stored) == ([], {"open": 6}, 0)
    assert report.balanced
    replay(desk, id=2)
    report = desk.stage.audit(control=desk.dsn)
    assert (report.findings, report.unchecked) == ([], [])
    assert report.stored == {"open": 5, "replayed": 1}


def test_parked_events_the_ingester_has_not_reached_are_not_yet_stored_and_no_finding(
    sending_desk: Desk,
) -> None:
    stage = sending_desk.stage
    stage.settle(event("x", stage.name, a="\0"), b"no json either")
    report = stage.audit(control=sending_desk.dsn)
    assert (report.findings, report.not_yet_stored) == ([], 2)
    assert report.balanced


def test_audit_without_a_control_database_reports_no_stored_counts(desk: Desk) -> None:
    report = desk.stage.audit(control=desk.stage.dsn)
    assert (report.findings, report.stored) == ([], None)


@pytest.mark.parametrize(
    ("plant", "named"),
    [
        ('DELETE FROM onramp_admin.parked WHERE "offset" = 1', {("not_stored", 1)}),
        ("DELETE FROM onramp_admin.parked WHERE destination = ''", {("not_stored", 5)}),
        (OF_1.format("sha256 = sha256('x')"), {("corrupt", 1), ("not_stored", 1)}),
        (OF_1.format("sha256 = NULL"), {("corrupt", 1)}),
        (
            OF_1.format("\"offset\" = 0, destination = 'onramp.x.y'"),
            {("not_stored", 1), ("wrong_total", None)},
        ),
        (OF_1.format('"offset" = 9'), {("not_stored", 1)}),
        (STATE_OF_1.format("state = 'discarded'"), {("unattributed", 1)}),
        (STATE_OF_1.format("state = 'replayed'"), {("replay_lost", 1)}),
        (STATE_OF_1.format("state = 'replayed_duplicate'"), {("replay_lost", 1)}),
        (STATE_OF_1.format("state = 'replaying'"), set()),
        (STATE_OF_1.format("gone = true"), set()),
        (BYTES_OF_1.format("UPDATE onramp_admin.bytes SET value = 'x'"), {("not_stored", 1)}),
        (BYTES_OF_1.format("DELETE FROM onramp_admin.bytes"), {("not_stored", 1)}),
    ],
)
def test_fault_planted_in_the_control_database_is_reported(
    desk: Desk, plant: str, named: set[tuple[str, int | None]]
) -> None:
    execute(desk.dsn, plant)
    assert found(desk) == named


def test_every_finding_says_what_it_means_and_what_heals_it(restored: Desk) -> None:
    findings = restored.stage.audit(control=restored.dsn).findings
    assert [(f.code.value, f.offset) for f in findings] == [("replay_lost", n) for n in EVERY]
    assert "onramp.replayed there does not know it" in findings[0].detail
    assert "`onramp errors recheck`" in findings[0].fix


def test_the_totals_alone_name_lost_replays_too(restored: Desk) -> None:
    assert found(restored, deep=False) == {("replay_lost", n) for n in EVERY}


def test_beyond_the_most_of_a_kind_they_are_a_number(restored: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked_store, "MAX_NAMED", 2)
    findings = restored.stage.audit(control=restored.dsn).findings
    assert [(f.offset, f.code.value) for f in findings] == [
        (None, "replay_lost"), (0, "replay_lost"), (1, "replay_lost")
    ]  # fmt: skip
    assert findings[0].detail == "and 3 more events, which are not named"


def test_an_edited_row_is_what_the_edit_made_of_the_event(replayed: Desk) -> None:
    report = replayed.stage.audit(control=replayed.dsn)
    assert (report.findings, report.unchecked) == ([], [])
    replayed.stage.execute(NOT_EDITED.format(t=replayed.stage.table))
    assert found(replayed) == {("corrupt", 2)}


def replay_two_by_hand(desk: Desk, to: str | None = None) -> None:
    """Download two events, edit them by hand, send them back, and have the writer's own code land them."""
    with transaction(desk.dsn) as conn:
        wanted = edits_sql.ids(conn, {"event_name": desk.stage.name})[:2]
        found = edits_sql.lines(conn, None, wanted)
        edited = [line.replace(b'{"a":"\\u0000"}', b'{ "n":%d.50}' % n) for n, line in enumerate(found)]
        upload, _ = edits_sql.keep(conn, None, io.BytesIO(b"".join(edited)), "ann", None)
    desk.start(plan=Plan(is_edited=True, to=to), edits=upload)
    desk.work()
    Replay(desk.stage.database).run(Routes("onramp"))
    desk.work()
    assert [state for _, state, _ in desk.states()] == ["replayed", "replayed", "open", "open", "open"]


@pytest.fixture
def by_hand(desk: Desk) -> Desk:
    """Two events have landed with edited payloads."""
    replay_two_by_hand(desk)
    return desk


def test_an_event_that_was_edited_by_hand_lands_as_it_was_sent_back(by_hand: Desk) -> None:
    [first, second] = by_hand.stage.rows(f"SELECT payload::text FROM {by_hand.stage.table} ORDER BY _offset")  # noqa: S608
    assert (first, second) == (('{"n": 0.50}',), ('{"n": 1.50}',))
    report = by_hand.stage.audit(control=by_hand.dsn)
    assert (report.findings, report.unchecked) == ([], [])


def test_a_row_that_is_not_what_was_sent_back_is_named(by_hand: Desk) -> None:
    by_hand.stage.execute(f"UPDATE {by_hand.stage.table} SET payload = '{{\"n\": 0.50}}' WHERE _offset = 1")  # noqa: S608
    assert found(by_hand) == {("corrupt", 1)}


def test_an_edited_row_in_another_table_is_compared_too(desk: Desk) -> None:
    table = desk.stage.table.rpartition(".")[0] + ".by_hand"
    desk.stage.execute(f"CREATE TABLE {table} (LIKE {desk.stage.table} INCLUDING ALL)")
    replay_two_by_hand(desk, to=table)
    assert desk.stage.rows(f"SELECT payload->>'n' FROM {table} ORDER BY 1") == [("0.50",), ("1.50",)]  # noqa: S608
    assert desk.stage.rows(f"SELECT FROM {desk.stage.table} WHERE _offset < 2") == []
    report = desk.stage.audit(control=desk.dsn)
    assert (report.findings, report.unchecked) == ([], [])
    desk.stage.execute(f"UPDATE {table} SET payload = '{{\"n\": 0.50}}' WHERE _offset = 1")  # noqa: S608
    assert found(desk) == {("corrupt", 1)}


def test_deleted_manual_edit_is_listed_as_unchecked_and_causes_no_finding(by_hand: Desk) -> None:
    execute(by_hand.dsn, "DELETE FROM onramp_admin.edits")
    report = by_hand.stage.audit(control=by_hand.dsn)
    assert report.findings == []
    assert "2 edited rows" in report.unchecked[0]


def test_edit_unknown_to_the_control_database_is_unchecked_and_causes_no_finding(replayed: Desk) -> None:
    replayed.stage.execute(NOT_EDITED.format(t=replayed.stage.table))
    replayed.stage.execute("UPDATE onramp.replayed SET sha256 = sha256('x') WHERE \"offset\" = 2")
    report = replayed.stage.audit(control=replayed.dsn)
    assert report.findings == []
    assert "1 edited rows" in report.unchecked[0]
    assert "5 edited rows" in replayed.stage.audit().unchecked[0]


def test_a_control_database_of_before_a_replay_is_contradicted_and_a_replay_heals_it(replayed: Desk) -> None:
    for state in ("discarded", "open"):
        execute(replayed.dsn, BEFORE.format(state))
        assert {("double_terminal", n) for n in EVERY} <= found(replayed)
    replay(replayed)
    assert replayed.states() == [(n, "replayed", 1) for n in EVERY]
    assert found(replayed) == set()
    assert replayed.stage.rows(f"SELECT count(*)::int FROM {replayed.stage.table}") == [(5,)]  # noqa: S608


def test_a_log_that_was_recreated_is_kept_from_its_start(desk: Desk) -> None:
    execute(desk.dsn, "UPDATE onramp_admin.consumed SET next_offset = next_offset + 1000000")
    execute(desk.dsn, 'DELETE FROM onramp_admin.parked WHERE "offset" = 1')
    report = desk.stage.audit(control=desk.dsn)
    assert (report.findings, report.not_yet_stored) == ([], 1)


def test_outbox_event_on_its_way_to_the_topic_is_not_yet_stored(desk: Desk) -> None:
    desk.stage.execute("UPDATE onramp.totals SET events = events + 1 WHERE outcome = 'parked'")
    assert ("wrong_total", None) in found(desk)
    [(destination,)] = rows(desk.dsn, 'SELECT destination FROM onramp_admin.events WHERE "offset" = 1')
    columns = "topic_id, topic, partition"
    desk.stage.execute(
        f'INSERT INTO onramp.outbox ({columns}, "offset", destination, error) '  # noqa: S608
        f"SELECT {columns}, 5, '{destination}', '{{}}' FROM onramp.ledger"
    )
    report = desk.stage.audit(control=desk.dsn, deep=False)
    assert report.not_yet_stored == 1
    assert {f.detail for f in report.findings if "control database" in f.detail} == set()


def test_collected_audit_data_has_offsets_of_parked_events_and_no_values(desk: Desk) -> None:
    async def collected() -> AuditData:
        async with KafkaLogs(Brokers(desk.stage.bootstrap)) as logs:
            return await collect(logs, {}, re.compile(re.escape(desk.stage.partition.topic)))

    data = asyncio.run(collected())
    assert sorted(event.offset for event in data.parked.values()) == [*EVERY, 5]
    reached: dict[int, object] = {}
    ahead: list[object] = [data.parked]
    while ahead:
        here = ahead.pop()
        if id(here) not in reached and not isinstance(here, type):
            reached[id(here)] = here
            ahead += gc.get_referents(here)
    texts = [str(each) for each in reached.values() if isinstance(each, bytes | str)]
    assert [text for text in texts if "metadata" in text or "no json" in text] == []


def test_a_database_whose_name_continues_another_ones_is_checked_by_itself(desk: Desk) -> None:
    """The parked events' destinations are `onramp.events.<type>`."""
    where = StoredRange(Source(*desk.stage.partition), 0, 9, "onramp")
    with opened(desk.dsn) as store:
        assert store is not None
        assert store.count([where], {"onramp", "other"}) == [{"open": 5}]
        longer = {"onramp", "onramp.events"}
        assert store.count([where, where._replace(database="onramp.events")], longer) == [{}, {"open": 5}]


def test_replays_of_a_retired_database_are_not_lost_in_the_one_whose_name_it_continues(desk: Desk) -> None:
    execute(desk.dsn, BEFORE.format("replayed"))  # onramp.replayed knows none of them
    topic, report = re.compile(re.escape(desk.stage.partition.topic)), Report()

    async def collected() -> AuditData:
        async with KafkaLogs(Brokers(desk.stage.bootstrap)) as logs:
            with totals_sql.opened("onramp", desk.stage.dsn) as snapshot:
                return await collect(logs, {"onramp": snapshot}, topic)

    data = replace(asyncio.run(collected()), closed={"onramp.events": None})
    with opened(desk.dsn) as store:
        assert store is not None
        StoreCheck(store, store, Comparison(store, topic)).run(data, report, deep=False)
    lost = [f.offset for f in report.findings if f.code is Code.REPLAY_LOST]
    assert (lost, report.unchecked) == ([5], [])  # the refused event, which no database's name tells
