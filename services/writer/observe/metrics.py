"""The writer's metrics: each is declared once, here, and docs/metrics.md is generated from them.

The metrics are in a registry of their own, not in prometheus-client's global one, so that two
writers in one test do not share counters.  Labels come from topics and tables, which clients
may create: `series.py` bounds their number.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from services.writer.model import commit_delays
from services.writer.observe.series import Series
from services.writer.observe.spark_metrics import SparkMetrics
from shared.process_metrics import ProcessMetrics

# They double the page and no panel reads them.
disable_created_metrics()  # type: ignore[no-untyped-call]

#: Series of one metric.  Prometheus takes a few thousand of one target without complaint: all seven metrics
#: that may have so many, and what is beside them, are below 6,000.
MAX_SERIES: Final = 700
_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_TABLE: Final = ("step", "topic", "event_type", "database", "table")


class Metrics:
    """Every metric of one writer."""

    def __init__(self, most_series: int = MAX_SERIES, new_counter_seconds: float = 0.0) -> None:
        self.registry = CollectorRegistry()
        self.series = Series(self.registry, most_series, new_counter_seconds)
        self.process = ProcessMetrics(self.registry)
        self.spark = SparkMetrics(self.registry)
        self.records = Counter(
            "onramp_writer_records",
            "Records, by what the writer did with them.",
            ["result"],
            registry=self.registry,
        )
        self.batches = Counter("onramp_writer_batches", "Batches settled.", registry=self.registry)
        self.failures = Counter(
            "onramp_writer_failed_batches",
            "Batches that must be repeated, by error code.",
            ["code"],
            registry=self.registry,
        )
        self.batch_seconds = Histogram(
            "onramp_writer_batch_seconds",
            "Time from plan to group commit.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.phase_seconds = Histogram(
            "onramp_writer_phase_seconds",
            "Time of a batch's phases: plan, read, land, relay, advance, mark, settle.",
            ["phase"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.events = Counter(
            "onramp_writer_events",
            "What became of every event and destination, ever: the ledgers' totals, and of FILTER and SORT "
            "what onramp.settled counts.",
            [*_TABLE, "outcome"],
            registry=self.registry,
        )
        self.warning_counts = Counter(
            "onramp_writer_warnings",
            "What is no outcome and worth a look, ever: rows without a key that tells a repeat (unkeyed), "
            "fields that a contract dropped (discarded_fields).",
            ["database", "table", "remark"],
            registry=self.registry,
        )
        self.step_seconds = Counter(
            "onramp_writer_step_seconds",
            "Time that tasks spent in a step, summed over tasks.",
            _TABLE,
            registry=self.registry,
        )
        self.step_rows = Counter(
            "onramp_writer_step_rows",
            "Events and rows that went through a step.",
            _TABLE,
            registry=self.registry,
        )
        self.commit_delays = Histogram(
            "onramp_writer_received_to_committed_seconds",
            "From an event's receipt to the commit of its row, if it landed without having waited.",
            ["database", "event_type"],
            buckets=commit_delays.BOUNDS,
            registry=self.registry,
        )
        self.lag = Gauge(
            "onramp_writer_lag_events",
            "Offsets from what is settled to Kafka's end, open transactions included. While a leader is "
            "silent its last known end counts; a partition of which nothing is known is absent.",
            ["topic", "partition"],
            registry=self.registry,
        )
        self.lag_seconds = Gauge(
            "onramp_writer_lag_seconds",
            "Age of the oldest event that is not settled, by its record's timestamp; 0 when all are. Absent "
            "where that event was not looked up. As of the last reading, until the next is overdue.",
            ["topic", "partition"],
            registry=self.registry,
        )
        self.open_transaction_seconds = Gauge(
            "onramp_writer_open_transaction_seconds",
            "For how long an open transaction of another producer has been seen to keep a partition from "
            "being read to its end; absent when none does.",
            ["topic", "partition"],
            registry=self.registry,
        )
        self.replays = Counter(
            "onramp_writer_replays",
            "Attempts to land a parked event again, by what became of them: landed, duplicate, parked "
            "because it fails again, or sorted: it was refused, and belongs to another database today.",
            ["database", "outcome"],
            registry=self.registry,
        )
        self.waiting = Gauge(
            "onramp_writer_waiting_events",
            "Events that wait: on onramp.system_errors for a database that is out (kafka), or in it for a "
            "table or an event type (database). What no database that is up has taken from its topic is lag.",
            ["database", "where"],
            registry=self.registry,
        )
        self.oldest_waiting = Gauge(
            "onramp_writer_oldest_waiting_seconds",
            "How long the oldest of them have waited; 0 when none waits.",
            ["database", "where"],
            registry=self.registry,
        )
        self.holds = Gauge(
            "onramp_writer_holds",
            "1 while events wait in their database behind this hold: a blocked table or a paused event type.",
            ["database", "kind", "name", "state"],
            registry=self.registry,
        )
        self.too_large = Gauge(
            "onramp_writer_too_large_events",
            "Parked events that onramp.user_errors does not take: they stay in the outbox of their database.",
            ["database"],
            registry=self.registry,
        )
        self.outbox = Gauge(
            "onramp_writer_outbox_events",
            "Parked events that are in the outbox of their database, on their way to onramp.user_errors.",
            ["database"],
            registry=self.registry,
        )
        self.database_size = Gauge(
            "onramp_writer_database_size_bytes",
            "Size of a whole database, others' tables included, when it was last read.",
            ["database"],
            registry=self.registry,
        )
        self.database_read = Gauge(
            "onramp_writer_database_read_timestamp_seconds",
            "When a database last said what /metrics shows of it (Unix seconds).",
            ["database"],
            registry=self.registry,
        )
        self.kafka_answered = Gauge(
            "onramp_writer_kafka_answered_timestamp_seconds",
            "When Kafka last told the ends of its logs, or answered a writer that begins or stands by (Unix "
            "seconds); 0 before.",
            registry=self.registry,
        )
        self.retention = Gauge(
            "onramp_writer_topic_retention_seconds",
            "For how long Kafka keeps a record of the topic; absent where it keeps them for ever.",
            ["topic"],
            registry=self.registry,
        )
        self.kafka_reachable = Gauge(
            "onramp_writer_kafka_reachable",
            "1 while Kafka answers the writer; 0 before it first did.",
            registry=self.registry,
        )
        self.database_state = Gauge(
            "onramp_writer_database_state",
            "1 for the state that a database is in: its breaker.",
            ["database", "state"],
            registry=self.registry,
        )
        self.connections = Gauge(
            "onramp_writer_connections",
            "The writer's sessions in a database, of all its processes, by their state; absent while it does "
            "not answer.",
            ["database", "state"],
            registry=self.registry,
        )
        self.most_connections = Gauge(
            "onramp_writer_connections_limit",
            "The most that a database is asked for.",
            ["database"],
            registry=self.registry,
        )
        self.registry_info = Gauge(
            "onramp_registry_info",
            "1 for the digest of the registry that events are routed by.",
            ["digest"],
            registry=self.registry,
        )
        self.registry_refused = Gauge(
            "onramp_registry_refused",
            "1 while the writer uses the previous registry because the present one is wrong.",
            registry=self.registry,
        )
        self.unusable = Gauge(
            "onramp_writer_registry_not_configured",
            "1 for each place of the registry that names a database or schema which the settings lack.",
            ["place"],
            registry=self.registry,
        )
        self.loop_turned = Gauge(
            "onramp_writer_loop_timestamp_seconds",
            "When the loop last turned, or failed to (Unix seconds); 0 before, and on standby.",
            registry=self.registry,
        )
        self.lag_read = Gauge(
            "onramp_writer_lag_timestamp_seconds",
            "When the lag was last read from Kafka (Unix seconds); 0 before, and on standby.",
            registry=self.registry,
        )
        self.standby = Gauge(
            "onramp_writer_standby",
            "1 while this writer stands by because another one lands.",
            registry=self.registry,
        )
        self.halted_partitions = Gauge(
            "onramp_writer_halted_partitions",
            "Partitions that are not read until a person resolves them.",
            registry=self.registry,
        )
