"""The agent's Prometheus metrics of sources."""

from prometheus_client import CollectorRegistry, Gauge

from services.cdc.agent.source_state import Shown, State


class AgentMetrics:
    """The agent's metrics; the series of a source are removed with it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.state = Gauge(
            "onramp_source_state",
            "1 for the state that a source is in: streaming, starting, unreachable, setup_required, failed, "
            "slot_in_use, standby, out_of_sync.",
            ["source", "state"],
            registry=self.registry,
        )
        self.slot_active = Gauge(
            "onramp_source_slot_active",
            "1 while a session reads the source's replication slot; Kafka Connect reports RUNNING for an "
            "unreachable source.",
            ["source"],
            registry=self.registry,
        )
        self.slot_lost = Gauge(
            "onramp_source_slot_lost",
            "1 when the server has removed WAL that the slot needed.",
            ["source"],
            registry=self.registry,
        )
        self.retained = Gauge(
            "onramp_source_retained_wal_bytes",
            "Bytes of WAL that the source retains for its slot.",
            ["source"],
            registry=self.registry,
        )
        self.alarm = Gauge(
            "onramp_source_wal_alarm_bytes",
            "Bytes of retained WAL from which the source's wal_alarm applies.",
            ["source"],
            registry=self.registry,
        )
        self.heartbeat_age = Gauge(
            "onramp_source_heartbeat_age_seconds",
            "Seconds since Kafka last received an event of the source; heartbeats come each second. "
            "Absent during a first snapshot.",
            ["source"],
            registry=self.registry,
        )
        self.excluded_tables = Gauge(
            "onramp_source_tables_excluded",
            "Tables excluded because they would fail the source: columns that differ by case, topics "
            "that collide.",
            ["source"],
            registry=self.registry,
        )

        self.suspended = Gauge(
            "onramp_source_tables_suspended",
            "Tables that the merger has suspended; onramp.table_settings.reason has the cause.",
            ["source"],
            registry=self.registry,
        )
        self.unmerged = Gauge(
            "onramp_source_unmerged_seconds",
            "Seconds for which landed changes have waited for the merger, of tables that are not suspended.",
            ["source"],
            registry=self.registry,
        )
        self.polled_at = Gauge(
            "onramp_source_polled_timestamp_seconds",
            "Time of the agent's last poll of the source, in Unix seconds.",
            ["source"],
            registry=self.registry,
        )

    def show(self, source: str, shown: Shown, alarm_bytes: int) -> None:
        """Set the metrics of a source from its status."""
        for state in State:
            self.state.labels(source, state).set(state is shown.state)
        self.alarm.labels(source).set(alarm_bytes)
        self.polled_at.labels(source).set_to_current_time()
        self.suspended.labels(source).set(shown.suspended)
        self.unmerged.labels(source).set(shown.unmerged_s)
        if shown.heartbeat_age_s is None:
            self.heartbeat_age.remove_by_labels({"source": source})
        else:
            self.heartbeat_age.labels(source).set(shown.heartbeat_age_s)
        if shown.source_state is None:
            self.slot_active.labels(source).set(0)
            return
        slot = shown.source_state.slot
        self.slot_active.labels(source).set(bool(slot and slot.active))
        self.slot_lost.labels(source).set(bool(slot and slot.is_lost))
        self.retained.labels(source).set(slot.retained_bytes if slot else 0)
        self.excluded_tables.labels(source).set(len(shown.source_state.excluded_tables))

    def forget(self, source: str) -> None:
        """Remove the metrics of a source."""
        for gauge in (self.slot_active, self.slot_lost, self.retained, self.alarm, self.heartbeat_age):
            gauge.remove_by_labels({"source": source})
        for gauge in (self.excluded_tables, self.state, self.suspended, self.unmerged, self.polled_at):
            gauge.remove_by_labels({"source": source})
