"""Metrics of Spark: the JVM's heap and garbage collectors, and the time for which slots were busy."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from shared.spark.jvm_usage import JvmUsage


class SparkMetrics:
    """The metrics of one writer's Spark."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.heap = Gauge("onramp_writer_jvm_heap_bytes", "Heap used by the driver's JVM.", registry=registry)
        self.max_heap = Gauge(
            "onramp_writer_jvm_heap_limit_bytes", "Maximum heap of the driver's JVM.", registry=registry
        )
        self.collections = Counter(
            "onramp_writer_jvm_collections",
            "Runs of the JVM's garbage collectors.",
            ["collector"],
            registry=registry,
        )
        self.collection_seconds = Counter(
            "onramp_writer_jvm_collection_seconds",
            "Time spent in the JVM's garbage collectors.",
            ["collector"],
            registry=registry,
        )
        self.slots = Gauge(
            "onramp_writer_slots",
            "Tasks that Spark runs at a time; variable in a cluster.",
            registry=registry,
        )
        self.slot_seconds = Counter(
            "onramp_writer_slot_seconds",
            "Time for which tasks of batches occupied a slot, summed over tasks.",
            registry=registry,
        )
        self._counted: dict[str, tuple[int, float]] = {}

    def show(self, used: JvmUsage) -> None:
        """Show the JVM's usage."""
        self.heap.set(used.heap_bytes)
        self.max_heap.set(used.max_heap_bytes)
        self.slots.set(used.slots)
        for name, (runs, seconds) in used.collections.items():
            runs_before, seconds_before = self._counted.get(name, (0, 0.0))
            self.collections.labels(name).inc(max(runs - runs_before, 0))
            self.collection_seconds.labels(name).inc(max(seconds - seconds_before, 0.0))
        self._counted |= used.collections
