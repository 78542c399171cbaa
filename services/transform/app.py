"""Constructs the transform service and stops it in reverse order.  Nothing else constructs anything."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Final

from services.transform.driver.kafka_lags import Lags
from services.transform.driver.kafka_output_topics import OutputTopics
from services.transform.driver.kafka_states import States
from services.transform.driver.kafka_totals import TotalsFollower
from services.transform.driver.lane_jobs import Jobs
from services.transform.driver.lookup_snapshots import LookupSnapshots, Read
from services.transform.driver.loop import Driver, Parts
from services.transform.driver.outcome_watch import OutcomeWatch
from services.transform.observe.status import Status
from services.transform.settings import TransformSettings
from shared.kafka_own_topics import OwnTopics
from shared.kafka_read.any_broker import AnyBroker
from shared.registry import Registry
from shared.settings import KafkaSettings
from shared.spark.driver_process import DriverProcess
from shared.topics import TRANSFORM_TOPICS

#: Threads that wait for runs: lanes of all transforms at a time.
_MAX_RUNS: Final = 256


class TransformProcess(DriverProcess[Jobs]):
    """Starts sessions of the driver until one ends for good."""

    def __init__(
        self,
        settings: TransformSettings,
        kafka: KafkaSettings,
        registry: Registry,
        jobs: Callable[[], Jobs],
        read_lookup: Read,
    ) -> None:
        """`jobs` starts Spark, which takes seconds."""
        self.status = Status()
        super().__init__(self.status, settings, registry, jobs)
        self._settings = settings
        self._kafka = kafka
        self._read_lookup = read_lookup
        self._threads = ThreadPoolExecutor(_MAX_RUNS, "lane-run")
        self._driver: Driver | None = None
        #: Counters of the process continue across sessions.
        self._watch = OutcomeWatch(self.status.metrics)

    def stop(self) -> None:
        """End the session and the process."""
        super().stop()
        if self._driver is not None:
            self._driver.wake()

    async def run(self, *, handle_signals: bool = True) -> int:
        """Run, and wait for the threads of the last runs."""
        with self._threads:
            return await super().run(handle_signals=handle_signals)

    async def _session(self, jobs: Jobs) -> None:
        """Connect, and run the loop, until the service is stopped or an error ends the session."""
        brokers = self._kafka.brokers
        async with AsyncExitStack() as stack:
            admin = AnyBroker(brokers)
            stack.push_async_callback(admin.close)
            await admin.start()
            await OwnTopics(admin, self._kafka, TRANSFORM_TOPICS).ensure()
            states, totals, lags = States(brokers), TotalsFollower(brokers), Lags(brokers)
            for part in (states, totals, lags):
                stack.push_async_callback(part.stop)
                await part.start()
            self._watch.begin(totals.positions)
            lookups = LookupSnapshots(jobs, self._read_lookup, self.status.metrics)
            stack.push_async_callback(lookups.stop)
            self._driver = Driver(
                Parts(
                    settings=self._settings,
                    brokers=brokers,
                    registry=self._registry,
                    jobs=jobs,
                    threads=self._threads,
                    states=states,
                    totals=totals,
                    lags=lags,
                    topics=OutputTopics(self._kafka),
                    lookups=lookups,
                    watch=self._watch,
                    status=self.status,
                    stop=self._stop,
                )
            )
            await self._driver.run()
            self._backoff.succeed()
