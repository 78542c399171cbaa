"""The writer's metrics: totals from databases, bounded labels, and ages that end."""

import time
from typing import Any

import httpx2
import pytest

from services.writer.model.timings import StepTimings
from services.writer.observe import lag
from services.writer.observe import status as module
from services.writer.observe.database_stats import DatabaseSizes, DatabaseStats
from services.writer.observe.lag import Lag
from services.writer.observe.metrics import Metrics
from services.writer.observe.series import Series
from services.writer.observe.status import Status
from services.writer.observe.status_server import StatusServer
from services.writer.settle.work_order import TaskReport
from shared import new_counters
from shared.kafka_read.offsets import Partition
from shared.path_steps import Step


def page(of: Status | Metrics) -> dict[str, float]:
    text = of.page() if isinstance(of, Status) else of.series.page()
    lines = [line for line in text.decode().splitlines() if line[0] != "#"]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def readyz(status: Status) -> tuple[int, dict[str, Any]]:
    server = StatusServer(status, "127.0.0.1", 0).start()
    try:
        answer = httpx2.get(f"http://127.0.0.1:{server.port}/readyz", timeout=60)
        return answer.status_code, answer.json()
    finally:
        server.stop()


def reading(landed: int) -> DatabaseStats:
    totals = {("events.a", "events.a", "landed"): landed, ("packets", "public.t", "parked"): 2}
    return DatabaseStats(totals, {("public.t", "unkeyed"): 7}, {"idle": 3})


def counted(totals: dict[tuple[str, str, str], int]) -> DatabaseStats:
    return DatabaseStats(totals, {}, {})


def rows_of(step: str, topic: str, other: str = "") -> str:
    where = f'database="{other}",event_type="{other}",step="{step}",table="{other}",topic="{topic}"'
    return f"onramp_writer_step_rows_total{{{where}}}"


def test_database_counts_are_shown_unchanged_however_often_they_are_read() -> None:
    status = Status()
    for landed in (10, 10, 25, 20):  # the last one is older: a counter never goes back
        status.update_database("db", reading(landed))
    status.update_sizes("db", DatabaseSizes(waiting=(5, 1000.0)))
    status.update_connections({"db": {"idle": 3}})
    found = page(status)
    where = 'database="db",event_type="a",outcome="landed",step="persist",table="events.a",topic="events.a"'
    assert found[f"onramp_writer_events_total{{{where}}}"] == 25
    where = 'database="db",event_type="",outcome="parked",step="persist",table="public.t",topic="packets"'
    assert found[f"onramp_writer_events_total{{{where}}}"] == 2
    assert found['onramp_writer_warnings_total{database="db",kind="unkeyed",table="public.t"}'] == 7
    assert found['onramp_writer_connections{database="db",state="idle"}'] == 3
    assert found['onramp_writer_connections{database="db",state="active"}'] == 0
    assert found['onramp_writer_waiting_events{database="db",where="database"}'] == 5
    assert found['onramp_writer_oldest_waiting_seconds{database="db",where="database"}'] > 1e9


def test_events_that_no_database_counts_are_labelled_with_their_step() -> None:
    status = Status()
    status.update_undecided({(Step.FILTER, "events.a", "filtered"): 3, (Step.SORT, "events.a", "refused"): 2})
    found = page(status)
    for outcome, step, n in (("filtered", "filter", 3), ("refused", "sort", 2)):
        where = f'database="",event_type="a",outcome="{outcome}",step="{step}",table="",topic="events.a"'
        assert found[f"onramp_writer_events_total{{{where}}}"] == n


def test_above_a_bound_series_are_shown_together() -> None:
    metrics = Metrics(max_series=2)
    for n, topic in enumerate("abcdab"):
        metrics.series.count(metrics.step_rows, ("sort", topic, "", "", ""), n)
    shown = {name: n for name, n in page(metrics).items() if name.startswith("onramp_writer_step_rows")}
    assert len(shown) == 3
    assert sum(shown.values()) == 15
    assert shown[rows_of("sort", "other")] == 2 + 3

    ages = {("a", "0"): 1.0, ("b", "0"): 2.0, ("c", "0"): 9.0, ("d", "0"): 4.0}
    metrics.series.show(metrics.lag_seconds, ages, max)
    assert page(metrics)['onramp_writer_lag_seconds{partition="other",topic="other"}'] == 9


def test_above_the_bound_step_database_and_outcome_are_themselves() -> None:
    status = Status()
    status.metrics.series = Series(status.metrics.registry, 2)
    status.update_database("db", counted({}))
    for n in range(5):
        landed = {(f"events.{i}", f"events.{i}", "landed"): 1 for i in range(n)}
        status.update_database("db", counted(landed))
    parked = {("packets", "public.t", "parked"): 99}
    status.update_database("db", counted(parked))
    page(status)
    found = page(status)
    where = 'database="db",event_type="",outcome="parked",step="persist",table="other",topic="other"'
    assert found[f"onramp_writer_events_total{{{where}}}"] == 99
    where = 'database="db",event_type="other",outcome="landed",step="persist",table="other",topic="other"'
    assert found[f"onramp_writer_events_total{{{where}}}"] == 2


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the counters; a test sets its only entry."""
    now = [1000.0]
    monkeypatch.setattr(new_counters.time, "monotonic", lambda: now[0])
    return now


def test_counter_that_begins_during_the_process_is_shown_at_0_first(clock: list[float]) -> None:
    status = Status(new_counter_seconds=60.0)
    before = {("events.a", "events.a", "landed"): 10}
    status.update_database("db", counted(before))
    where = 'database="db",event_type="a",outcome="{}",step="persist",table="events.a",topic="events.a"'
    landed, parked = (f"onramp_writer_events_total{{{where.format(o)}}}" for o in ("landed", "parked"))
    # The ledger's own totals are no increase of a restart.
    assert page(status)[landed] == 10
    for n in (99, 120):
        now = before | {("events.a", "events.a", "parked"): n}
        status.update_database("db", counted(now))
    assert [page(status)[parked] for _ in range(3)] == [0, 0, 0]
    clock[0] += 60.0
    assert page(status)[parked] == 120
    status.update_database("db", counted(now | {("events.a", "events.a", "parked"): 121}))
    assert page(status)[parked] == 121


def test_the_first_filtered_event_of_a_topic_is_an_increase(clock: list[float]) -> None:
    status = Status(new_counter_seconds=60.0)
    where = 'database="",event_type="a",outcome="filtered",step="filter",table="",topic="events.a"'
    filtered = f"onramp_writer_events_total{{{where}}}"
    for n in (0, 3):
        status.update_undecided({(Step.FILTER, "events.a", "filtered"): n})
    assert page(status)[filtered] == 0
    clock[0] += 60.0
    assert page(status)[filtered] == 3


def test_the_first_failed_batches_of_a_code_are_an_increase(clock: list[float]) -> None:
    status = Status(new_counter_seconds=60.0)
    failed = 'onramp_writer_failed_batches_total{code="kafka_unavailable"}'
    for _ in range(6):
        status.update_trouble("kafka_unavailable", "no broker answers")
    assert [page(status)[failed] for _ in range(2)] == [0, 0]
    clock[0] += 60.0
    assert page(status)[failed] == 6
    status.update_trouble("kafka_unavailable", "no broker answers")
    assert page(status)[failed] == 7


def test_a_partition_that_is_let_go_shows_no_lag_and_leaves_its_place() -> None:
    metrics = Metrics(max_series=2)
    metrics.series.show(metrics.lag_seconds, {("a", "0"): 1.0, ("b", "0"): 2.0, ("c", "0"): 3.0}, max)
    metrics.series.show(metrics.lag_seconds, {("b", "0"): 5.0, ("c", "0"): 6.0}, max)
    shown = {name: n for name, n in page(metrics).items() if name.startswith("onramp_writer_lag_seconds")}
    assert shown == {
        'onramp_writer_lag_seconds{partition="0",topic="b"}': 5,
        'onramp_writer_lag_seconds{partition="0",topic="c"}': 6,
    }


def test_work_of_tasks_is_summed_by_step_and_table() -> None:
    status, watch = Status(), StepTimings()
    for rows in (10, 5):
        with watch.timed(Step.PERSIST, {"events.a"}, rows, database="db", table="events.a"):
            pass
    with watch.timed(Step.SORT, {"events.a", "events.b"}, 20):
        pass
    status.update_steps([TaskReport("events.a", 0, work=watch.as_json()), TaskReport("events.b", 0)])
    found = page(status)
    where = 'database="db",event_type="a",step="persist",table="events.a",topic="events.a"'
    assert found[f"onramp_writer_step_rows_total{{{where}}}"] == 15
    assert found[rows_of("sort", "")] == 20


def test_lag_waiting_and_age_are_shown_and_go_away() -> None:
    status, p = Status(), Partition("events.a", 0)
    status.update({"db": "out"}, {})
    status.update_lag({p: Lag(7, 1000.0)})
    status.update_waiting({"db": (3, 1000.0)})
    found = page(status)
    assert found['onramp_writer_lag_events{partition="0",topic="events.a"}'] == 7
    assert found['onramp_writer_lag_seconds{partition="0",topic="events.a"}'] > 1e9
    assert found['onramp_writer_waiting_events{database="db",where="kafka"}'] == 3
    assert found['onramp_writer_oldest_waiting_seconds{database="db",where="kafka"}'] > 1e9
    status.update_waiting({"db": (0, None)})
    assert page(status)['onramp_writer_oldest_waiting_seconds{database="db",where="kafka"}'] == 0


def test_an_age_is_the_readings_own_until_the_next_one_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    status, p, read = Status(), Partition("events.a", 0), time.time()
    status.update_lag({p: Lag(7, read - 0.25)})
    read = status._lag_read
    shown = []
    for later in (4, 14, 16, 60):
        monkeypatch.setattr(lag, "time", lambda later=later: read + later)
        shown.append(round(page(status)['onramp_writer_lag_seconds{partition="0",topic="events.a"}'], 1))
    assert shown[0] == shown[1] < 1
    assert [int(each) for each in shown[2:]] == [16, 60]


def test_a_clock_that_was_set_back_makes_no_age_and_no_count_less_than_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, p, now = Status(), Partition("events.a", 0), time.time()
    status.update({"db": "out"}, {})
    status.update_lag({p: Lag(7, now)})
    status.update_waiting({"db": (3, now)})
    for watch in (module, lag):
        monkeypatch.setattr(watch, "time", lambda: now - 3600)
    status.update({"db": "out"}, {})
    status.update_waiting({"db": (3, now)})
    found = page(status)
    assert found['onramp_writer_lag_seconds{partition="0",topic="events.a"}'] == 0
    assert found['onramp_writer_oldest_waiting_seconds{database="db",where="kafka"}'] == 0
    assert [series for series, value in found.items() if value < 0] == []


def test_the_registry_that_holds_is_shown_and_no_older_one() -> None:
    status = Status()
    status.update_registry("old")
    status.update_registry("new")
    shown = {series: value for series, value in page(status).items() if "registry_info" in series}
    assert shown == {'onramp_registry_info{digest="new"}': 1.0}


def test_records_are_at_0_before_the_first_batch() -> None:
    shown = {series: n for series, n in page(Status()).items() if series.startswith("onramp_writer_records")}
    assert {'onramp_writer_records_total{result="read"}': 0.0}.items() <= shown.items()
    assert set(shown.values()) == {0.0}


def test_a_registry_that_is_refused_is_shown_as_long_as_it_is() -> None:
    status = Status()
    for is_valid in (True, False, True):
        status.update_registry("digest", is_valid=is_valid)
        assert page(status)["onramp_registry_refused"] == (not is_valid)


def test_the_loop_shows_when_it_last_turned_or_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    status = Status()
    assert page(status)["onramp_writer_loop_timestamp_seconds"] == 0
    monkeypatch.setattr(module, "time", lambda: 1000.0)
    status.update({"db": "landing"}, {})
    assert page(status)["onramp_writer_loop_timestamp_seconds"] == 1000
    monkeypatch.setattr(module, "time", lambda: 2000.0)
    assert page(status)["onramp_writer_loop_timestamp_seconds"] == 1000  # a look is no turn
    status.update_trouble("kafka_unavailable", "it is out")
    assert page(status)["onramp_writer_loop_timestamp_seconds"] == 2000


def test_parked_events_that_stay_in_an_outbox_are_a_number_and_a_remark_as_long_as_they_stay() -> None:
    status = Status()
    status.update({"db": "landing", "other": "landing"}, {})
    for events, said in ((2, ["db"]), (0, [])):
        status.update_sizes("db", DatabaseSizes(too_large=events))
        status.update_sizes("other", DatabaseSizes())
        assert page(status)['onramp_writer_too_large_events{database="db"}'] == events
        assert page(status)['onramp_writer_too_large_events{database="other"}'] == 0
        code, shown = readyz(status)
        assert (code, shown["status"], shown["reason"]) == (200, "consuming", None)
        assert list(shown["warnings"]) == said


def test_database_outbox_and_size_are_shown_with_the_time_of_the_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status = Status()
    monkeypatch.setattr(module, "time", lambda: 1000.0)
    status.update_database("db", reading(0))
    status.update_sizes("db", DatabaseSizes(outbox=3, size_bytes=8_000_000))
    monkeypatch.setattr(module, "time", lambda: 2000.0)
    found = page(status)
    assert found['onramp_writer_outbox_events{database="db"}'] == 3
    assert found['onramp_writer_database_size_bytes{database="db"}'] == 8_000_000
    assert found['onramp_writer_database_read_timestamp_seconds{database="db"}'] == 1000


def test_whether_kafka_answers_and_when_it_last_did(monkeypatch: pytest.MonkeyPatch) -> None:
    status = Status()
    reachable, answered = "onramp_writer_kafka_reachable", "onramp_writer_kafka_answered_timestamp_seconds"
    assert (page(status)[reachable], page(status)[answered]) == (0, 0)
    for now, answers, shown in ((1000.0, True, (1, 1000)), (2000.0, False, (0, 1000))):
        monkeypatch.setattr(module, "time", lambda now=now: now)
        status.update_kafka(reachable=answers)
        assert (page(status)[reachable], page(status)[answered]) == shown
