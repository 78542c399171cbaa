"""Constructs the agent and stops it in reverse order; no other module constructs its parts."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.applications import Starlette

from services.cdc.agent.connect_api import ConnectApi
from services.cdc.agent.connector import Rendering, TopicSettings
from services.cdc.agent.kafka_topics import ChangeTopics
from services.cdc.agent.metrics import AgentMetrics
from services.cdc.agent.pages import pages
from services.cdc.agent.reconcile import Reach, SourceReconciler
from services.cdc.agent.settings import AgentSettings
from services.cdc.agent.source_sql import SourceDatabase
from services.cdc.agent.source_state_sql import StateStore
from services.cdc.agent.watch import Watch
from shared.postgres.source_dsns import SourceDsns
from shared.registry import Registry
from shared.registry.sources import Source
from shared.settings import KafkaSettings


def create(
    settings: AgentSettings, kafka: KafkaSettings, registry: Registry, databases: Mapping[str, str]
) -> Starlette:
    """Return the agent's application, which watches the sources for as long as it runs.

    `databases`: DSNs by public name, the default one first.
    """
    topic_settings = TopicSettings(
        replication=kafka.replication,
        min_insync=kafka.min_insync,
        retention_ms=settings.topic_retention_hours * 3_600_000,
    )
    topics = ChangeTopics(kafka.brokers, topic_settings)
    rendering = Rendering(brokers=kafka.brokers, topics=topic_settings, secrets=settings.dsn_folder)
    default = next(iter(databases))

    def make_reconciler(name: str, source: Source, dsn: str) -> SourceReconciler:
        reach = Reach(
            database=SourceDatabase(name, source, dsn),
            store=StateStore(name, source.dsn_env, databases[source.database or default]),
            connect=ConnectApi(settings.connect_url),
            topics=topics,
            rendering=rendering,
        )
        return SourceReconciler(name, source, reach)

    metrics = AgentMetrics()
    dsns = SourceDsns(settings.dsn_folder)
    watch = Watch(
        registry, databases, make_reconciler, metrics, poll_seconds=settings.poll_seconds, dsns=dsns
    )
    application = pages(watch, metrics.registry)
    application.router.lifespan_context = _watching(watch)
    return application


def _watching(watch: Watch) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        thread = threading.Thread(target=watch.run, name="watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            watch.stop()
            await asyncio.to_thread(thread.join)

    return lifespan
