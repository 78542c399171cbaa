"""What a writer begins with: the group's offsets, what its predecessors left, and the parts made of them."""

from collections.abc import Mapping, Sequence

from services.writer.driver.partitions import PartitionTracker
from services.writer.driver.parts import Parts
from services.writer.driver.spark import Spark
from services.writer.kafka.cluster import Cluster
from services.writer.kafka.producer import RecordMetadata
from services.writer.model.next_offsets import Committed
from services.writer.model.offsets import Partition
from services.writer.observe.status import Status
from services.writer.park.diverted_topic import EmptyRanges, RangeMarker, parse_header
from services.writer.partitions.plan_log import Settled
from services.writer.partitions.set_aside import Strikes
from services.writer.plan.byte_sizes import ByteSizes
from services.writer.plan.fair_share import FairShare
from services.writer.plan.row_rates import RowRates
from services.writer.postgres.database import Database
from services.writer.recover.databases import Databases
from services.writer.recover.diverted_index import DivertedIndex
from services.writer.recover.drain import Drainer
from services.writer.settings import WriterSettings
from services.writer.settle.pause_policy import PausePolicy
from shared import wire
from shared.settings import KafkaSettings


class Successor:
    """Makes the parts of a writer that takes over, as often as its session begins again."""

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
        self._pausing = PausePolicy(settings.pause_share, settings.pause_window, settings.pause_least)
        self._strikes = Strikes()

    async def take_over(
        self, positions: Cluster, spark: Spark, group: Mapping[Partition, Committed], epoch: int
    ) -> Parts:
        """The parts of a new session.

        `group`: the group's offsets, read before `epoch` was taken; what the predecessors left is
        read after it (the model's order).
        """
        settled, index = await _left(positions)
        rates = RowRates({d.name: d.max_rows_per_second for d in self._configured if d.max_rows_per_second})
        databases = Databases(
            self._configured,
            settled=settled,
            index=index,
            drainer=self._drainer(positions, index, rates, epoch),
            rates=rates,
            epoch=epoch,
            brokers=self._brokers,
            cluster_id=await positions.cluster_id(),
        )
        self._status.see_unknown(databases.unknown())
        for database in self._configured:
            self._status.limit(database, spark.slots)
        return Parts(
            spark=spark,
            positions=positions,
            databases=databases,
            settled=settled,
            index=index,
            view=PartitionTracker(
                positions,
                spark,
                databases,
                settled,
                group,
                epoch=epoch,
                index=index,
                rates=rates,
                turns=FairShare(self._settings.small_batch),
                sizes=ByteSizes(self._settings.batch_bytes),
            ),
            brokers=self._brokers,
            epoch=epoch,
            status=self._status,
            rates=rates,
            pausing=self._pausing,
            log_events=self._settings.log_events,
            small_batch=self._settings.small_batch,
            strikes=self._strikes,
        )

    def _drainer(self, positions: Cluster, index: DivertedIndex, rates: RowRates, epoch: int) -> Drainer:
        return Drainer(
            positions,
            index,
            rates,
            epoch=epoch,
            brokers=self._brokers,
            pausing=self._pausing,
            worked=self._status.worked,
            log_events=self._settings.log_events,
        )


async def _left(positions: Cluster) -> tuple[Settled, DivertedIndex]:
    """What the predecessors' logs say: of plans and counts, and of what waits."""
    settled, index = Settled(), DivertedIndex()
    async for record in positions.log(wire.SETTLED):
        settled.upto = record.offset + 1
        if not settled.read(record.key, record.value):
            positions.foreign.pass_over(wire.SETTLED, record.partition, record.offset)
    async for record in positions.log(wire.SYSTEM_ERRORS):
        head = parse_header(dict(record.headers))
        if head is None:
            positions.foreign.pass_over(wire.SYSTEM_ERRORS, record.partition, record.offset)
        elif isinstance(head, (RangeMarker, EmptyRanges)):
            index.add(head, RecordMetadata(record.partition, record.offset), record.timestamp / 1000)
    return settled, index
