"""`onramp errors download`, and `--edited`: events as a file, edited with any tool, and uploaded."""

import getpass
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import typer

from services.cli.admin_api import AdminApi
from services.cli.error_options import (
    ActorOption,
    AdminOption,
    CodeOption,
    DestinationOption,
    EventOption,
    GroupOption,
    IdOption,
    StateOption,
)
from services.cli.exits import Exit, complain

WhyOption = Annotated[str, typer.Option("--reason", help="Reason for reading these values, for the log.")]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="The file to create; it must not exist.", show_default=False),
]
_NDJSON: Final = "application/x-ndjson"


def download(
    *,
    reason: WhyOption,
    out: OutOption = None,
    group: GroupOption = None,
    code: CodeOption = None,
    event: EventOption = None,
    event_id: IdOption = None,
    destination: DestinationOption = None,
    state: StateOption = "open",
    actor: ActorOption = "",
    admin: AdminOption = None,
) -> None:
    """Write parked events into a file, one a line, to edit their payloads with any tool and upload them.

    Edit only the payload of a line; lines can be removed. The verb needs the right to read values, and the
    audit log records the operator and the reason. The file appears when it is complete. Examples:

    onramp errors download --group 3 --reason "prices to correct by hand" --out events.ndjson

    onramp errors rehearse --edited events.ndjson

    onramp errors replay --edited events.ndjson --reason "prices corrected"
    """
    filters = {"group": group, "code": code, "event_name": event, "event_id": event_id}
    asked = {"filters": filters | {"destination": destination}, "state": state, "reason": reason}
    api = AdminApi.at(admin)
    with _whole(out) as file:
        headers = api.copy("/v1/download", asked | {"actor": actor or getpass.getuser()}, file)
        file.seek(0)
        found, wanted = sum(1 for _ in file), int(headers["onramp-events"])
        if found != wanted:
            complain(f"only {found} of {wanted} events arrived: download them again; see the service's log")
            raise typer.Exit(Exit.UNAVAILABLE)
    complain(f"{wanted:,} events")


def edits_of(api: AdminApi, file: Path | None, actor: str) -> int | None:
    """Upload edited events; return the upload's number for jobs."""
    if file is None:
        return None
    try:
        with file.open("rb") as lines:
            size = os.fstat(lines.fileno()).st_size
            kept = api.upload("/v1/edits", lines, size, _NDJSON, actor=actor)
    except OSError as e:
        complain(f"--edited: {e.strerror or 'it cannot be read'}: name a file of `onramp errors download`")
        raise typer.Exit(Exit.USAGE) from None
    return int(kept["edits"])


@contextmanager
def _whole(out: Path | None) -> Iterator[BinaryIO]:
    """Yield a file that becomes `out` (or is printed) if nothing fails."""
    if out is not None and out.exists():
        complain(f"{out} exists already: name a new file")
        raise typer.Exit(Exit.USAGE)
    try:
        with tempfile.NamedTemporaryFile(dir=out.parent if out else None, delete=False) as file:
            part = Path(file.name)
            try:
                yield file  # type: ignore[misc]
                file.flush()
                if out is None:
                    file.seek(0)
                    for line in file:
                        sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()
                else:
                    part.rename(out)
            finally:
                part.unlink(missing_ok=True)
    except OSError as e:
        complain(f"--out: {e.strerror or 'it cannot be written'}")
        raise typer.Exit(Exit.FAILED) from None
