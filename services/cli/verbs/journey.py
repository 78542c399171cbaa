"""`onramp journey`: where an event is, and how it got there."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.connection_options import Where, with_where_options
from services.cli.exits import Exit, complain, exits_when_unavailable
from services.cli.lake_options import LakeOption, lake_of
from services.cli.options import JsonOption
from services.cli.show.journey_lines import lines_of
from services.cli.verbs.audit import ControlOption

if TYPE_CHECKING:
    from services.ops.audit.lake import Lake
    from services.ops.journey.finder import Finder
    from services.ops.journey.timeline import Journey

SubjectArgument = Annotated[
    str, typer.Argument(metavar="ID|RECEIPT", help="The event's id, or its receipt topic/partition/offset.")
]
TypeOption = Annotated[
    str | None, typer.Option("--type", help="The event type, to search an id faster.", show_default=False)
]


@with_where_options
def journey(
    where: Where,
    subject: SubjectArgument,
    *,
    event_type: TypeOption = None,
    control: ControlOption = None,
    lake_url: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print where an event is: landed, a duplicate, parked, waiting, filtered, or not settled yet.

    Also prints the outputs that transforms emitted for the event, or the event that an output is made of.

    A receipt is answered exactly. An id is searched in the tables that have it as their key, among the parked
    events, and on Kafka from the newest record back. No value of the event is printed. Exits with 1 when the
    event is not known, 3 when it is not known and a part did not answer. Examples:

    onramp journey order-1001

    onramp journey events.order_placed/3/1041 --json

    onramp journey order-1001 --type order_placed
    """
    from shared.errors import UserError

    where.require_database()
    finder = _finder(where, control or next(iter(where.databases.values())))
    try:
        with exits_when_unavailable():
            found = asyncio.run(finder.find(subject, event_type))
            if lake := lake_of(where, lake_url):
                found = _with_lake(found, lake)
    except UserError as error:
        raise typer.BadParameter(error.detail, param_hint="ID|RECEIPT") from None
    print(json.dumps(found.as_dict()) if as_json else "\n".join(lines_of(found)))
    if found.is_known:
        return
    for part in found.unanswered:
        complain(part)
    raise typer.Exit(Exit.UNAVAILABLE if found.unanswered else Exit.FAILED)


def _with_lake(journey: "Journey", lake: "Lake") -> "Journey":
    from services.ops.journey.lake import with_lake

    return with_lake(journey, lake)


def _finder(where: Where, control: str) -> "Finder":
    """Return the finder; the topics of event types are those of the registry, which is read when needed."""
    from functools import cache

    from services.ops.journey.finder import Finder, topics_of

    snapshot = cache(where.registry)
    return Finder(
        where.brokers,
        where.databases,
        control,
        topics_of(snapshot),
        lambda: snapshot().event_types,
        lambda: snapshot().transforms,
    )
