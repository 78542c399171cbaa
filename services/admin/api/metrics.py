"""The admin service's Prometheus metrics: its ingester and its process.  Nothing of single events."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from services.admin.dead_letters.ingester import KeeperStatus
from shared import wire
from shared.process_metrics import ProcessMetrics

_STATES: Final = ("starting", "keeping", "standby", "waiting")


class AdminMetrics:
    """Declares every metric once; the docs are generated from it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.process = ProcessMetrics(self.registry)
        self._kept = Counter(
            "onramp_admin_stored_events", "Parked events that this process has kept.", registry=self.registry
        )
        self._behind = Gauge(
            "onramp_admin_behind_records",
            "Records of the topic that the keeper has not read yet, as of its last look; absent before it.",
            ["topic"],
            registry=self.registry,
        )
        self._set_aside = Gauge(
            "onramp_admin_quarantined_events",
            "Parked events that the control database refuses, and that are kept aside until it takes them.",
            registry=self.registry,
        )
        self._state = Gauge(
            "onramp_admin_ingester_state",
            "1 for the state that the keeper is in.",
            ["state"],
            registry=self.registry,
        )
        self._counted = 0

    def page(self, keeper: KeeperStatus) -> bytes:
        """Return the text that a scrape gets."""
        kept = keeper.kept
        self._kept.inc(kept - self._counted)
        self._counted = kept
        if keeper.behind is not None:
            self._behind.labels(wire.USER_ERRORS).set(keeper.behind)
        self._set_aside.set(keeper.set_aside)
        for state in _STATES:
            self._state.labels(state).set(state == keeper.state)
        return generate_latest(self.registry)
