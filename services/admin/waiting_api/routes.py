"""All routes of waiting events and of sources."""

from collections.abc import Sequence

from fastapi import FastAPI

from services.admin.waiting_api.halts import Halts, add_halts
from services.admin.waiting_api.holds import Holds, add_holds
from services.admin.waiting_api.report import WaitingEvents, add_report
from services.admin.waiting_api.sources import add_sources
from services.ops.registry.registry_reader import RegistryReader
from services.ops.settled.reader import SettledReader
from services.ops.waiting_report import ReadUnsettled
from shared.postgres.source_dsns import SourceDsns


def add_waiting(
    app: FastAPI,
    dsn: str,
    desk: RegistryReader,
    source_dsns: SourceDsns,
    *,
    writers: Sequence[str],
    settled: SettledReader | None = None,
    read_offsets: ReadUnsettled | None = None,
    max_age_seconds: float = 0.0,
) -> None:
    """Add the routes; decisions are logged in the control database at `dsn`.

    `settled`: the reader of the writer's log that the service's parts share; a request uses it as it is if
    it was read less than `max_age_seconds` ago.  `read_offsets` returns the unsettled offsets.
    """
    databases = desk.places.databases
    holds = Holds(dsn, databases, lambda: desk.read().snapshot)
    add_report(app, WaitingEvents(desk, holds, writers, read_offsets))
    add_holds(app, holds)
    add_halts(app, Halts(dsn, databases, desk.kafka.brokers, settled or SettledReader(), max_age_seconds))
    add_sources(app, databases, desk, source_dsns)
