"""The route of the waiting report: where events wait, since when, and the event that ends it."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from fastapi import FastAPI

from services.admin.api.operators import Caller
from services.admin.api.rights import Asking
from services.admin.waiting_api.holds import Holds, view
from services.ops.registry.registry_reader import RegistryReader
from services.ops.registry.topic_owners import events_of
from services.ops.waiting_report import ReadUnsettled, WaitingDatabase, collect_waiting


class WaitingEvents:
    """Collects the report; for the route and pages."""

    def __init__(
        self,
        desk: RegistryReader,
        holds: Holds,
        writers: Sequence[str],
        read_offsets: ReadUnsettled | None = None,
    ) -> None:
        """`read_offsets` returns the unsettled offsets; without it each report opens a client of Kafka."""
        self._desk = desk
        self._holds = holds
        self._writers = writers
        self._read_offsets = read_offsets

    def report(self, asking: Caller) -> dict[str, Any]:
        """Return the report, without the events of types that the caller does not see.

        A query that fails is a problem of the report.  Reasons and counts of databases are about all events,
        so a caller for some events gets the states alone.
        """
        places = self._desk.places.databases
        found = asyncio.run(
            collect_waiting(self._desk.kafka.brokers, places, self._writers, read_offsets=self._read_offsets)
        )
        return {
            "holds": [
                each.as_dict() | view(each.hold)
                for each in found.holds
                if self._holds.is_visible(asking, each.hold)
            ],
            "databases": visible_databases(asking, found.databases),
            "unsettled": self._unsettled(asking, [each.as_dict() for each in found.unsettled]),
            "unsettled_at": found.unsettled_at and found.unsettled_at.isoformat(),
            "problems": list(found.problems) if asking.only is None else [],
            "is_whole": found.is_whole,
        }

    def _unsettled(self, asking: Caller, topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if asking.only is None:
            return topics
        snapshot = self._desk.read().snapshot
        return [each for each in topics if asking.sees(*events_of(snapshot, each["topic"]))]


def visible_databases(asking: Caller, found: Iterable[WaitingDatabase]) -> list[dict[str, Any]]:
    """Return databases as documents; a caller for some events gets neither reasons nor counts."""
    hidden = {} if asking.only is None else {"why": None, "waiting": None, "oldest": None}
    return [each.as_dict() | hidden for each in found]


def add_report(app: FastAPI, waiting: WaitingEvents) -> None:
    """Add the route."""

    @app.get("/v1/waiting")
    def show_waiting(asking: Asking) -> dict[str, Any]:
        """Events that wait: behind holds, for databases, and on Kafka, with the reason and the next step."""
        return waiting.report(asking)
