"""How long events took from receipt to commit: counts that add up to a histogram."""

import numpy as np
import pyarrow as pa
import pytest

from services.writer.model import commit_delays
from services.writer.model.commit_delays import BOUNDS, CommitDelays
from services.writer.model.targets import Target
from services.writer.observe.status import Status
from services.writer.persist import landing_tables
from services.writer.settle.work_order import TaskReport

COMMITTED = 1_700_000_000.0
RECEIVED = landing_tables.COLUMNS.field("_received_at").type
TABLE = Target("db", landing_tables.SCHEMA, "a")


def received(*seconds_before: float, topic: str = "events.a") -> pa.Table:
    moments = [round((COMMITTED - s) * 1e6) for s in seconds_before]
    topics = pa.array([topic] * len(moments), pa.string())
    return pa.table({"_topic": topics, "_received_at": pa.array(moments, pa.int64()).cast(RECEIVED)})


def test_each_event_is_in_the_range_of_its_delay() -> None:
    times = pa.concat_tables([received(0.05, 0.5, 4000), received(-3)])
    (delays,) = commit_delays.measure([(TABLE, times)], COMMITTED)
    assert (delays.database, delays.table, delays.topic) == ("db", "events.a", "events.a")
    assert sum(delays.counts) == 4
    # A clock that is ahead counts as no delay at all; a bound is in its own range.
    assert [delays.counts[i] for i in (0, BOUNDS.index(0.5), len(BOUNDS))] == [2, 1, 1]
    assert delays.seconds == pytest.approx(4000.55)


def test_topics_of_one_table_are_apart() -> None:
    times = pa.concat_tables([received(1, topic="x"), received(2, 2, topic="y"), received(1, topic="x")])
    measured = list(commit_delays.measure([(TABLE, times)], COMMITTED))
    assert {d.topic: (sum(d.counts), d.seconds) for d in measured} == {"x": (2, 2.0), "y": (2, 4.0)}


def test_no_rows_have_no_delays_and_what_a_mask_leaves_out_has_none() -> None:
    assert list(commit_delays.measure([(TABLE, received())], COMMITTED)) == []
    some = commit_delays.times_of(received(1, 10, 100), np.array([True, False, True]))
    (delays,) = commit_delays.measure([(TABLE, some)], COMMITTED)
    assert (sum(delays.counts), delays.seconds) == (2, 101.0)


def test_a_report_becomes_a_histogram() -> None:
    status = Status()
    counts = [0] * (len(BOUNDS) + 1)
    counts[2], counts[-1] = 3, 1
    delays = [CommitDelays("db", "events.a", "events.a", counts, 900.0)]
    status.count_landed([TaskReport("events.a", 0, delays=commit_delays.as_json(delays)), TaskReport("b", 0)])
    value, name = status.metrics.registry.get_sample_value, "onramp_writer_received_to_committed_seconds"
    labels = {"database": "db", "event_type": "a"}
    assert value(f"{name}_count", labels) == 4
    assert value(f"{name}_sum", labels) == 900
    assert value(f"{name}_bucket", labels | {"le": str(BOUNDS[1])}) == 0
    assert value(f"{name}_bucket", labels | {"le": str(BOUNDS[2])}) == 3
    assert value(f"{name}_bucket", labels | {"le": "+Inf"}) == 4
