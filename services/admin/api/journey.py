"""The route of journeys: where an event is, by its id or its receipt."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import FastAPI, Path, Query

from services.admin.api.lake_journeys import LakeJourneys
from services.admin.api.operators import Caller
from services.admin.api.rights import Asking
from services.ops.journey.finder import Finder
from services.ops.journey.subject import PATTERN
from services.ops.journey.timeline import Journey
from shared import wire
from shared.errors import DATABASE_UNAVAILABLE, NOT_STORED, InfrastructureError, UserError

Subject = Annotated[
    str, Path(pattern=PATTERN, max_length=281, description="An event's id, or topic/partition/offset.")
]
_NEEDS_TYPE: Final = "Too many tables or topics can have this id: give the event type to search its own."
EventName = Annotated[
    str | None,
    Query(pattern=rf"^(?:{wire.EVENT_NAME.pattern})$", description="Narrows the search for an id."),
]


def add_journey(app: FastAPI, finder: Finder, lake: LakeJourneys | None = None) -> None:
    """Add the route; journeys include the `lake`."""

    @app.get("/v1/journey/{id:path}")
    def show_journey(asking: Asking, id: Subject, event_name: EventName = None) -> dict[str, Any]:  # noqa: A002
        """Where an event is and how it got there, without values: one sentence, then its steps.

        A receipt is answered exactly.  An id is searched in the tables that have it as their key, among the
        parked events, and on Kafka from the newest record back; `searched` says how far.
        """
        return find_journey(finder, asking, id, event_name, lake).as_dict()


def find_journey(
    finder: Finder, asking: Caller, text: str, event_name: str | None, lake: LakeJourneys | None = None
) -> Journey:
    """Return the journey as far as the caller sees it, for the API and the page.

    Raises `UserError` BAD_QUERY or NOT_STORED, and `InfrastructureError` if a part did not answer that may
    know the event.
    """

    def sees(name: str | None) -> bool:
        return asking.only is None or (name is not None and asking.sees(name))

    journey = asyncio.run(finder.find(text, event_name, sees=sees))
    if asking.only is not None:  # the extent of a search names the topics and tables of other types
        journey = replace(journey, searched=(), unknown=(_NEEDS_TYPE,) if journey.needs_type else ())
    if lake is not None and journey.is_known:
        journey = lake.add_to(journey)
    if journey.is_known or journey.needs_type:
        return journey
    if journey.unanswered:
        raise InfrastructureError(DATABASE_UNAVAILABLE, "; ".join(journey.unanswered))
    # A caller for some events sees nothing of others, not even how far they were searched.
    raise UserError(NOT_STORED, journey.sentence if asking.only is None else "no such event is known")
