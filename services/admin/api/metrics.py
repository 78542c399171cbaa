"""The admin service's Prometheus metrics: its ingester and its process.  Nothing of single events."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from services.admin.dead_letters.ingester import IngesterStatus
from shared import wire
from shared.process_metrics import ProcessMetrics

_STATES: Final = ("starting", "active", "standby", "waiting")


class AdminMetrics:
    """Declares every metric once; the docs are generated from it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.process = ProcessMetrics(self.registry)
        self._stored = Counter(
            "onramp_admin_stored_events",
            "Parked events that this process has stored.",
            registry=self.registry,
        )
        self._behind = Gauge(
            "onramp_admin_behind_records",
            "Records of the topic that the ingester has not read yet, as of its last poll; absent before it.",
            ["topic"],
            registry=self.registry,
        )
        self._set_aside = Gauge(
            "onramp_admin_quarantined_events",
            "Parked events that the control database refuses, quarantined until it accepts them.",
            registry=self.registry,
        )
        self._state = Gauge(
            "onramp_admin_ingester_state",
            "1 for the ingester's current state.",
            ["state"],
            registry=self.registry,
        )
        self._counted = 0

    def page(self, ingester: IngesterStatus) -> bytes:
        """Return the text that a scrape gets."""
        kept = ingester.stored
        self._stored.inc(kept - self._counted)
        self._counted = kept
        if ingester.behind is not None:
            self._behind.labels(wire.USER_ERRORS).set(ingester.behind)
        self._set_aside.set(ingester.quarantined)
        for state in _STATES:
            self._state.labels(state).set(state == ingester.state)
        return generate_latest(self.registry)
