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

#: Maximum series of one metric.  Prometheus supports a few thousand series of one target: the seven metrics
#: with this bound and all others together are below 6,000.
MAX_SERIES: Final = 700
_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_TABLE: Final = ("step", "topic", "event_type", "database", "table")


class Metrics:
    """Every metric of one writer."""

    def __init__(self, max_series: int = MAX_SERIES, new_counter_seconds: float = 0.0) -> None:
        self.registry = CollectorRegistry()
        self.series = Series(self.registry, max_series, new_counter_seconds)
        self.process = ProcessMetrics(self.registry)
        self.spark = SparkMetrics(self.registry)
        self.records = Counter(
            "onramp_writer_records",
            "Records, by result.",
            ["result"],
            registry=self.registry,
        )
        self.batches = Counter("onramp_writer_batches", "Batches settled.", registry=self.registry)
        self.failures = Counter(
            "onramp_writer_failed_batches",
            "Failed batches, which are repeated, by error code.",
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
            "Events and destinations by outcome, since the beginning: the ledgers' totals, and for FILTER "
            "and SORT the totals on onramp.settled.",
            [*_TABLE, "outcome"],
            registry=self.registry,
        )
        self.warning_counts = Counter(
            "onramp_writer_warnings",
            "Warnings, since the beginning: rows without a key that identifies a repeat (unkeyed), and "
            "fields that a contract dropped (discarded_fields).",
            ["database", "table", "kind"],
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
            "Time from an event's receipt to the commit of its row, for events that landed without waiting.",
            ["database", "event_type"],
            buckets=commit_delays.BOUNDS,
            registry=self.registry,
        )
        self.lag = Gauge(
            "onramp_writer_lag_events",
            "Offsets between the settled offset and Kafka's end, open transactions included. While a leader "
            "does not answer, its last known end counts; a partition without a known end is absent.",
            ["topic", "partition"],
            registry=self.registry,
        )
        self.lag_seconds = Gauge(
            "onramp_writer_lag_seconds",
            "Age of the oldest event that is not settled, by its record's timestamp; 0 when all are settled, "
            "absent when it is unknown. As of the last reading, until the next is overdue.",
            ["topic", "partition"],
            registry=self.registry,
        )
        self.open_transaction_seconds = Gauge(
            "onramp_writer_open_transaction_seconds",
            "Time for which an open transaction of another producer has prevented reading a partition to its "
            "end; absent when there is none.",
            ["topic", "partition"],
            registry=self.registry,
        )
        self.replays = Counter(
            "onramp_writer_replays",
            "Attempts to replay a parked event, by outcome: landed, duplicate, parked (it failed again), or "
            "sorted (a refused event belongs to another database now).",
            ["database", "outcome"],
            registry=self.registry,
        )
        self.waiting = Gauge(
            "onramp_writer_waiting_events",
            "Waiting events: on onramp.system_errors for an unreachable database (kafka), or in a database "
            "for a table or an event type (database). Unsettled events on their own topics are lag.",
            ["database", "where"],
            registry=self.registry,
        )
        self.oldest_waiting = Gauge(
            "onramp_writer_oldest_waiting_seconds",
            "Waiting time of the oldest waiting event; 0 when no event waits.",
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
            "Parked events too large for onramp.user_errors, which stay in the outbox of their database.",
            ["database"],
            registry=self.registry,
        )
        self.outbox = Gauge(
            "onramp_writer_outbox_events",
            "Parked events in the outbox of their database, not yet on onramp.user_errors.",
            ["database"],
            registry=self.registry,
        )
        self.database_size = Gauge(
            "onramp_writer_database_size_bytes",
            "Size of a whole database, other tables included, at the last reading.",
            ["database"],
            registry=self.registry,
        )
        self.database_read = Gauge(
            "onramp_writer_database_read_timestamp_seconds",
            "Time of the last reading of a database's figures (Unix seconds).",
            ["database"],
            registry=self.registry,
        )
        self.kafka_answered = Gauge(
            "onramp_writer_kafka_answered_timestamp_seconds",
            "Time of Kafka's last answer with log ends, or to a writer that starts or is on standby (Unix "
            "seconds); 0 before.",
            registry=self.registry,
        )
        self.retention = Gauge(
            "onramp_writer_topic_retention_seconds",
            "Retention time of the topic's records in Kafka; absent when it is unlimited.",
            ["topic"],
            registry=self.registry,
        )
        self.kafka_reachable = Gauge(
            "onramp_writer_kafka_reachable",
            "1 while Kafka answers the writer; 0 before its first answer.",
            registry=self.registry,
        )
        self.database_state = Gauge(
            "onramp_writer_database_state",
            "1 for the current state of a database.",
            ["database", "state"],
            registry=self.registry,
        )
        self.connections = Gauge(
            "onramp_writer_connections",
            "Sessions of the writer's processes in a database, by state; absent while it does not answer.",
            ["database", "state"],
            registry=self.registry,
        )
        self.max_connections = Gauge(
            "onramp_writer_connections_limit",
            "Maximum connections of the writer to a database.",
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
            "1 while the writer uses the previous registry because the current one is invalid.",
            registry=self.registry,
        )
        self.unusable = Gauge(
            "onramp_writer_registry_not_configured",
            "1 for each place in the registry that names a database or schema missing in the settings.",
            ["place"],
            registry=self.registry,
        )
        self.loop_turned = Gauge(
            "onramp_writer_loop_timestamp_seconds",
            "Time of the loop's last pass or failure (Unix seconds); 0 before, and on standby.",
            registry=self.registry,
        )
        self.lag_read = Gauge(
            "onramp_writer_lag_timestamp_seconds",
            "Time of the last reading of the lag from Kafka (Unix seconds); 0 before, and on standby.",
            registry=self.registry,
        )
        self.standby = Gauge(
            "onramp_writer_standby",
            "1 while this writer is on standby because another one lands.",
            registry=self.registry,
        )
        self.halted_partitions = Gauge(
            "onramp_writer_halted_partitions",
            "Partitions that are not read until an operator resolves them.",
            registry=self.registry,
        )
