"""Events as `onramp send` reads them: lines of a file or a pipe, or one that is made of options."""

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
    """Return an envelope made of options; without an id it gets a new one.

    Raises:
        BadParameter: the payload is no JSON.
    """
    try:
        document: Any = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"--payload is no JSON: {error}") from error
    id_ = event_id or str(uuid.uuid4())
    metadata = {"id": id_, "timestamp": datetime.now(UTC).isoformat(), "version": "1"}
    return [(id_, orjson.dumps({"metadata": metadata, "event_name": name, "payload": document}))]


def batches_in(file: Path | None, most: int) -> Iterator[Batch]:
    """Yield the events of a file, or of standard input for None and `-`, at most so many at once.

    Raises:
        BadParameter: it cannot be read, or a line is no JSON document.
    """
    if file is None or str(file) == "-":
        yield from _batches(sys.stdin.buffer, most)  # type: ignore[arg-type]
        return
    try:
        with file.open("rb") as stream:
            yield from _batches(stream, most)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error


def _batches(stream: io.BufferedIOBase, most: int) -> Iterator[Batch]:
    """Yield together what has come together: who pipes a line sees it sent.

    Raises:
        BadParameter: a line is no JSON document, after those before it were yielded.
    """
    number = 0
    for lines in _arrived(stream):
        for start in range(0, len(lines), most):
            group = lines[start : start + most]
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
    """Return the events before the first line that is no JSON document, and the error that names it.

    Such a line, sent on, would change what its neighbours mean.
    """
    batch = []
    for number, line in enumerate(lines, start=before + 1):
        try:
            if stripped := line.strip():
                batch.append((_id_of(orjson.loads(stripped)), stripped))
        except orjson.JSONDecodeError as error:
            return batch, typer.BadParameter(f"line {number} is no JSON document: {error}")
    return batch, None


def _id_of(document: Any) -> str:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return str(metadata.get("id")) if isinstance(metadata, dict) else "(no id)"
