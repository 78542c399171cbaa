"""Constructs the tracer and stops it in reverse order.  Nothing else constructs anything."""

import asyncio
import signal
import time
from collections.abc import Mapping

from services.tracer.entrances import FORMS, HttpEntrance
from services.tracer.journal import Journal
from services.tracer.kafka_packets import Packets
from services.tracer.lake_rows import LakeRows
from services.tracer.metrics import TracerMetrics
from services.tracer.pages import TracerServer
from services.tracer.results import Limits
from services.tracer.rounds import Rounds
from services.tracer.rows_sql import Rows
from services.tracer.settings import TracedSettings, TracerSettings
from services.tracer.transform_entrance import TransformEntrance
from shared import wire
from shared.kafka_security import Brokers
from shared.lake.storage import Storage


async def run(
    settings: TracerSettings,
    traced: TracedSettings,
    brokers: Brokers,
    databases: Mapping[str, str],
    storage: Storage | None = None,
) -> None:
    """Trace until SIGTERM or SIGINT.  Raises `InUseError`, or `OSError` for the file or the port.

    `storage`: that of the lake, if tracers are expected there.
    """
    journal = Journal.open(settings.file, time.time())
    metrics = TracerMetrics(settings.new_counter_seconds)
    key = settings.key()
    rounds = Rounds(
        entrances=[
            *(HttpEntrance(url, form, key) for url in traced.gateways() for form in FORMS),
            *settings.syslog(),
        ],
        packets=Packets(brokers, list(databases)) if settings.kafka else None,
        through_transform=_through_transform(settings, traced, key),
        databases=[Rows(name, dsn) for name, dsn in databases.items()],
        lake=None if storage is None else LakeRows(storage, settings.lake_table),
        lake_seconds=settings.lake_seconds,
        writers=traced.writers(),
        journal=journal,
        metrics=metrics,
        limits=Limits(settings.late_seconds, settings.lost_seconds),
        interval=settings.interval_seconds,
    )
    pages = TracerServer(rounds, metrics, settings.host, settings.port).start()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, rounds.stop)
    try:
        await rounds.run()
    finally:
        pages.stop()


def _through_transform(
    settings: TracerSettings, traced: TracedSettings, key: str
) -> TransformEntrance | None:
    if not settings.transforms() or not traced.gateways():
        return None
    entrance = HttpEntrance(traced.gateways()[0], wire.TRANSFORM_ENTRANCE, key)
    return TransformEntrance(entrance, settings.transforms())
