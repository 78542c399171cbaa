"""Spark for a driver: the context with the settings that a micro-batch needs, and jobs of small tasks.

The settings' reasons and figures are in docs/adr (a loop of batch reads).
"""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import pyspark
from py4j.protocol import Py4JError
from pyspark import RDD, SparkConf, SparkContext

import shared
from shared.spark.jvm_usage import JvmUsage

#: Spark's release.
PYSPARK: Final[str] = pyspark.__version__
#: Set by spark-submit, whose JVM starts before this process.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
#: The folder in which workers find `services` and `shared`, independent of their working folder.
ROOT: Final = Path(shared.__path__[0]).resolve().parent

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """The settings of a driver's context; under spark-submit the submission decides on the last three."""

    app_name: str
    master: str
    driver_memory: str
    #: The module whose `run` forks the Python workers, with the modules of a task imported.
    worker_daemon: str
    #: Whether jobs of several threads share the slots evenly, by pool.
    is_fair: bool = False


class SparkJobs:
    """One Spark context, and the jobs that it runs."""

    def __init__(self, settings: SparkSettings) -> None:
        """Start the context: a JVM, which takes seconds."""
        self._context = _context(settings)
        self._context.setLogLevel("ERROR")
        #: For each number of tasks, an RDD with one task number for each task.
        self._numbers: dict[int, RDD[int]] = {}

    def warm_up(self) -> None:
        """Run an empty job, so that the first batch finds running workers and loaded JVM classes."""
        self._tasks(self.slots).mapPartitions(list).collect()

    def collect(self, work: Callable[[Iterable[int]], Iterable[T]], tasks: int) -> list[T]:
        """Run `work` in `tasks` tasks, each with its number, and return their results.

        A partial of a module's function is sent as a name and its data.  Raises Spark's errors.
        """
        return self._tasks(tasks).mapPartitions(work).collect()

    def cancel(self) -> None:
        """Cancel the running job; its transactions roll back."""
        self._context.cancelAllJobs()

    @property
    def slots(self) -> int:
        """The number of tasks that run at a time; it changes as a cluster's executors join and leave."""
        return int(self._context.defaultParallelism)

    def is_alive(self) -> bool:
        """Return whether the JVM still answers."""
        try:
            return not self._context._jsc.sc().isStopped()  # noqa: SLF001 - there is no public method
        except (Py4JError, OSError):
            return False

    def usage(self) -> JvmUsage | None:
        """Return the JVM's usage; None when it no longer answers.  Blocks while the JVM hangs."""
        try:
            jvm: Any = self._context._jvm  # noqa: SLF001 - as above
            beans = jvm.java.lang.management.ManagementFactory
            heap = beans.getMemoryMXBean().getHeapMemoryUsage()
            return JvmUsage(
                pid=int(beans.getRuntimeMXBean().getPid()),
                slots=self.slots,
                heap_bytes=int(heap.getUsed()),
                max_heap_bytes=int(heap.getMax()),
                collections={
                    str(each.getName()): (int(each.getCollectionCount()), each.getCollectionTime() / 1000)
                    for each in beans.getGarbageCollectorMXBeans()
                },
            )
        except (Py4JError, OSError):
            return None

    def stop(self) -> None:
        """Stop the context and its JVM, if the JVM still runs."""
        if self.is_alive():
            self._context.stop()

    def _tasks(self, count: int) -> "RDD[int]":
        """Return an RDD of `count` tasks, each with its number."""
        if count not in self._numbers:
            self._numbers[count] = self._context.parallelize(list(range(count)), count)
        return self._numbers[count]


def _context(settings: SparkSettings) -> SparkContext:
    """Return a new context; under spark-submit, the submission decides on master and resources."""
    submitted = _SUBMITTED in os.environ
    if submitted:
        # A SparkConf has the submission's settings only if the JVM is known before.
        SparkContext._ensure_initialized()  # noqa: SLF001 - there is no public method
    conf = SparkConf().setAppName(settings.app_name)
    if not submitted:
        # Workers import this project by name, with this interpreter.
        os.environ["PYTHONPATH"] = str(ROOT)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        conf = conf.setMaster(settings.master)
    given = _CONFIGURATION if submitted else _CONFIGURATION | _local(settings)
    given = given | {"spark.scheduler.mode": "FAIR"} if settings.is_fair else given
    for name, value in given.items():
        conf = conf.setIfMissing(name, value) if submitted else conf.set(name, value)
    return SparkContext(conf=conf)


def _local(settings: SparkSettings) -> dict[str, str]:
    """Return the settings of a JVM that this process starts itself."""
    return {
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(_JVM_OPTIONS),
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.python.daemon.module": settings.worker_daemon,
    }


#: The JVM only schedules: an optimising compiler and a multi-threaded collector cost more than they save
#: (docs/adr, tasks read Kafka).
_JVM_OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}",
)
#: A batch frees its columns by the megabyte.  A sixth of a worker's CPU was kernel time, to unmap their pages
#: and to clear new ones.  With one allocator, also for Arrow, this much memory is retained instead.
_WORKER_MEMORY: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(16 << 20),
}
_CONFIGURATION: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    # Small writes on loopback TCP run into delayed acknowledgements: 40 ms each way.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    # An order is sent with the function; up to this size it needs no broadcast.
    "spark.broadcast.UDFCompressionThreshold": str(16 << 20),
    **{f"spark.executorEnv.{name}": value for name, value in _WORKER_MEMORY.items()},
}
