"""Takes over from earlier writers: reads their logs and builds the parts of a new session."""

from collections.abc import Mapping, Sequence
from uuid import uuid4

from services.writer.batching.byte_sizes import ByteSizes
from services.writer.batching.fair_share import FairShare
from services.writer.batching.row_rates import RateLimiter
from services.writer.databases.database_states import Databases
from services.writer.databases.diverted_index import DivertedIndex
from services.writer.databases.drain import Drainer
from services.writer.databases.retire import Retire
from services.writer.driver.context import Parts
from services.writer.driver.partition_tracker import PartitionTracker
from services.writer.driver.spark import Spark
from services.writer.kafka.cluster import Cluster
from services.writer.kafka.producer import RecordMetadata
from services.writer.model.next_offsets import Committed
from services.writer.observe.status import Status
from services.writer.park.diverted_topic import EmptyRanges, RangeMarker, parse_header
from services.writer.partitions.plan_log import PlanLog
from services.writer.partitions.quarantine import Strikes
from services.writer.postgres.database import Database
from services.writer.settings import WriterSettings
from services.writer.settle.event_type_pauses import PausePolicy
from shared import wire
from shared.kafka_read.offsets import Partition
from shared.settings import KafkaSettings


class Successor:
    """Builds the parts of a writer that takes over, for each of its sessions."""

    def __init__(
        self,
        settings: WriterSettings,
        kafka: KafkaSettings,
        configured: Sequence[Database],
        status: Status,
    ) -> None:
        self._settings = settings
        self._brokers = kafka.brokers
        self._configured = configured
        self._status = status
        self._pause_policy = PausePolicy(
            settings.pause_share, settings.pause_window, settings.pause_min_events
        )
        self._strikes = Strikes()
        #: The id of this process, which plans record; all its sessions share it.
        self._process = uuid4().hex

    async def take_over(
        self, cluster: Cluster, spark: Spark, group: Mapping[Partition, Committed], epoch: int
    ) -> Parts:
        """Return the parts of a new session.

        Invariant: `group`, the group's offsets, was read before `epoch` was taken, and the markers
        are read to their end after it (the model's rule `group_then_markers`).
        """
        plan_log, index = await _read_logs(cluster, self._process)
        rate_limiter = RateLimiter(
            {d.name: d.max_rows_per_second for d in self._configured if d.max_rows_per_second}
        )
        drainer = self._drainer(cluster, index, rate_limiter, epoch)
        databases = Databases(
            self._configured,
            plan_log=plan_log,
            index=index,
            drainer=drainer,
            rate_limiter=rate_limiter,
            epoch=epoch,
            brokers=self._brokers,
            cluster_id=await cluster.cluster_id(),
            event_lines=self._settings.event_lines_at_level,
        )
        self._status.update_unknown_databases(databases.unknown())
        for database in self._configured:
            self._status.update_connection_limit(database, spark.slots)
        partitions = PartitionTracker(
            cluster=cluster,
            databases=databases,
            plan_log=plan_log,
            group=group,
            epoch=epoch,
            index=index,
            rate_limiter=rate_limiter,
            fair_share=FairShare(),
            sizes=ByteSizes(self._settings.batch_bytes),
        )
        return Parts(
            spark=spark,
            cluster=cluster,
            databases=databases,
            plan_log=plan_log,
            index=index,
            partitions=partitions,
            brokers=self._brokers,
            epoch=epoch,
            status=self._status,
            rate_limiter=rate_limiter,
            pause_policy=self._pause_policy,
            event_lines=self._settings.event_lines_at_level,
            retire=Retire(
                cluster,
                databases,
                plan_log,
                index,
                drainer=drainer,
                brokers=self._brokers,
                record=partitions.record,
                event_lines=self._settings.event_lines_at_level,
            ),
            strikes=self._strikes,
        )

    def _drainer(
        self, cluster: Cluster, index: DivertedIndex, rate_limiter: RateLimiter, epoch: int
    ) -> Drainer:
        return Drainer(
            cluster,
            index,
            rate_limiter,
            epoch=epoch,
            brokers=self._brokers,
            pause_policy=self._pause_policy,
            on_reports=self._status.update_steps,
            event_lines=self._settings.event_lines_at_level,
        )


async def _read_logs(cluster: Cluster, process: str) -> tuple[PlanLog, DivertedIndex]:
    """Read `onramp.settled` and the markers on `onramp.system_errors` to their ends."""
    plan_log, index = PlanLog(process=process), DivertedIndex()
    async for record in cluster.log(wire.SETTLED):
        plan_log.read_to = record.offset + 1
        if not plan_log.read(record.key, record.value):
            cluster.foreign.pass_over(wire.SETTLED, record.partition, record.offset)
    async for record in cluster.log(wire.SYSTEM_ERRORS):
        header = parse_header(dict(record.headers))
        if header is None:
            cluster.foreign.pass_over(wire.SYSTEM_ERRORS, record.partition, record.offset)
        elif isinstance(header, (RangeMarker, EmptyRanges)) and not plan_log.retirements.is_over(
            header.database, record.partition, record.offset
        ):
            index.add(header, RecordMetadata(record.partition, record.offset), record.timestamp / 1000)
    return plan_log, index
