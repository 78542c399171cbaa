"""The waiting report names each waiting event's next step, and each query that failed."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from services.ops.operate.holds_sql import Hold
from services.ops.operate.unsettled_offsets import Unsettled
from services.ops.waiting_report import UnsettledReading, WaitingHold, WaitingReport, collect_waiting
from services.writer.observe.status import Status
from services.writer.observe.status_server import StatusServer
from shared.kafka_security import Brokers

NO_BROKER = Brokers("127.0.0.1:1")
NO_DATABASE = "host=127.0.0.1 port=1"


@pytest.fixture
def writer() -> Iterator[str]:
    """The address of a writer with an unreachable database, for which seven events wait on Kafka."""
    status = Status()
    status.update({"a": "landing", "b": "out"}, {})
    status.update_reasons({"b": "connection refused"})
    status.update_waiting({"b": (7, 1.0)})
    server = StatusServer(status, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


def test_databases_come_from_the_writer_and_failed_queries_are_problems(writer: str) -> None:
    report = asyncio.run(collect_waiting(NO_BROKER, {"b": NO_DATABASE}, [writer]))
    [database] = report.databases
    assert (database.database, database.state, database.waiting) == ("b", "out", 7)
    assert database.reason == "connection refused"
    assert database.next_step.startswith("the writer tries again by itself")
    assert database.since is not None
    assert database.oldest is not None
    assert not report.is_whole
    assert len(report.problems) == 2
    assert any(
        each.startswith("database b") and each.endswith("holds are unknown") for each in report.problems
    )


def test_the_writer_that_lands_is_reported_and_not_one_on_standby_or_down(writer: str) -> None:
    standby = Status()
    standby.update_standby("onramp")
    server = StatusServer(standby, "127.0.0.1", 0).start()
    try:
        writers = ["http://127.0.0.1:1", f"http://127.0.0.1:{server.port}", writer]
        report = asyncio.run(collect_waiting(NO_BROKER, {}, writers))
    finally:
        server.stop()
    assert [each.database for each in report.databases] == ["b"]
    assert not any("onramp writer" in each for each in report.problems)


def test_without_a_writer_the_report_is_not_whole() -> None:
    report = asyncio.run(collect_waiting(NO_BROKER, {}, ["http://127.0.0.1:1"]))
    assert report.is_empty
    assert not report.is_whole
    assert any("start it with `onramp writer`" in each for each in report.problems)
    report = asyncio.run(collect_waiting(NO_BROKER, {}, []))
    assert any("ONRAMP_WRITER_URLS" in each for each in report.problems)


def test_offsets_of_a_reading_need_no_client_of_kafka() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    topic = Unsettled(topic="events.a", offsets=3, oldest_ms=0, hours=1.26, by_size=False)
    read = UnsettledReading(at=at, topics=[topic])

    async def read_offsets() -> UnsettledReading:
        return read

    report = asyncio.run(collect_waiting(NO_BROKER, {}, [], read_offsets=read_offsets))
    assert (report.unsettled, report.unsettled_at) == ([topic], at)
    assert [each for each in report.problems if "ONRAMP_WRITER_URLS" not in each] == []
    read = replace(read, problem="Kafka cannot be read", is_whole=False)
    report = asyncio.run(collect_waiting(NO_BROKER, {}, [], read_offsets=read_offsets))
    assert (report.unsettled, report.is_whole) == ([topic], False)
    assert "Kafka cannot be read" in report.problems


def test_the_document_has_iso_times() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    hold = WaitingHold(
        hold=Hold("a", "type", "order", "paused", None, at, 3, None), reason="r", next_step="n"
    )
    topic = Unsettled(topic="events.a", offsets=3, oldest_ms=0, hours=1.26, by_size=False)
    report = WaitingReport(holds=[hold], databases=[], unsettled=[topic], problems=[], is_whole=True)
    assert report.as_dict() == {
        "holds": [
            {"database": "a", "kind": "type", "name": "order", "state": "paused", "sqlstate": None}
            | {"since": "2026-01-02T00:00:00+00:00", "waiting": 3, "oldest": None, "why": "r", "next": "n"}
        ],
        "databases": [],
        "unsettled": [
            {"topic": "events.a", "offsets": 3, "oldest": "1970-01-01T00:00:00+00:00"}
            | {"deleted_in_hours": 1.3, "deleted_by_size": False}
        ],
    }
