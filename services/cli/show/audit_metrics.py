"""The audit's result as metrics: a file for the textfile collector of Prometheus' node exporter."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

if TYPE_CHECKING:
    from services.ops.findings import Report


class AuditMetrics:
    """Every metric of one audit."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.findings = Gauge(
            "onramp_audit_findings",
            "Violations in the last audit: events that are lost or have two outcomes.",
            registry=self.registry,
        )
        self.unchecked = Gauge(
            "onramp_audit_unchecked",
            "Events, partitions and tables that the last audit could not check.",
            registry=self.registry,
        )
        self.ended = Gauge(
            "onramp_audit_timestamp_seconds",
            "Time of the last audit that reached all services (Unix seconds).",
            registry=self.registry,
        )

    def show(self, report: "Report", ended: float) -> None:
        """Set the metrics from a report of an audit that `ended` then."""
        self.findings.set(len(report.findings))
        tables_and_partitions = len(report.leaderless) + len(report.unreadable)
        self.unchecked.set(report.unjudged + report.in_motion + tables_and_partitions)
        self.ended.set(ended)


def write(report: "Report", file: Path) -> None:
    """Replace `file` atomically: a reader sees the old one or the new one.  Raises `OSError`."""
    metrics = AuditMetrics()
    metrics.show(report, time.time())
    write_to_textfile(str(file), metrics.registry)
