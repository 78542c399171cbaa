"""How long events took from receipt to commit: counts that add up to a histogram."""

import pyarrow as pa
import pytest

from services.writer.model import commit_delays
from services.writer.model.commit_delays import BOUNDS, CommitDelays
from services.writer.model.offsets import Partition
from services.writer.model.targets import Target
from services.writer.observe.status import Status
from services.writer.persist import landing
from services.writer.settle.work_order import TaskReport

COMMITTED = 1_700_000_000.0
RECEIVED = landing.COLUMNS.field("_received_at").type
TABLE = Target("db", landing.SCHEMA, "a")


def received(*seconds_before: float) -> pa.RecordBatch:
    moments = [round((COMMITTED - s) * 1e6) for s in seconds_before]
    return pa.record_batch({"_received_at": pa.array(moments, pa.int64()).cast(RECEIVED)})


def test_each_event_is_in_the_range_of_its_delay() -> None:
    pieces = [(Partition("events.a", 0), received(0.05, 0.5, 4000)), (Partition("events.a", 1), received(-3))]
    (delays,) = commit_delays.measure({TABLE: pieces}, COMMITTED)
    assert (delays.database, delays.table, delays.topic) == ("db", "events.a", "events.a")
    assert sum(delays.counts) == 4
    # A clock that is ahead counts as no delay at all; a bound is in its own range.
    assert [delays.counts[i] for i in (0, BOUNDS.index(0.5), len(BOUNDS))] == [2, 1, 1]
    assert delays.seconds == pytest.approx(4000.55)


def test_topics_of_one_table_are_apart_and_no_rows_are_no_events() -> None:
    pieces = [(Partition("x", 0), received(1)), (Partition("y", 0), received())]
    delays = {d.topic: sum(d.counts) for d in commit_delays.measure({TABLE: pieces}, COMMITTED)}
    assert delays == {"x": 1, "y": 0}


def test_a_report_becomes_a_histogram() -> None:
    status = Status()
    counts = [0] * (len(BOUNDS) + 1)
    counts[2], counts[-1] = 3, 1
    delays = [CommitDelays("db", "events.a", "events.a", counts, 900.0)]
    status.update_delays(
        [TaskReport("events.a", 0, delays=commit_delays.as_json(delays)), TaskReport("b", 0)]
    )
    value, name = status.metrics.registry.get_sample_value, "onramp_writer_received_to_committed_seconds"
    labels = {"database": "db", "event_type": "a"}
    assert value(f"{name}_count", labels) == 4
    assert value(f"{name}_sum", labels) == 900
    assert value(f"{name}_bucket", labels | {"le": str(BOUNDS[1])}) == 0
    assert value(f"{name}_bucket", labels | {"le": str(BOUNDS[2])}) == 3
    assert value(f"{name}_bucket", labels | {"le": "+Inf"}) == 4
