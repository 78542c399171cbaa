"""Audit of partly landed transactions: each change is lost, parked, waiting or in flight."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, cast

import psycopg2

from services.cdc.agent.source_state_sql import prepared
from services.ops import totals_sql
from services.ops.findings import Code, Report, Source
from services.ops.kafka_logs import KafkaLogs
from services.ops.transactions.check import check_transactions
from tests.fixtures.changes import Stream
from tests.fixtures.writer import arrivals
from tests.integration.cdc.merge_bench import ROUTES, TOPIC, Desk

LANDING = f"landing.{Stream().landing}"
#: Of two transactions the first one, by its place in the log, and the commit that its END names.
FIRST, LAST = 1000, 1100


def sold(*, unfit: int = -1, of: int = 3) -> Stream:
    """A transaction of three rows, and one of as many behind it; jsonb cannot hold the row `unfit`."""
    stream = Stream()
    for n in range(2 * of):
        stream.insert(id=n, note="\0" if n == unfit else "a")
        if n == of - 1:
            stream.commit()
    return stream


def audited(desk: Desk, *, end: int = -1, most: int = 100, deep: bool | None = True) -> Report:
    """The audit of transactions alone; `end`: where Kafka's log of the table ends, if more is to land."""
    spans = {Source(*TOPIC): (0, desk.next_offset if end < 0 else end)}
    report = Report()
    with totals_sql.opened("onramp", desk.bench.dsn) as snapshot:
        databases = {"onramp": snapshot}
        asyncio.run(check_transactions(logs_of(spans), databases, report, deep=deep, limit=most))
    return report


def logs_of(spans: Mapping[Source, tuple[int, int]]) -> KafkaLogs:
    """The part of Kafka's logs that these tests need."""

    class Logs:
        async def topics(self) -> list[str]:
            return [source.topic for source in spans]

        async def spans(self, topics: Iterable[str]) -> Mapping[Source, tuple[int, int]]:
            asked = set(topics)
            return {source: span for source, span in spans.items() if source.topic in asked}

    return cast("KafkaLogs", Logs())


def lose(desk: Desk, where: str) -> None:
    desk.bench.execute(f"DELETE FROM {LANDING} WHERE {where}")  # noqa: S608


def confirm(desk: Desk, lsn: int) -> None:
    """The agent saw that Kafka has all of the source up to there."""
    prepared(desk.bench.dsn).close()
    desk.bench.execute(
        "INSERT INTO onramp_agent.sources (source, dsn_env, state, confirmed_lsn) "  # noqa: S608
        f"VALUES ('shop', 'X', 'streaming', '0/0'::pg_lsn + {lsn})"
    )


def told(report: Report) -> tuple[list[Any], list[str]]:
    """Return the transactions with lost changes, and the parts that were not checked."""
    assert {finding.code for finding in report.findings} <= {Code.LOST}
    return [finding.detail.split()[1] for finding in report.findings], report.unchecked


def outstanding(n: int) -> str:
    return f"{n} changes of app.orders of shop are parked or wait, and have not landed"


def test_parked_change_is_not_lost_until_the_totals_count_it_as_replayed(desk: Desk) -> None:
    stream = sold(unfit=1)
    desk.tell().land(stream).land_ends(stream.ends())
    assert told(audited(desk)) == ([], [outstanding(1)])
    desk.bench.execute(
        "INSERT INTO onramp.totals (topic_id, topic, partition, destination, outcome, events) "
        "SELECT topic_id, topic, partition, destination, 'replayed', events FROM onramp.totals "
        "WHERE outcome = 'parked'"
    )
    assert told(audited(desk)) == ([str(FIRST)], [])


def test_beside_what_is_parked_one_that_is_lost_is_a_finding(desk: Desk) -> None:
    stream = sold(unfit=1)
    desk.tell().land(stream).land_ends(stream.ends())
    lose(desk, "_offset = 2")
    assert told(audited(desk)) == ([str(FIRST)], [])


def test_changes_that_wait_in_the_database_are_not_lost(desk: Desk) -> None:
    stream = sold()
    desk.tell().land(stream.values[:3]).land_ends(stream.ends())
    with closing(psycopg2.connect(desk.bench.dsn)) as locking, locking.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {LANDING}")
        batch = arrivals(stream.values[3:], first=3, partition=TOPIC)
        quick = {"lock_timeout_ms": 50}
        desk.bench.settle(batch, routes=ROUTES, topic_id=desk.topic_id, settings=quick)
        locking.rollback()
    assert desk.bench.one("SELECT count(*) FROM onramp.waiting") == 3
    desk.next_offset = 6
    confirm(desk, LAST + 100)
    assert told(audited(desk)) == ([], [outstanding(3)])
    desk.bench.execute("DELETE FROM onramp.waiting")
    assert told(audited(desk)) == ([str(LAST)], [])


def test_a_change_is_lost_when_kafka_had_it_and_all_that_kafka_has_has_landed(desk: Desk) -> None:
    desk.tell().land(sold()).land_ends(sold().ends())
    lose(desk, "_offset = 5")
    still = "1 transactions of shop have changes of app.orders that are still on their way"
    assert told(audited(desk)) == ([], [still]), "nobody saw that Kafka has it"
    confirm(desk, LAST + 99)
    assert told(audited(desk)) == ([], [still]), "its commit lies further on"
    desk.bench.execute("UPDATE onramp_agent.sources SET confirmed_lsn = confirmed_lsn + 1")
    assert told(audited(desk, end=desk.next_offset + 1)) == ([], [still]), "it may be what lands next"
    assert told(audited(desk)) == ([str(LAST)], [])


def test_changes_of_a_deleted_topic_are_not_reported_lost(desk: Desk) -> None:
    desk.tell().land(sold()).land_ends(sold().ends())
    desk.make_topic_again().begin_again(by_a_resync=True)
    assert desk.bench.one(f"SELECT count(*) FROM {LANDING}") == 0  # noqa: S608
    assert told(audited(desk)) == ([], [])
    later = (
        Stream(at=LAST + 100).insert(id=7, note="a").commit().insert(id=8, note="b").insert(id=9, note="c")
    )
    desk.land(later).land_ends(later.ends())
    lose(desk, "_offset = 2")
    confirm(desk, LAST + 1000)
    assert told(audited(desk)) == ([str(LAST + 200)], [])


def test_transactions_of_a_large_landing_table_are_counted_only_on_request(desk: Desk) -> None:
    desk.tell().land(sold()).land_ends(sold().ends())
    lose(desk, "_offset = 1")
    desk.bench.execute("ANALYZE")
    missing = "onramp: changes of sources were not counted by transaction: --deep counts them"
    assert told(audited(desk, deep=None, most=8)) == ([], [missing])
    assert told(audited(desk, deep=False)) == ([], [missing])
    assert told(audited(desk, deep=None, most=9)) == ([str(FIRST)], [])
    assert told(audited(desk, most=0)) == ([str(FIRST)], [])
