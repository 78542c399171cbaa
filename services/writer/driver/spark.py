"""Spark: the session with the settings that a micro-batch needs, and one job per batch.

Owns pyspark.  Spark decides nothing: ranges come from the driver's loop, truth is in the
ledgers.  The settings' reasons and figures are in docs/adr (a loop of batch reads).
"""

import functools
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from services import writer
from services.writer.kafka.topic_ids import JavaAdmin
from services.writer.model import connection_budget
from services.writer.model.offsets import Range, total
from services.writer.model.records import ARRIVALS, FIRST_MS, LARGE, LAST_MS, USUAL
from services.writer.plan.fair_share import MOST_READERS
from services.writer.settings import WriterSettings
from services.writer.settle.task import settle, settle_given
from services.writer.settle.work_order import REPORT_DDL, TaskReport, WorkOrder
from shared import wire
from shared.kafka_security import Brokers, KafkaSecurity

#: Set by spark-submit, whose JVM is there before us.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
#: Where workers find `services` and `shared`, whatever folder they are started in.
_ROOT: Final = Path(writer.__path__[0]).resolve().parents[1]
_READ_GROUP: Final = "onramp-writer-read"
#: What all partitions' consumers hold of Kafka's bytes between two batches.  As Java's objects the
#: records take about five times as much: a fetch, the next one, and what was made of them.
_FETCHED_BYTES: Final = 48 << 20
_MOST_FETCH_BYTES: Final = 2 << 20
_LEAST_FETCH_BYTES: Final = 16 << 10


class Spark:
    """The writer's Spark session."""

    def __init__(self, settings: WriterSettings, brokers: Brokers) -> None:
        """Start the session: a JVM, which takes seconds."""
        self._brokers = brokers
        self._session = _session(settings)
        self._session.sparkContext.setLogLevel("ERROR")
        self._reader = self._session.read.format("kafka").options(**_read_options(brokers))
        #: A task without records of its own.
        self._nothing = self._session.range(0, 1, 1, 1)
        # The JVM's Kafka client has no other door.
        self._admin = JavaAdmin(self._session._jvm, brokers)  # noqa: SLF001
        #: The most partitions that batches may be of.
        self._partitions = 0

    def run(self, order: WorkOrder, arrivals: pa.RecordBatch | None = None) -> list[TaskReport]:
        """Settle `order` and return its tasks' reports.  Blocks; raises Spark's errors.

        `arrivals`: its records, if the driver has read them already.  In one job, unless Spark is
        to read more partitions than it may have consumers: a batch that the driver did not get.
        """
        if arrivals is None and len(order.ranges) > MOST_READERS:
            return [line for piece in pieces(order) for line in self.run(piece)]
        slots = self.slots
        # Workers of other slots may hold what they had: where not all fit, none is kept.
        needed = connection_budget.most_connections(slots)
        landing = tuple(replace(d, keep=(d.max_connections or needed) >= needed) for d in order.landing)
        order = replace(order, landing=landing)
        # PySpark's mapInArrow sends the function by pickle: a partial of a module's function
        # travels as a name and the order's data.
        if arrivals is None:
            ranges, bounds = list(order.ranges.values()), [d.max_connections for d in order.landing]
            tasks = connection_budget.tasks(total(ranges), len(ranges), slots, bounds)
            records, work = self._read(ranges).coalesce(tasks), functools.partial(settle, order)
        else:
            records, work = self._nothing, functools.partial(settle_given, order, _sent(arrivals))
        job = records.mapInArrow(work, REPORT_DDL)
        return [TaskReport(**row.asDict()) for row in job.collect()]

    def cancel(self) -> None:
        """Cancel the running job; its transactions roll back."""
        self._session.sparkContext.cancelAllJobs()

    def expect(self, partitions: int) -> None:
        """Batches may be of so many partitions: what each consumer fetches at once is made for that."""
        self._partitions = max(self._partitions, min(partitions, MOST_READERS))

    @property
    def slots(self) -> int:
        """Tasks at a time: in a cluster it changes while executors come and go."""
        return int(self._session.sparkContext.defaultParallelism)

    def topic_ids(self) -> dict[str, str]:
        """Kafka's UUIDs of all topics (`JavaAdmin`).  Raises `InfrastructureError`."""
        return self._admin.topic_ids()

    def is_alive(self) -> bool:
        """Whether the JVM still answers."""
        try:
            return not self._session.sparkContext._jsc.sc().isStopped()  # noqa: SLF001 - no public door
        except (Py4JError, OSError):
            return False

    def stop(self) -> None:
        """Stop the session and its JVM, if it is still there."""
        if self.is_alive():
            self._admin.close()
            self._session.stop()

    def _read(self, ranges: Iterable[Range]) -> DataFrame:
        starts: dict[str, dict[str, int]] = defaultdict(dict)
        ends: dict[str, dict[str, int]] = defaultdict(dict)
        for r in ranges:
            starts[r.partition.topic][str(r.partition.number)] = r.start
            ends[r.partition.topic][str(r.partition.number)] = r.end
        assigned = {topic: [int(p) for p in partitions] for topic, partitions in starts.items()}
        # Every option is a call to the JVM: what stays the same is set once, on the reader.
        return (
            self._reader.option("assign", json.dumps(assigned))
            .option("startingOffsets", json.dumps(starts))
            .option("endingOffsets", json.dumps(ends))
            # Another value makes other consumers: it only ever falls.
            .option("kafka.max.partition.fetch.bytes", str(fetch_bytes(self._partitions)))
            .option("kafka.group.id", read_group(self._brokers.security))
            .load()
            # In two steps: Spark looks a header up again wherever an expression names it.
            .selectExpr(*_WITH_HEADERS_SQL)
            .selectExpr(*_ARRIVALS_SQL)
        )


def pieces(order: WorkOrder) -> Iterator[WorkOrder]:
    """`order` in orders of as many partitions as Spark may have consumers."""
    ranges = list(order.ranges.items())
    for at in range(0, len(ranges), MOST_READERS):
        yield replace(order, ranges=dict(ranges[at : at + MOST_READERS]))


def fetch_bytes(partitions: int) -> int:
    """How much of a partition is fetched at once, so that of so many all fit into the heap: a power of 2.

    Spark keeps a consumer for each partition, and each keeps what it has fetched and not given yet.
    """
    share = _FETCHED_BYTES // max(partitions, 1)
    return min(max(1 << share.bit_length() - 1, _LEAST_FETCH_BYTES), _MOST_FETCH_BYTES)


def _sent(arrivals: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrivals.schema) as stream:
        stream.write_batch(arrivals)
    return bytes(sink.getvalue())


def _header(at: int, name: str) -> str:
    """The header `name`, which the gateway's records have at place `at`.

    Not filter(headers, …): Spark interprets lambdas, and plans anew around them in each task.
    """
    as_map = f"try_element_at(map_from_arrays(headers.key, headers.value), '{name}')"
    return f"CASE WHEN {_AS_THE_GATEWAY_WRITES} THEN get(headers, {at}).value ELSE {as_map} END"


def _arrivals_sql() -> list[str]:
    """The columns that a task receives, by name and order of `ARRIVALS`: of headers as `Headers.of`."""
    usual = f"X'{wire.CONTEXT_BYTES.hex()}'"
    there = f"length(context) > 0 AND context <> X'{LARGE.hex()}'"
    small = f"coalesce(length(context), 0) + coalesce(length(received_at), 0) <= {wire.MOST_HEADER_BYTES}"
    columns = {
        "value": f"CASE WHEN {there} THEN value END",
        "received_at": f"CASE WHEN {small} THEN received_at END",
        "timestamp": f"least(greatest(timestamp, timestamp_millis({FIRST_MS}L)), "
        f"timestamp_millis({LAST_MS}L))",
        "context": f"CASE WHEN context = {usual} AND {small} THEN X'{USUAL.hex()}' "
        f"WHEN {there} THEN CASE WHEN {small} THEN context ELSE X'{LARGE.hex()}' END END",
    }
    return [f"{columns.get(name, name)} AS {name}" for name in ARRIVALS.names]


# A map of the headers costs as much as all other columns.  Of two with one name the last counts.
_OURS: Final = f"('{wire.HEADER_CONTEXT}', '{wire.HEADER_RECEIVED_AT}')"
_AS_THE_GATEWAY_WRITES: Final = (
    f"size(headers) BETWEEN 2 AND 4 AND get(headers, 0).key = '{wire.HEADER_CONTEXT}' "
    f"AND get(headers, 1).key = '{wire.HEADER_RECEIVED_AT}' "
    f"AND coalesce(get(headers, 2).key, '') NOT IN {_OURS} "
    f"AND coalesce(get(headers, 3).key, '') NOT IN {_OURS}"
)
_WITH_HEADERS_SQL: Final = (
    *("topic", "partition", "offset", "value", "timestamp"),
    f"{_header(1, wire.HEADER_RECEIVED_AT)} AS received_at",
    f"{_header(0, wire.HEADER_CONTEXT)} AS context",
)
_ARRIVALS_SQL: Final = _arrivals_sql()


def read_group(security: KafkaSecurity) -> str:
    """Consumers are cached by group, and a batch read would make new ones each time.

    A consumer keeps the secrets that it was made with: after a change others are wanted.
    """
    return f"{_READ_GROUP}-{security.files_version}".rstrip("-")


def _read_options(brokers: Brokers) -> dict[str, str]:
    return {
        **{f"kafka.{name}": value for name, value in brokers.java().items()},
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        # A consumer of the last batch must not hold the connection in a long poll.
        "kafka.fetch.max.wait.ms": "1",
        "kafka.max.poll.records": "5000",
    }


def _session(settings: WriterSettings) -> SparkSession:
    """The session; under spark-submit, whoever submits has the word on where it runs and with what."""
    submitted = _SUBMITTED in os.environ
    builder = SparkSession.builder.appName("onramp-writer")
    if not submitted:
        # Workers import this project by name, with this interpreter.
        os.environ["PYTHONPATH"] = str(_ROOT)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.master(settings.master)
    for name, value in (_CONFIGURATION if submitted else _CONFIGURATION | _local(settings)).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _local(settings: WriterSettings) -> dict[str, str]:
    """What a JVM of our own is started with."""
    return {
        "spark.jars": settings.spark_jars,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(_JVM_OPTIONS),
        "spark.executorEnv.PYTHONPATH": str(_ROOT),
    }


_JVM_OPTIONS: Final = (
    # A batch's garbage dies at once; G1's bookkeeping cost a quarter of the JVM's CPU.
    "-XX:+UseParallelGC",
    # Ten times the usual: what runs for each row gets there at once; what runs once a job, Spark's
    # planner and scheduler, kept the compiler busy for minutes, a fifth of the JVM's CPU.
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
)
_CONFIGURATION: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    # Small writes on loopback TCP run into delayed acknowledgements: 40 ms each way.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    # More consumers than this are thrown away and built anew in every batch; a job has no more.
    "spark.kafka.consumer.cache.capacity": str(MOST_READERS),
    # What a batch left behind, up to a fetch of each of its partitions: where they take turns, it is
    # some batches until the next one wants it.
    "spark.kafka.consumer.fetchedData.cache.timeout": "5s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "2s",
    # Not the older source of the two: it makes an object of every row and back.
    "spark.sql.sources.useV1SourceList": "",
    # Of headers with one key the last counts.
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    # The driver hands small batches over with the function; up to here it needs no broadcast.
    "spark.broadcast.UDFCompressionThreshold": str(16 << 20),
    "spark.sql.artifact.isolation.enabled": "false",
}
