"""Constructs the gateway and stops it in reverse order.  Nothing else constructs anything.

The order of stopping matters: the server has answered all requests before the lifespan
ends; then syslog stops to receive, because its messages need the sink; the sink stops last.
"""

import asyncio
import gc
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypedDict

from fastapi import FastAPI

from services.ingest.accept import Flow
from services.ingest.asgi import AsgiReceive, AsgiSend, Scope
from services.ingest.auth.api_keys import ApiKeys
from services.ingest.auth.loopback import KeylessAccess, is_loopback
from services.ingest.auth.new_names import NewNameLimit
from services.ingest.auth.quota_levels import shared_levels
from services.ingest.auth.quotas import Quotas
from services.ingest.check.check import Checker
from services.ingest.decode.decode import Limits
from services.ingest.http import problems
from services.ingest.http.admin_port import ADMIN, AdminPort, reject_hidden
from services.ingest.http.connections import Connections
from services.ingest.http.drain import Drain
from services.ingest.http.endpoint import Events, new_request_id
from services.ingest.http.pages import routes
from services.ingest.observe import figures
from services.ingest.observe.metrics import (
    CONNECTIONS,
    CONNECTIONS_LIMIT,
    INFLIGHT_BYTES,
    INFLIGHT_BYTES_LIMIT,
    KAFKA_REACHABLE,
    PROCESS,
    EventCounts,
    RegistryInfo,
    RequestMetrics,
)
from services.ingest.observe.rejection_log import RejectionLog
from services.ingest.observe.tallies import fold
from services.ingest.process import interpreter
from services.ingest.process.open_files import connection_limit, raise_limit
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.send.kafka_sink import KafkaSink
from services.ingest.send.partition_queue import BatchOptions
from services.ingest.settings import IngestSettings
from services.ingest.sink import Sink
from services.ingest.syslog.listener import Syslog
from services.ingest.unsafe_setups import require_safe
from shared import wire
from shared.contracts.type_schemas import Compiler
from shared.errors import UserError
from shared.logs import set_up
from shared.malloc import return_large_blocks
from shared.registry import Registry
from shared.registry.factory import open_registry
from shared.registry.texts import milliseconds
from shared.settings import AccessSettings, KafkaSettings, RegistrySettings
from shared.topics import TopicSpec, event_topic

logger = logging.getLogger(__name__)

#: Maximum wait for syslog's last messages, and again for those still on their way to
#: Kafka; with closing the producer by force, less than `settings.STOP_SECONDS`.
_LAST_SECONDS: Final = 1.0
#: Often enough that a revoked key is rejected within two seconds.
_REFRESH_SECONDS: Final = 0.5
#: A worker that cannot read the registry in this time serves without it: 503, and /healthz.
_FIRST_POLL_SECONDS: Final = 5.0
#: Pages do not wait longer for a check of an unreachable Kafka.
_POLL_SECONDS: Final = 1.0
_KAFKA_SECONDS: Final = 10.0


class State(TypedDict):
    """The lifespan's state, which uvicorn passes to the HTTP protocol."""

    settings: IngestSettings
    drain: Drain
    budget: ByteBudget
    connections: Connections
    tls: ssl.SSLContext | None


Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[State]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The ASGI application: `/v1/events` directly, FastAPI for the other routes."""

    events: Events
    flow: Flow
    api_keys: ApiKeys
    settings: IngestSettings
    rest: FastAPI

    async def __call__(self, scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["path"] == "/v1/events" and ADMIN not in scope:
            await self.events(scope, receive, send)
        elif scope["type"] != "http" or await self._admits(scope, send):
            await self.rest(scope, receive, send)

    async def _admits(self, scope: Scope, send: AsgiSend) -> bool:
        """Return whether the request may continue; if not, answer it."""
        try:
            self.api_keys.check_keyless(scope["headers"])
            reject_hidden(scope, self.settings)
        except UserError as error:
            answer = problems.answer(error, new_request_id(), self.settings.retry_after_seconds)
            await answer.send(send)
            return False
        return True


def create() -> Gateway:
    """Construct the gateway of this process from the environment (uvicorn's workers call this)."""
    interpreter.tune()
    return_large_blocks()
    settings, kafka, access = IngestSettings(), KafkaSettings(), AccessSettings()
    set_up("ingest", settings.log_level)
    compiler = Compiler()
    registry = open_registry(RegistrySettings(), kafka, compiler)
    require_safe(settings, kafka)
    budget = ByteBudget(settings.inflight_bytes)
    raise_limit(settings)
    connections = Connections(connection_limit(settings), settings.max_connections_per_address)
    state: State = {
        "settings": settings,
        "drain": Drain(settings.drain_seconds),
        "budget": budget,
        "connections": connections,
        "tls": settings.tls(),
    }
    drain = state["drain"]
    quotas = Quotas(settings.replicas, shared_levels())
    counts = EventCounts()
    admin = AdminPort(settings, state)
    sink = KafkaSink(
        kafka,
        budget,
        deadline_seconds=settings.deadline_seconds,
        stuck_producer_seconds=settings.stuck_producer_seconds,
        spec_of=_spec_of(registry),
        options=BatchOptions(settings.linger_ms / 1000, settings.compression),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[State]:
        await sink.start()
        await admin.start(gateway)
        # Connections are accepted afterwards: a worker that has read the registry serves meanwhile.
        first = asyncio.ensure_future(asyncio.to_thread(registry.refresh))
        await asyncio.wait({first}, timeout=_FIRST_POLL_SECONDS)
        # Last: SIGTERM before this line ends the process without a flush (`process/server`).
        await syslog.start()
        watching = asyncio.create_task(
            _watch(registry, budget, connections, first, settings.new_counter_seconds), name="registry-watch"
        )
        PROCESS.show_build()
        measuring = asyncio.create_task(PROCESS.watch("gateway"), name="process-watch")
        asking = asyncio.create_task(_watch_kafka(sink), name="kafka-watch")
        try:
            with drain.on_sigterm():
                yield state
        finally:
            watching.cancel()
            measuring.cancel()
            asking.cancel()
            admin.stop()
            await syslog.stop(within=_LAST_SECONDS)
            await sink.stop(within=_LAST_SECONDS)
            fold(0.0)  # the other workers keep serving this worker's counts
            figures.publish()
            registry.close()  # last: Kafka may delay its end, and no accepted event waits for that

    gateway = assemble(
        settings,
        sink=sink,
        budget=budget,
        registry=registry,
        lifespan=lifespan,
        compiler=compiler,
        drain=drain,
        quotas=quotas,
        events=counts,
        allow_keyless=access.allow_keyless,
    )
    log = RejectionLog(settings.event_lines_at_level)
    syslog = Syslog(gateway.flow, settings, log, events=counts, quotas=quotas)
    return gateway


def assemble(
    settings: IngestSettings,
    *,
    sink: Sink,
    budget: ByteBudget,
    registry: Registry,
    lifespan: Lifespan,
    compiler: Compiler | None = None,
    drain: Drain | None = None,
    quotas: Quotas | None = None,
    events: EventCounts | None = None,
    allow_keyless: bool = False,
) -> Gateway:
    """Construct a gateway on any sink and registry."""
    schemas = (compiler or Compiler()).for_snapshot
    checker = Checker(registry.snapshot, schemas, NewNameLimit(), settings.max_event_bytes)
    flow = Flow(sink=sink, checker=checker, limits=Limits(settings.max_batch, settings.max_event_bytes))
    api_keys = ApiKeys(
        registry,
        quotas or Quotas(settings.replicas),
        settings.dev_key.get_secret_value(),
        keyless=_keyless_access(settings) if allow_keyless else None,
    )
    log = RejectionLog(settings.event_lines_at_level)
    endpoint = Events(
        flow=flow,
        api_keys=api_keys,
        budget=budget,
        settings=settings,
        log=log,
        metrics=RequestMetrics(events or EventCounts()),
    )
    rest = routes(
        sink,
        registry,
        settings.retry_after_seconds,
        lifespan=lifespan,
        drain=drain or Drain(),
        new_counter_seconds=settings.new_counter_seconds,
    )
    return Gateway(events=endpoint, flow=flow, api_keys=api_keys, settings=settings, rest=rest)


def _keyless_access(settings: IngestSettings) -> KeylessAccess:
    """Return the rule for requests without a key while there is none."""
    return KeylessAccess(settings.origins, any_host=not is_loopback(settings.host))


def _spec_of(registry: Registry) -> Callable[[str], TopicSpec]:
    def spec_of(topic: str) -> TopicSpec:
        for name, event_type in registry.snapshot().event_types.items():
            if topic == (event_type.topic or wire.topic_of(name)):
                keeps = milliseconds(event_type.retention) if event_type.retention else None
                return event_topic(topic, event_type.partitions or 0, keeps)
        return event_topic(topic)

    return spec_of


async def _watch_kafka(sink: Sink) -> None:
    while True:
        KAFKA_REACHABLE.set((await sink.health()).reachable)
        await asyncio.sleep(_KAFKA_SECONDS)


async def _watch(
    registry: Registry,
    budget: ByteBudget,
    connections: Connections,
    looking: asyncio.Future[bool] | None = None,
    new_counter_seconds: float = 0.0,
) -> None:
    info = RegistryInfo()
    is_frozen = False
    while True:
        # In a thread: reading thousands of keys takes seconds, and no request may wait for that.
        looking = looking or asyncio.ensure_future(asyncio.to_thread(registry.refresh))
        await asyncio.wait({looking}, timeout=_POLL_SECONDS)
        if looking.done():
            if failure := looking.exception():
                logger.error("registry refresh failed; keeping the previous registry", exc_info=failure)
            looking = None
            if registry.is_read and not is_frozen:
                gc.freeze()  # a full collection over thousands of types takes tens of milliseconds
                is_frozen = True
        info.show(registry)
        INFLIGHT_BYTES.set(budget.used)
        INFLIGHT_BYTES_LIMIT.set(budget.limit)
        CONNECTIONS.set(connections.open)
        CONNECTIONS_LIMIT.set(connections.limit)
        fold(new_counter_seconds)
        figures.publish()
        await asyncio.sleep(_REFRESH_SECONDS)
