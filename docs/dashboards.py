"""Makes deploy/grafana/dashboards: run `python -m docs.generate`. Grafana reads the JSON that is committed.

Panels say what they show in words of the metrics; a test parses each query against what the services declare.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from docs.grafana import Panel, dashboard_of

FOLDER: Final = "deploy/grafana/dashboards"


def panel(title: str, unit: str, *queries: tuple[str, str]) -> Panel:
    """Name a graph, its unit in Grafana's words, and its (query, legend) pairs."""
    return title, unit, queries


def _p99(histogram: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile(0.99, sum by ({labels}) (rate({histogram}_bucket[5m])))"


def _rate(of: str, by: str = "") -> str:
    over = f" by ({by}) " if by else ""
    return f"sum{over}(rate({of}[5m]))"


def _ratio(of: str, to: str) -> str:
    return f"{_rate(of)} / {_rate(to)}"


_TAKEN: Final = 'onramp_ingest_events_total{outcome="accepted"}'
_REFUSED: Final = 'onramp_ingest_events_total{outcome!="accepted"}'
_IN_TABLES: Final = 'onramp_writer_events_total{outcome="landed"}'
_IN_ERRORS: Final = 'onramp_writer_events_total{outcome="parked"}'
_ACCEPTED: Final = panel(
    "Accepted, by event type",
    "cps",
    (_rate(_TAKEN, "event_type"), "{{event_type}}"),
)
_OUTCOMES: Final = panel(
    "Events by database and outcome",
    "cps",
    (_rate("onramp_writer_events_total", "database, outcome"), "{{database}} {{outcome}}"),
)
_RETENTION_USED: Final = (
    "max by (topic) (onramp_writer_lag_seconds)"
    " / on (topic) min by (topic) (onramp_writer_topic_retention_seconds)"
)
_LAG: Final = panel(
    "How late rows are, by topic", "s", ("max by (topic) (onramp_writer_lag_seconds)", "{{topic}}")
)
_STATES: Final = panel(
    "Databases that do not land",
    "none",
    (
        'max by (database, state) (onramp_writer_database_state{state!~"landing|draining"})',
        "{{database}} {{state}}",
    ),
)
_WAITING: Final = panel(
    "Events that wait, by database and place",
    "short",
    ("sum by (database, where) (onramp_writer_waiting_events)", "{{database}} {{where}}"),
)
_PARKED: Final = panel(
    "Parked, by database and event type",
    "cps",
    (
        _rate(_IN_ERRORS, "database, event_type"),
        "{{database}} {{event_type}}",
    ),
)
_REJECTED: Final = panel(
    "Rejected, by key and code",
    "cps",
    (
        _rate(_REFUSED, "key, outcome"),
        "{{key}} {{outcome}}",
    ),
)
_REQUEST_P99: Final = panel(
    "p99 of a request and of Kafka's part of it",
    "s",
    (_p99("onramp_ingest_request_seconds"), "request"),
    (_p99("onramp_ingest_kafka_send_seconds"), "Kafka"),
)
_SESSIONS: Final = (
    "sum by (database) (onramp_writer_connections) / max by (database) (onramp_writer_connections_limit)"
)
_CPU: Final = panel(
    "CPU time a second, by kind of process",
    "short",
    (_rate("onramp_process_cpu_seconds_total", "job, process"), "{{job}} {{process}}"),
)
_MEMORY: Final = panel(
    "Memory, by kind of process",
    "bytes",
    ("sum by (job, process) (onramp_process_resident_memory_bytes)", "{{job}} {{process}}"),
)
_FILES: Final = panel(
    "Share of the open files that the fullest process may have",
    "percentunit",
    (
        "max by (job, process) (onramp_process_open_files / onramp_process_open_files_limit)",
        "{{job}} {{process}}",
    ),
)
_LOOPS: Final = panel(
    "p99 of how late event loops turn",
    "s",
    (_p99("onramp_event_loop_delay_seconds", "job, process"), "{{job}} {{process}}"),
)
_SLOTS: Final = panel(
    "Busy share of Spark's slots",
    "percentunit",
    ("sum(rate(onramp_writer_slot_seconds_total[5m])) / sum(onramp_writer_slots)", "slots"),
)

DASHBOARDS: Final[dict[str, tuple[str, Sequence[Panel]]]] = {
    "overview": (
        "Onramp: is it flowing, is anything lost, what hurts",
        (
            panel(
                "In and out",
                "cps",
                (_rate(_TAKEN), "accepted"),
                (_rate(_IN_TABLES), "landed"),
                (_rate(_IN_ERRORS), "parked"),
            ),
            _LAG,
            panel(
                "Services that answer",
                "none",
                ('sum by (job) (up{job=~"onramp-(gateway|writer)"})', "{{job}}"),
            ),
            _STATES,
            panel(
                "Halted partitions, blocked tables, paused types",
                "none",
                ("max(onramp_writer_halted_partitions)", "halted partitions"),
                ("count by (database, kind) (onramp_writer_holds)", "{{database}} {{kind}}"),
            ),
            _WAITING,
            _PARKED,
            _REJECTED,
            panel(
                "Saturation: what is used of each limit",
                "percentunit",
                ("max(onramp_ingest_inflight_bytes / onramp_ingest_inflight_bytes_limit)", "bytes in flight"),
                ("max(onramp_ingest_connections / onramp_ingest_connections_limit)", "connections"),
                (_SESSIONS, "sessions in {{database}}"),
                ("max(onramp_process_open_files / onramp_process_open_files_limit)", "open files"),
                (
                    "sum(rate(onramp_writer_slot_seconds_total[5m])) / sum(onramp_writer_slots)",
                    "Spark's slots",
                ),
                ("max(onramp_writer_jvm_heap_bytes / onramp_writer_jvm_heap_limit_bytes)", "JVM's heap"),
            ),
            panel(
                "Running versions",
                "none",
                (
                    "sum by (job, version, python, spark) (onramp_build_info)",
                    "{{job}} {{version}} {{python}} {{spark}}",
                ),
            ),
        ),
    ),
    "gateway": (
        "Onramp: gateway",
        (
            panel(
                "Requests, by status",
                "reqps",
                (_rate("onramp_ingest_requests_total", "status"), "{{status}}"),
            ),
            _REQUEST_P99,
            _ACCEPTED,
            _REJECTED,
            panel(
                "Connections and their limit",
                "short",
                ("sum by (instance) (onramp_ingest_connections)", "{{instance}}"),
                ("sum by (instance) (onramp_ingest_connections_limit)", "{{instance}} limit"),
            ),
            panel(
                "Bytes in flight and their limit",
                "bytes",
                ("sum by (instance) (onramp_ingest_inflight_bytes)", "{{instance}}"),
                ("sum by (instance) (onramp_ingest_inflight_bytes_limit)", "{{instance}} limit"),
            ),
            panel(
                "Events of a request, and of a produce request",
                "short",
                (_ratio("onramp_ingest_batch_events_sum", "onramp_ingest_batch_events_count"), "request"),
                (_ratio(_TAKEN, "onramp_ingest_kafka_requests_total"), "produce request"),
            ),
            panel(
                "Whether Kafka answers the gateway, and producers replaced",
                "none",
                ("min by (instance) (onramp_ingest_kafka_reachable)", "{{instance}}"),
                (
                    _rate("onramp_ingest_producers_replaced_total", "instance"),
                    "{{instance}} replaced",
                ),
            ),
            panel(
                "Syslog, by transport and outcome",
                "cps",
                (
                    _rate("onramp_ingest_syslog_messages_total", "transport, outcome"),
                    "{{transport}} {{outcome}}",
                ),
            ),
            _LOOPS,
            _CPU,
            _MEMORY,
            _FILES,
            panel(
                "Workers by registry",
                "none",
                ("sum by (job, digest) (onramp_registry_info)", "{{job}} {{digest}}"),
            ),
        ),
    ),
    "writer": (
        "Onramp: writer",
        (
            panel(
                "Records, by what was done with them",
                "cps",
                (_rate("onramp_writer_records_total", "result"), "{{result}}"),
            ),
            _LAG,
            panel(
                "Events that are not settled, by topic",
                "short",
                ("sum by (topic) (onramp_writer_lag_events)", "{{topic}}"),
            ),
            panel(
                "Share of a topic's retention that its oldest event has used",
                "percentunit",
                (
                    _RETENTION_USED,
                    "{{topic}}",
                ),
            ),
            panel(
                "p99 of a batch and of its phases",
                "s",
                (_p99("onramp_writer_batch_seconds"), "batch"),
                (_p99("onramp_writer_phase_seconds", "phase"), "{{phase}}"),
            ),
            panel(
                "Seconds of tasks, by step",
                "s",
                (_rate("onramp_writer_step_seconds_total", "step"), "{{step}}"),
            ),
            panel(
                "Rows, by step",
                "cps",
                (_rate("onramp_writer_step_rows_total", "step"), "{{step}}"),
            ),
            panel(
                "Batches that failed, by code",
                "cps",
                (_rate("onramp_writer_failed_batches_total", "code"), "{{code}}"),
            ),
            panel(
                "Since the loop turned",
                "s",
                ("time() - max by (instance) (onramp_writer_loop_timestamp_seconds != 0)", "{{instance}}"),
            ),
            panel(
                "Since Kafka and each database were read",
                "s",
                ("time() - max(onramp_writer_kafka_answered_timestamp_seconds != 0)", "Kafka"),
                (
                    "time() - max by (database) (onramp_writer_database_read_timestamp_seconds)",
                    "{{database}}",
                ),
            ),
            _LOOPS,
            _CPU,
            _MEMORY,
            _FILES,
            _SLOTS,
            panel(
                "Heap of the JVM and its limit",
                "bytes",
                ("max by (instance) (onramp_writer_jvm_heap_bytes)", "{{instance}}"),
                ("max by (instance) (onramp_writer_jvm_heap_limit_bytes)", "{{instance}} limit"),
            ),
            panel(
                "Share of time that garbage collectors take",
                "percentunit",
                (_rate("onramp_writer_jvm_collection_seconds_total", "collector"), "{{collector}}"),
            ),
            panel(
                "Whether Kafka answers the writer",
                "none",
                ("max by (instance) (onramp_writer_kafka_reachable)", "{{instance}}"),
            ),
        ),
    ),
    "database-owner": (
        "Onramp: owner of a database",
        (
            _OUTCOMES,
            panel(
                "Landed, by table",
                "cps",
                (
                    _rate(_IN_TABLES, "database, table"),
                    "{{database}} {{table}}",
                ),
            ),
            _PARKED,
            _STATES,
            panel(
                "Holds: tables that take no rows, types that are paused",
                "none",
                ("max by (database, kind, name) (onramp_writer_holds)", "{{database}} {{kind}} {{name}}"),
            ),
            _WAITING,
            panel(
                "The writer's sessions and their limit",
                "short",
                ("sum by (database, state) (onramp_writer_connections)", "{{database}} {{state}}"),
                ("max by (database) (onramp_writer_connections_limit)", "{{database}} limit"),
            ),
            panel(
                "Size of the database",
                "bytes",
                ("max by (database) (onramp_writer_database_size_bytes)", "{{database}}"),
            ),
            panel(
                "Parked events that are still in the outbox",
                "short",
                ("max by (database) (onramp_writer_outbox_events)", "{{database}}"),
            ),
            panel(
                "Warnings, by table",
                "cps",
                (
                    _rate("onramp_writer_warnings_total", "database, table, kind"),
                    "{{database}} {{table}} {{kind}}",
                ),
            ),
        ),
    ),
    "producer": (
        "Onramp: who sends",
        (
            panel(
                "Accepted, by key",
                "cps",
                (_rate(_TAKEN, "key"), "{{key}}"),
            ),
            _REJECTED,
            _ACCEPTED,
            _PARKED,
            _LAG,
            panel(
                "Days until a key expires",
                "d",
                (
                    "(max by (key) (onramp_ingest_key_expiry_timestamp_seconds != 0) - time()) / 86400",
                    "{{key}}",
                ),
            ),
        ),
    ),
}


def pages() -> dict[str, Callable[[], str]]:
    """Return what makes each dashboard, by its file."""
    return {f"{FOLDER}/{name}.json": partial(text_of, name) for name in DASHBOARDS}


def text_of(name: str) -> str:
    """Return a dashboard as Grafana reads it."""
    title, panels = DASHBOARDS[name]
    return json.dumps(dashboard_of(name, title, panels), indent=2) + "\n"
