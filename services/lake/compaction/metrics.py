"""The Prometheus metrics of compaction, by table."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from shared.process_metrics import ProcessMetrics


class CompactionMetrics:
    """Gauges of each table's files, and counters of the work on them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.process = ProcessMetrics(self.registry)
        self.files = self._gauge("files", "Data files in the newest version of a table.")
        self.small_files = self._gauge("small_files", "Data files of a table that are small.")
        self.bytes = self._gauge("bytes", "Bytes of the data files in the newest version of a table.")
        self.last_round = self._gauge(
            "last_round_timestamp_seconds", "Time at which a round over a table ended without an error."
        )
        self.last_compaction = self._gauge(
            "last_compaction_timestamp_seconds", "Time of the last rewrite of a table's files."
        )
        self.rewritten = self._counter("rewritten_files", "Files that were replaced by larger ones.")
        self.superseded = self._counter(
            "superseded", "Discarded rewrites, because another process had replaced the same files."
        )
        self.vacuumed = self._counter("vacuumed_files", "Deleted files without a reference.")
        self.dropped = self._counter("dropped_rows", "Rows that `keep_days` has dropped.")
        self.failures = self._counter("failures", "Rounds over a table that ended with an error.")

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"onramp_lake_compaction_{name}", text, ["table"], registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"onramp_lake_compaction_{name}", text, ["table"], registry=self.registry)

    def prepare(self, table: str) -> None:
        """Show the counters of a table with 0, so that an increase of each is visible."""
        for counter in (self.rewritten, self.superseded, self.vacuumed, self.dropped, self.failures):
            counter.labels(table)
