"""Constructs the admin service and stops it in reverse order.  Nothing else constructs anything.

The ingester and the API share only the control database: the API answers while Kafka is unreachable, and
while another replica runs the ingester.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI

from services.admin.api.app import api
from services.admin.api.journey import add_journey
from services.admin.api.lake_journeys import LakeJourneys
from services.admin.api.metrics import AdminMetrics
from services.admin.api.operators import Operators
from services.admin.api.statement import add_statement
from services.admin.audits.runner import AuditRunner
from services.admin.background_tasks import UntilStopped
from services.admin.dead_letters.ingester import DeadLetterIngester
from services.admin.dead_letters.segment_packer import Packer
from services.admin.figures.lake_watch import LakeWatch
from services.admin.figures.settings import FiguresSettings
from services.admin.figures.tracers_watch import TracersWatch
from services.admin.figures.transforms_watch import TransformsWatch
from services.admin.figures.watch import FiguresWatch
from services.admin.group_rehearsals.scheduler import RehearsalScheduler
from services.admin.jobs.runner import JobRunner
from services.admin.registry_api.routes import add_registry
from services.admin.registry_watch import RegistryWatch
from services.admin.samples_api.routes import add_samples
from services.admin.segments.folder import Segments
from services.admin.settled_watch import SettledWatch
from services.admin.statements.day_statements import DayStatements
from services.admin.statements.hourly_readings import HourlyReadings
from services.admin.statements.period import Statements
from services.admin.ui.app import add_ui
from services.admin.waiting_api.routes import add_waiting
from services.ops.journey.finder import Finder, topics_of
from services.ops.lake.landed_offsets import LandedOffsetsReader
from services.ops.operate.kafka_retire import RetiredDatabases
from services.ops.registry.registry_reader import RegistryReader
from services.ops.settled.reader import SettledReader
from services.ops.transforms.reader import TransformReader
from shared.kafka_security import Brokers
from shared.lake.storage import Storage
from shared.postgres.source_dsns import SourceDsns
from shared.registry import Registry

#: Maximum age of Kafka's log of settled work, as a page shows it: the figures follow it.
_MAX_AGE_SECONDS: Final = 15.0
#: Seconds that segment work has to end on shutdown; the next process continues it.
_STOP_SECONDS: Final = 3.0


def create(
    brokers: Brokers,
    dsn: str,
    databases: Mapping[str, str],
    registry: Registry,
    segments: Segments | None = None,
    *,
    desk: RegistryReader,
    keyless: bool = False,
    dev_key: str = "",
    rehearsals_per_hour: int,
    source_dsns: SourceDsns,
    statement_days: int = 0,
    figures: FiguresSettings,
    lake: Storage | None = None,
) -> FastAPI:
    """Return the service's application, which runs the ingester and the jobs during its lifespan.

    A `keyless` application without operators at its start accepts every program of this machine until an
    operator exists; the holder of `dev_key` may do everything.  `figures`: services whose figures are shown.
    `lake`: the storage of the lake that journeys include.
    """
    ingester, packer = DeadLetterIngester(brokers, dsn), Packer(dsn, segments)
    jobs = JobRunner(dsn, databases, registry, segments, RetiredDatabases(brokers), brokers=brokers)
    audits = AuditRunner(dsn, databases, brokers.bootstrap)
    rehearsals = RehearsalScheduler(dsn, databases, registry, segments, per_hour=rehearsals_per_hour)
    settled = SettledReader()
    transform_reader, landed_reader = TransformReader(brokers), LandedOffsetsReader(brokers)
    readings = HourlyReadings(
        brokers,
        dsn,
        databases,
        days=statement_days,
        settled=settled,
        transforms=transform_reader,
        lake=landed_reader,
    )
    operators = Operators(registry, keyless=keyless, dev_key=dev_key)
    watch = RegistryWatch(registry, operators.see)
    figures_watch = FiguresWatch(figures, brokers, dsn, databases, settled)
    tracers_watch = TracersWatch(figures.tracers())
    transforms_watch = TransformsWatch(transform_reader, operators.registry)
    lake_watch = LakeWatch(figures.lake(), operators.registry)
    statements = Statements(
        brokers, dsn, databases, settled, transform_reader, landed_reader, operators.registry
    )
    day_statements = DayStatements(statements)

    finder = Finder(
        brokers,
        databases,
        dsn,
        topics_of(registry.snapshot),
        lambda: registry.snapshot().event_types,
        lambda: registry.snapshot().transforms,
        settled=settled,
    )

    metrics = AdminMetrics()

    parts: tuple[UntilStopped, ...] = (
        watch,
        ingester,
        packer,
        jobs,
        audits,
        rehearsals,
        readings,
        SettledWatch(brokers, settled),
        figures_watch,
        tracers_watch,
        transforms_watch,
        lake_watch,
        day_statements,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        metrics.process.show_build()
        measuring = asyncio.create_task(metrics.process.watch("admin"), name="process-watch")
        tasks = [asyncio.create_task(part.run()) for part in parts]
        try:
            yield
        finally:
            measuring.cancel()
            for part in reversed(parts):
                part.stop()
            if segments:
                await asyncio.wait(tasks, timeout=_STOP_SECONDS)
                segments.end()
            await asyncio.gather(*tasks)
            registry.close()
            desk.close()

    app = api(
        dsn, databases, ingester.status, operators, lifespan=lifespan, segments=segments, metrics=metrics
    )
    add_registry(app, dsn, desk, transform_reader)
    add_samples(app, dsn, desk)
    add_waiting(
        app,
        dsn,
        desk,
        source_dsns,
        writers=figures.writers(),
        settled=settled,
        read_offsets=figures_watch.totals.last_unsettled,
        max_age_seconds=_MAX_AGE_SECONDS,
    )
    add_journey(app, finder, None if lake is None else LakeJourneys(lake, operators.registry))
    app.state.figures, app.state.registry = figures_watch, operators.registry
    app.state.tracers, app.state.day_statements = tracers_watch, day_statements
    app.state.transforms = transforms_watch
    app.state.lake = lake_watch
    add_ui(app, dsn, operators)
    add_statement(app, statements, registry)
    return app
