"""`onramp statement`: the records of a period by topic and destination, and whether they add up."""

import json
import re
from typing import Annotated, Any, Final

import typer

from services.cli.admin_api import KEY_FILE, AdminApi
from services.cli.error_options import AdminOption, KeyFileOption
from services.cli.exits import Exit
from services.cli.options import JsonOption
from services.cli.show.statement import lines_of

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")

DayOption = Annotated[
    str | None,
    typer.Option(
        help="One day in UTC, as 2026-01-31; at the latest today.", show_default=False, metavar="DATE"
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        help="Start of the period, as 2026-01-31T08:00:00Z; without it the first event.", show_default=False
    ),
]
UntilOption = Annotated[
    str | None, typer.Option(help="End of the period; without it this moment.", show_default=False)
]
TypeOption = Annotated[
    str | None, typer.Option("--type", help="Only the topic of this event type.", show_default=False)
]


def statement(
    *,
    day: DayOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    event_type: TypeOption = None,
    as_json: JsonOption = False,
    admin: AdminOption = None,
    key_file: KeyFileOption = None,
) -> None:
    """Print the outcomes of all records of a period, by topic and destination.

    Queries `onramp admin`, which reads each database hourly; a period begins and ends at the nearest reading.
    Exits with 0 when all records are accounted for, 1 when they do not add up, 3 when the admin service
    cannot be reached, 4 when a part could not be evaluated; the part is named. Examples:

    onramp statement

    onramp statement --day 2026-01-31

    onramp statement --type order_placed --json
    """
    if day is not None and not _DAY.fullmatch(day):
        raise typer.BadParameter("not a day, as 2026-01-31", param_hint="--day")
    KEY_FILE.set(key_file)
    api = AdminApi.at(admin)
    found = api.get("/v1/statement", day=day, since=since, until=until, type=event_type)
    print(json.dumps(found) if as_json else "\n".join(lines_of(found)))
    raise typer.Exit(_exit_code(found))


def _exit_code(found: dict[str, Any]) -> Exit:
    if not found["adds_up"]:
        return Exit.FAILED
    return Exit.OK if found["complete"] else Exit.UNCHECKED
