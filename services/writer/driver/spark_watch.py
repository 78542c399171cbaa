"""Polls the usage of Spark's JVM in a separate thread: a JVM that hangs or ends delays nothing else."""

import logging
import os
import threading

from services.writer.driver.spark import Spark
from services.writer.observe.metrics import Metrics
from shared.process_metrics import descendants

log = logging.getLogger(__name__)


class SparkWatch:
    """Shows every `seconds` the usage of Spark and its processes on this machine."""

    def __init__(self, spark: Spark, metrics: Metrics, seconds: float) -> None:
        self._spark = spark
        self._metrics = metrics
        self._seconds = seconds
        self._stopped = threading.Event()
        # A daemon thread: waiting for a JVM that hangs must not keep the writer alive.
        self._thread = threading.Thread(target=self._run, name="spark-watch", daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop polling; a request that the JVM has not answered may stay open."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._poll()
            except Exception:
                if self._stopped.is_set():
                    return  # Spark was stopped during the request
                log.exception("the usage of Spark could not be read because of an unexpected error")
            self._stopped.wait(self._seconds)

    def _poll(self) -> None:
        used = self._spark.usage()
        if used is None or self._stopped.is_set():
            return  # the JVM has ended; the writer process handles that
        self._metrics.spark.show(used)
        self._metrics.process.show("jvm", {used.pid})
        # Under spark-submit the driver is a child of the JVM.
        self._metrics.process.show("spark worker", descendants(used.pid) - {os.getpid()})
