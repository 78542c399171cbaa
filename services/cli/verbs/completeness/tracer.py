"""`onramp tracer`: the tracer in the foreground, and what the running one has found."""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from services.cli.exits import Exit, complain
from services.cli.options import DATA_DIR, DataDirOption, JsonOption
from services.cli.show.tracers import lines_of

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_SECONDS: Final = 10.0
#: Results of any tracer of the last day that end `status` with 1. A refused tracer is no loss: its entrance
#: answered, as while a gateway starts, so only the last one counts.
_BAD: Final = frozenset({"lost", "duplicate", "not_in_lake"})
_REFUSED: Final = "refused"

TracerOption = Annotated[
    str | None,
    typer.Option(
        "--tracer", help="The tracer's address; without it that of `onramp up`.", show_default=False
    ),
]


@app.callback()
def tracer() -> None:
    """Send tracers into every entrance, and watch their rows.

    A tracer is an event of the type onramp_probe, which users' counts exclude. Examples:

    onramp tracer status

    onramp tracer run
    """


@app.command()
def run() -> None:
    """Run the tracer until Ctrl-C or SIGTERM; `onramp up` starts one by itself.

    Settings come from the environment (docs/settings.md). For example:

    ONRAMP_TRACER_API_KEY_FILE=tracer.key ONRAMP_WRITER_DSN=postgresql://me@127.0.0.1/db onramp tracer run
    """
    # In the same process, so that signals and the exit code are the service's.
    os.execv(sys.executable, [sys.executable, "-m", "services.tracer"])  # noqa: S606 - no shell is meant


@app.command()
def status(
    *, tracer: TracerOption = None, data_dir: DataDirOption = DATA_DIR, as_json: JsonOption = False
) -> None:
    """Print the last result of each entrance in each destination, and the counts of a day.

    Exits with 1 when a tracer of the last day was lost, duplicated or not in the lake, or when an entrance
    refused its last tracer; with 3 when the tracer does not answer, else with 0. For example:

    onramp tracer status
    """
    found = _status(tracer, data_dir)
    print(json.dumps(found) if as_json else "\n".join(lines_of(found)))
    is_bad = any(each["result"] == _REFUSED or _BAD & each["day"].keys() for each in found["tracers"])
    raise typer.Exit(Exit.FAILED if is_bad else Exit.OK)


def _status(url: str | None, data_dir: Path) -> dict[str, Any]:
    from stack.addresses import known

    where = (url or known(data_dir).tracer).rstrip("/")
    try:
        with urllib.request.urlopen(f"{where}/status", timeout=_SECONDS) as answer:  # noqa: S310 - as given
            found: dict[str, Any] = json.loads(answer.read())
    except (OSError, ValueError, urllib.error.HTTPError):
        complain(f"the tracer at {where} does not answer: start it with `onramp tracer run`")
        raise typer.Exit(Exit.UNAVAILABLE) from None
    return found
