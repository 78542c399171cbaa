"""Constructs the lake service and stops it in reverse order.  Nothing else constructs anything."""

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from services.lake.driver.kafka_cluster import LakeCluster
from services.lake.driver.loop import Loop, Parts
from services.lake.driver.partitions import Partitions
from services.lake.driver.spark import Jobs
from services.lake.observe.status import LakeStatus
from services.lake.settings import LakeSettings
from shared.lake.storage import Storage
from shared.registry import Registry
from shared.settings import KafkaSettings
from shared.spark.driver_process import DriverProcess

log = logging.getLogger(__name__)


class LakeProcess(DriverProcess[Jobs]):
    """Starts sessions of the driver until one ends for good."""

    def __init__(
        self,
        settings: LakeSettings,
        storage: Storage,
        kafka: KafkaSettings,
        registry: Registry,
        jobs: Callable[[], Jobs],
    ) -> None:
        """`jobs` starts Spark, which takes seconds."""
        self.status = LakeStatus(settings.new_counter_seconds)
        super().__init__(self.status, settings, registry, jobs)
        self._settings = settings
        self._storage = storage
        self._kafka = kafka

    async def _session(self, jobs: Jobs) -> None:
        """Connect, take over, and run the loop until the service is stopped or an error ends the session."""
        async with AsyncExitStack() as stack:
            cluster = LakeCluster(self._kafka)
            stack.push_async_callback(cluster.stop)
            await cluster.start()
            lake_log = await cluster.read_log()
            parts = Parts(
                settings=self._settings,
                storage=self._storage,
                brokers=self._kafka.brokers,
                owner=await cluster.cluster_id(),
                registry=self._registry,
                jobs=jobs,
                cluster=cluster,
                lake_log=lake_log,
                partitions=Partitions(cluster, lake_log, await cluster.group_offsets()),
                status=self.status,
                stop=self._stop,
            )
            log.info("the lake takes over", extra={"storage": self._storage.url})
            await Loop(parts, on_turn=self._backoff.succeed).run()
