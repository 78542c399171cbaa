"""Reads events for `onramp send`: lines of a file or a pipe, or one event from options."""

import io
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson
import typer

_CHUNK_BYTES: Final = 1 << 16

#: Ids and their lines.
Batch = list[tuple[str, bytes]]


def one_event(name: str, payload: str, event_id: str | None) -> Batch:
    """Return an envelope built from options; without an id it gets a new one.

    Raises:
        BadParameter: the payload is not JSON.
    """
    try:
        document: Any = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"--payload is not JSON: {error}") from error
    id_ = event_id or str(uuid.uuid4())
    metadata = {"id": id_, "timestamp": datetime.now(UTC).isoformat(), "version": "1"}
    return [(id_, orjson.dumps({"metadata": metadata, "event_name": name, "payload": document}))]


def batches_in(file: Path | None, limit: int) -> Iterator[Batch]:
    """Yield the events of a file, or of standard input for None and `-`, in batches of at most `limit`.

    Raises:
        BadParameter: the file cannot be read, or a line is not a JSON document.
    """
    if file is None or str(file) == "-":
        yield from _batches(sys.stdin.buffer, limit)  # type: ignore[arg-type]
        return
    try:
        with file.open("rb") as stream:
            yield from _batches(stream, limit)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error


def _batches(stream: io.BufferedIOBase, limit: int) -> Iterator[Batch]:
    """Yield lines as soon as they arrive, so that a piped line is sent at once.

    Raises:
        BadParameter: a line is not a JSON document; the lines before it were yielded.
    """
    number = 0
    for lines in _arrived(stream):
        for start in range(0, len(lines), limit):
            group = lines[start : start + limit]
            batch, error = _checked(group, number)
            number += len(group)
            yield batch
            if error is not None:
                raise error


def _arrived(stream: io.BufferedIOBase) -> Iterator[list[bytes]]:
    unfinished: list[bytes] = []
    while chunk := stream.read1(_CHUNK_BYTES):
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = b"".join((*unfinished, whole[0]))
            unfinished = []
            yield whole
        unfinished.append(rest)
    yield [b"".join(unfinished)]


def _checked(lines: list[bytes], before: int) -> tuple[Batch, typer.BadParameter | None]:
    """Return the events before the first invalid line, and the error that names it.

    An invalid line in a request would change the meaning of its neighbours.
    """
    batch = []
    for number, line in enumerate(lines, start=before + 1):
        try:
            if stripped := line.strip():
                batch.append((_id_of(orjson.loads(stripped)), stripped))
        except orjson.JSONDecodeError as error:
            return batch, typer.BadParameter(f"line {number} is not a JSON document: {error}")
    return batch, None


def _id_of(document: Any) -> str:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return str(metadata.get("id")) if isinstance(metadata, dict) else "(no id)"
