"""`onramp send`: one event, or a file of them, to the gateway."""

import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import orjson
import typer

from services.cli.exits import Exit, explain

if TYPE_CHECKING:
    from stack.posting import Poster

_ACCEPTED = 202


def send(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="Envelopes, one JSON document a line; - reads standard input.")
    ] = None,
    event: Annotated[str | None, typer.Option(help="Send one event of this name instead.")] = None,
    payload: Annotated[str, typer.Option(help="That event's payload, a JSON object.")] = "{}",
    event_id: Annotated[str | None, typer.Option("--id", help="That event's id; made up if missing.")] = None,
    url: Annotated[str, typer.Option(help="The gateway.", envvar="ONRAMP_URL")] = "http://127.0.0.1:8080",
    key: Annotated[
        str | None, typer.Option(help="API key: `onramp up` prints one.", envvar="ONRAMP_API_KEY")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=10_000, help="Events in one request.")] = 500,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to go on trying while it is away.")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print each result as a line of JSON.")] = False,
) -> None:
    """Send events to the gateway and print a receipt for each.

    Sending the same ids again is safe: each lands once. Examples:

    onramp send --event order_placed --payload '{"total": 42}'

    onramp send events.ndjson --json

    my-program | onramp send -
    """
    from stack.errors import StackError
    from stack.posting import Poster

    if (file is None) == (event is None):
        raise typer.BadParameter("give either a FILE (- for standard input) or --event NAME")
    try:
        poster = Poster(url, api_key=key)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--url") from error
    try:
        code = Exit.OK
        for lines in _batches(file, event, payload, event_id, batch):
            if not _send(poster, lines, wait, as_json=as_json):
                code = Exit.FAILED
    except StackError as error:
        code = explain(error)
    finally:
        poster.close()
    raise typer.Exit(code)


def _send(poster: "Poster", lines: list[bytes], wait: float, *, as_json: bool) -> bool:
    """Send a batch as the very bytes that came in; tell whether all were accepted."""
    ids = [_id_of(line) for line in lines]
    reply = poster.post_patiently(b"[" + b",".join(lines) + b"]", seconds=wait)
    results = reply.results(ids)
    if len(results) != len(ids):  # The request as a whole was refused: one reason for all.
        results = [{"status": reply.status, **reply.document} for _ in ids]
    for event_id, result in zip(ids, results, strict=True):
        if as_json:
            print(orjson.dumps({"id": event_id, **result}).decode())
        elif result["status"] == _ACCEPTED:
            receipt = result["receipt"]
            print(f"{event_id} accepted: {receipt['topic']} {receipt['partition']} {receipt['offset']}")
        else:
            told = result.get("error", result)
            print(f"{event_id} rejected ({result['status']}): {told.get('detail')} {told.get('fix', '')}")
    return all(result["status"] == _ACCEPTED for result in results)


def _batches(
    file: Path | None, event: str | None, payload: str, event_id: str | None, size: int
) -> Iterator[list[bytes]]:
    if event is not None:
        yield [_envelope(event, payload, event_id)]
        return
    if file is None or str(file) == "-":
        yield from _read(sys.stdin.buffer, size)
        return
    try:
        with file.open("rb") as opened:
            yield from _read(opened, size)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error


def _read(stream: IO[bytes], size: int) -> Iterator[list[bytes]]:
    lines = (line.strip() for line in stream)
    wanted = (_checked(line, number) for number, line in enumerate(lines, start=1) if line)
    while batch := list(islice(wanted, size)):
        yield batch


def _checked(line: bytes, number: int) -> bytes:
    """A line that is no document of its own would change what its neighbours mean."""
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"line {number} is no JSON document: {error}") from error
    return line


def _envelope(event: str, payload: str, event_id: str | None) -> bytes:
    try:
        parsed: Any = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"--payload is no JSON: {error}") from error
    metadata = {
        "id": event_id or str(uuid.uuid4()),
        "timestamp": datetime.now(UTC).isoformat(),
        "version": "1",
    }
    return orjson.dumps({"metadata": metadata, "event_name": event, "payload": parsed})


def _id_of(line: bytes) -> str:
    document = orjson.loads(line)
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return str(metadata.get("id")) if isinstance(metadata, dict) else "(no id)"
