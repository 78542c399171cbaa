"""Constructs the gateway and stops it in reverse order.  Nothing else constructs anything.

The order of stopping matters: the server has answered what it took before the lifespan
ends; then syslog stops taking, because its messages need the sink; the sink stops last.
"""

import asyncio
import gc
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypedDict

from fastapi import FastAPI

from services.ingest.accept import Flow
from services.ingest.asgi import AsgiReceive, AsgiSend, Scope
from services.ingest.auth.api_keys import ApiKeys
from services.ingest.auth.loopback import Doorstep, is_loopback
from services.ingest.auth.new_names import NewNameLimit
from services.ingest.auth.quota_levels import shared_levels
from services.ingest.auth.quotas import Quotas
from services.ingest.check.check import Checker
from services.ingest.check.json_schema import Compiler
from services.ingest.decode.decode import Limits
from services.ingest.http import problems
from services.ingest.http.admin_port import ADMIN, AdminPort, refuse_hidden
from services.ingest.http.drain import Leaving
from services.ingest.http.endpoint import Events, new_request_id
from services.ingest.http.pages import pages
from services.ingest.observe.metrics import INFLIGHT_BYTES, RegistryInfo, Seen
from services.ingest.observe.rejection_log import RejectionLog
from services.ingest.observe.tallies import fold
from services.ingest.safety import refuse_unsafe
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.send.kafka_sink import KafkaSink
from services.ingest.send.partition_queue import BatchOptions
from services.ingest.settings import IngestSettings
from services.ingest.sink import Sink
from services.ingest.syslog.listener import Syslog
from shared import wire
from shared.errors import UserError
from shared.logs import set_up
from shared.registry import Registry
from shared.registry.file import FileRegistry
from shared.registry.port import Check
from shared.settings import KafkaSettings, RegistrySettings

logger = logging.getLogger(__name__)

#: For syslog's last messages, and for whatever of theirs is still on its way to Kafka; with
#: closing the producer by force, less than `settings.STOP_SECONDS`.
_LAST_SECONDS: Final = 1.0
#: A revoked key is refused within two seconds.
_REFRESH_SECONDS: Final = 0.5
_TURN_SECONDS: Final = 0.001
_GC_ALLOCATIONS: Final = 50_000


class State(TypedDict):
    """What the lifespan hands to the HTTP protocol."""

    settings: IngestSettings
    leaving: Leaving


Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[State]]


@dataclass(frozen=True, slots=True)
class Gateway:
    """The ASGI application: the hot path first, FastAPI for the rest."""

    events: Events
    flow: Flow
    senders: ApiKeys
    settings: IngestSettings
    rest: FastAPI

    async def __call__(self, scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["path"] == "/v1/events" and ADMIN not in scope:
            await self.events(scope, receive, send)
        elif scope["type"] != "http" or await self._welcome(scope, send):
            await self.rest(scope, receive, send)

    async def _welcome(self, scope: Scope, send: AsgiSend) -> bool:
        try:
            self.senders.guard(scope["headers"])
            refuse_hidden(scope, self.settings)
        except UserError as refusal:
            await problems.answer(refusal, new_request_id(), 1).give(send)
            return False
        return True


def create() -> Gateway:
    """The gateway of this process, set up from the environment (uvicorn's workers call this)."""
    _calm_garbage_collection()
    _share_turns()
    settings, kafka = IngestSettings(), KafkaSettings()
    set_up("ingest", settings.log_level)
    compiler = Compiler()
    registry = open_registry(compiler)
    refuse_unsafe(settings, kafka, registry)
    budget = ByteBudget(settings.inflight_bytes)
    leaving = Leaving(settings.drain_seconds)
    quotas = Quotas(settings.copies, shared_levels())
    admin = AdminPort(settings, leaving)
    sink = KafkaSink(
        kafka,
        budget,
        deadline_seconds=settings.deadline_seconds,
        wedged_seconds=settings.wedged_seconds,
        partitions_of=_partitions_of(registry),
        options=BatchOptions(settings.linger_ms / 1000, settings.compression),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[State]:
        await sink.start()
        await syslog.start()
        await admin.start(gateway)
        watching = asyncio.create_task(_watch(registry, budget), name="registry-watch")
        try:
            with leaving.on_sigterm():
                yield {"settings": settings, "leaving": leaving}
        finally:
            watching.cancel()
            admin.stop()
            await syslog.stop(within=_LAST_SECONDS)
            await sink.stop(within=_LAST_SECONDS)
            fold()  # the other workers go on showing what this one counted

    gateway = assemble(
        settings, sink, budget, registry, lifespan, compiler=compiler, leaving=leaving, quotas=quotas
    )
    syslog = Syslog(gateway.flow, settings, RejectionLog(log_events=settings.log_events), quotas)
    return gateway


def assemble(
    settings: IngestSettings,
    sink: Sink,
    budget: ByteBudget,
    registry: Registry,
    lifespan: Lifespan,
    *,
    compiler: Compiler | None = None,
    leaving: Leaving | None = None,
    quotas: Quotas | None = None,
) -> Gateway:
    """A gateway on any sink and registry."""
    schemas = (compiler or Compiler()).of
    checker = Checker(registry.snapshot, schemas, NewNameLimit(), settings.max_event_bytes)
    flow = Flow(sink, checker, Limits(settings.max_batch, settings.max_event_bytes))
    senders = ApiKeys(
        registry,
        quotas or Quotas(settings.copies),
        settings.dev_key.get_secret_value(),
        doorstep=_doorstep(settings),
    )
    log = RejectionLog(log_events=settings.log_events)
    events = Events(flow=flow, senders=senders, budget=budget, settings=settings, log=log, seen=Seen())
    rest = pages(sink, settings.retry_after_seconds, lifespan, leaving or Leaving())
    return Gateway(events, flow, senders, settings, rest)


def open_registry(check: Check) -> FileRegistry:
    """The registry that the settings name.  Raises `RegistryFileError`."""
    settings = RegistrySettings()
    return FileRegistry(settings.file, check, named=settings.named)


def _doorstep(settings: IngestSettings) -> Doorstep | None:
    """What stands in for keys; None where nothing does, whatever becomes of the keys while it runs."""
    near = settings.profile == "dev" and is_loopback(settings.host)
    if near or settings.allow_anonymous:
        return Doorstep(settings.origins, any_host=settings.allow_anonymous)
    return None


def _calm_garbage_collection() -> None:
    """Look for cycles rarely: a batch makes thousands of objects and none of them is in a cycle.

    The default of every 700 allocations costs a fifth of a batch's CPU time.
    """
    gc.freeze()
    gc.set_threshold(_GC_ALLOCATIONS, 20, 100)


def _share_turns() -> None:
    """Let the event loop wait shorter than the default of 5 ms for a thread that judges a heavy body."""
    sys.setswitchinterval(_TURN_SECONDS)


def _partitions_of(registry: Registry) -> Callable[[str], int | None]:
    def partitions_of(topic: str) -> int | None:
        for name, event_type in registry.snapshot().event_types.items():
            if topic == (event_type.topic or wire.topic_of(name)):
                return event_type.partitions
        return None

    return partitions_of


async def _watch(registry: Registry, budget: ByteBudget) -> None:
    info = RegistryInfo()
    while True:
        try:
            # In a thread: thousands of keys take seconds to read, and nobody may wait for that.
            await asyncio.to_thread(registry.refresh)
        except Exception:
            logger.exception("the registry could not be looked at; the old one stays")
        info.show(registry.snapshot().digest)
        INFLIGHT_BYTES.set(budget.held)
        fold()
        await asyncio.sleep(_REFRESH_SECONDS)
