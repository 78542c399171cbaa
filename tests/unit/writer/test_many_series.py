"""Many names and odd ones: a page is bounded, can be read, and is made while the loop counts."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from services.writer.model import commit_delays
from services.writer.model.commit_delays import BOUNDS, CommitDelays
from services.writer.model.targets import Target
from services.writer.model.timings import StepTimings
from services.writer.observe.database_stats import DatabaseStats
from services.writer.observe.lag import Lag, OpenTransaction
from services.writer.observe.status import Status
from services.writer.persist import landing_tables
from services.writer.settle.work_order import TaskReport
from shared.kafka_read.offsets import Partition
from shared.path_steps import Step

#: So many series are no burden to Prometheus.
MAX = 6000
TURNS = range(200)
OUTCOMES = ("landed", "duplicate", "parked")


def samples(status: Status) -> list[Sample]:
    status.page()  # counts what is no longer new
    families = text_string_to_metric_families(status.page().decode())
    return [sample for family in families for sample in family.samples]


def busy(types: int, partitions: int) -> Status:
    """A writer that has seen so many event types do everything that is counted."""
    status = Status()
    names = [f"type_{n}" for n in range(types)]
    status.update({"db": "landing"}, {})
    status.update_lag({Partition(f"events.{n}", p): Lag(1, 1.0) for n in names for p in range(partitions)})
    status.update_database("db", DatabaseStats({}, {}, {}))
    totals = {(f"events.{n}", f"events.{n}", o): 10 for n in names for o in OUTCOMES}
    remarks = {(f"events.{n}", "unkeyed"): 1 for n in names}
    status.update_database("db", DatabaseStats(totals, remarks, {"idle": 3}))
    kinds = ((Step.FILTER, "filtered"), (Step.SORT, "unroutable"), (Step.SORT, "refused"))
    status.update_undecided({(step, f"events.{n}", o): 0 for n in names for step, o in kinds})
    status.update_undecided({(step, f"events.{n}", o): 1 for n in names for step, o in kinds})
    status.update_steps([TaskReport("t", 0, work=steps_of(names).as_json())])
    delays = [CommitDelays("db", f"events.{n}", f"events.{n}", [1] * (len(BOUNDS) + 1), 1.0) for n in names]
    status.count_landed([TaskReport("t", 0, delays=commit_delays.as_json(delays))])
    return status


def steps_of(names: list[str]) -> StepTimings:
    timings = StepTimings()
    for n in names:
        with timings.timed(Step.PERSIST, {f"events.{n}"}, 1, database="db", table=f"events.{n}"):
            pass
    for step in (Step.FILTER, Step.SORT):
        with timings.timed_by_topic(step, {f"events.{n}": 1 for n in names}):
            pass
    return timings


def total(found: list[Sample], name: str) -> float:
    return sum(each.value for each in found if each.name == name)


def test_500_types_of_6_partitions_have_a_bounded_page_on_which_nothing_is_missing() -> None:
    found = samples(busy(500, 6))
    assert len(found) <= MAX
    assert total(found, "onramp_writer_lag_events") == 500 * 6
    assert total(found, "onramp_writer_events_total") == 500 * (3 * 10 + 3)
    assert total(found, "onramp_writer_step_rows_total") == 500 * 3
    assert total(found, "onramp_writer_received_to_committed_seconds_count") == 500 * (len(BOUNDS) + 1)
    assert {s.labels["outcome"] for s in found if s.name == "onramp_writer_events_total"} == {
        *OUTCOMES,
        "filtered",
        "unroutable",
        "refused",
    }


def test_10_000_names_are_no_longer_page() -> None:
    status = busy(1_000, 1)
    totals = {(f"events.type_{n}", f"events.type_{n}", "landed"): 10 for n in range(10_000)}
    status.update_database("db", DatabaseStats(totals, {}, {}))
    status.update_open_transactions({Partition("a", n): OpenTransaction(0, 0.0) for n in range(1_000)})
    found = samples(status)
    assert len(found) <= MAX
    assert total(found, "onramp_writer_events_total") == 10_000 * 10 + 1_000 * (2 * 10 + 3)


def test_a_name_with_quotes_and_lines_is_one_label() -> None:
    odd = 'public.a"b\nc\\d{e}="f",g 1'
    status = Status()
    status.update_database("db", DatabaseStats({("packets", odd, "landed"): 3}, {}, {}))
    (found,) = (s for s in samples(status) if s.name == "onramp_writer_events_total")
    assert (found.labels["table"], found.value) == (odd, 3)


def test_records_of_1970_and_of_2100_are_late_by_what_can_be_and_by_nothing() -> None:
    moments = pa.array([0, 4_102_444_800_000_000], pa.int64()).cast(
        landing_tables.COLUMNS.field("_received_at").type
    )
    times = pa.table({"_topic": ["events.a", "events.a"], "_received_at": moments})
    landed = commit_delays.times_of(times, np.array([True, True]))
    (delays,) = commit_delays.measure([(Target("db", "events", "a"), landed)], 1_700_000_000.0)
    assert (delays.counts[0], delays.counts[-1]) == (1, 1)
    assert delays.seconds == commit_delays.LONGEST


def test_pages_are_made_while_the_loop_counts() -> None:
    status, done = Status(), threading.Event()

    def scrape() -> None:
        while not done.is_set():
            list(text_string_to_metric_families(status.page().decode()))

    with ThreadPoolExecutor(2) as pool:
        scraping = [pool.submit(scrape) for _ in range(2)]
        try:
            count_for_a_while(status)
        finally:
            done.set()
    for each in scraping:
        each.result()
    assert total(samples(status), "onramp_writer_events_total") == sum(n + 1 for n in TURNS)


def count_for_a_while(status: Status) -> None:
    for n in TURNS:
        totals = {(f"events.{n}", f"events.{n}", "landed"): n + 1}
        status.update_database("db", DatabaseStats(totals, {}, {f"state {n % 7}": 1}))
        status.update_connections({f"db_{n % 3}": {f"state {n % 7}": 1}})
        status.update_lag({Partition(f"events.{n}", 0): Lag(1, 1.0)})
        status.update_steps([TaskReport("t", 0, work=steps_of([str(n)]).as_json())])
        status.update({f"db_{n}": "landing"}, {Partition("a", n): "why"})
