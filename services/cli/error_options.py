"""Shared options of `onramp errors` verbs: filters of events, and the service's address."""

import json
from pathlib import Path
from typing import Annotated

import orjson
import typer

from services.cli.exits import Exit, complain

AdminOption = Annotated[
    str | None,
    typer.Option(
        "--admin",
        help="Where `onramp admin` listens; without it that of `onramp up`.",
        envvar="ONRAMP_ADMIN_URL",
        show_default=False,
    ),
]
ReasonOption = Annotated[str, typer.Option(help="Reason; it is logged.")]
ActorOption = Annotated[str, typer.Option(help="Your name for the audit log.", show_default="your login")]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        help="The file with your key to the admin service, or set ONRAMP_ADMIN_KEY; by default the key that "
        "`onramp up` made.",
        envvar="ONRAMP_ADMIN_KEY_FILE",
        show_default=False,
    ),
]
ByOption = Annotated[str | None, typer.Option(help="Only actions of this operator.", show_default=False)]
ActOption = Annotated[
    str | None, typer.Option(help="Only this action: reveal, refused, …", show_default=False)
]
SubjectOption = Annotated[
    str | None,
    typer.Option(help="Only actions on this subject: event 17, group 3, job 4.", show_default=False),
]
CountOption = Annotated[int, typer.Option("--lines", "-n", min=1, help="Maximum number of lines.")]
StateOption = Annotated[str | None, typer.Option(help="Only in this state.", show_default=False)]
CodeOption = Annotated[str | None, typer.Option(help="Only with this code.", show_default=False)]
EventOption = Annotated[str | None, typer.Option(help="Only of this event name.", show_default=False)]
IdOption = Annotated[str | None, typer.Option("--id", help="Only with this id.", show_default=False)]
DestinationOption = Annotated[
    str | None, typer.Option(help="Only for DATABASE.SCHEMA.TABLE.", show_default=False)
]
GroupOption = Annotated[int | None, typer.Option(help="Only of this group.", show_default=False)]
GroupArgument = Annotated[int | None, typer.Argument(help="One group's number.", show_default=False)]
FixOption = Annotated[
    str | None,
    typer.Option(
        help="Edit each payload first: steps as JSON, or a file that holds them.", show_default=False
    ),
]

EditedOption = Annotated[
    Path | None,
    typer.Option(
        help="Only the events of this file of `download`, with the payloads as you have edited them.",
        show_default=False,
    ),
]
ToOption = Annotated[
    str | None,
    typer.Option(
        help="Land in this table of the same database (SCHEMA.TABLE), not in the one they were parked for.",
        show_default=False,
    ),
]


def fix_of(given: str | None) -> orjson.Fragment | None:
    """Return a fix as it was written, with all digits of its numbers."""
    if given is None:
        return None
    try:
        text = given if given.lstrip()[:1] in {"{", "["} else Path(given).read_text("utf-8")
        json.loads(text)
    except OSError as e:
        complain(f"--fix: {e.strerror or 'it cannot be read'}: give JSON, or a file that holds it")
    except ValueError:
        complain("--fix: not JSON")
    else:
        return orjson.Fragment(text)
    raise typer.Exit(Exit.USAGE)
