"""`onramp send`: one event, or a file of them, to the gateway."""

import io
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from services.cli.exits import Exit, explain
from services.cli.where import ROOT, DataDirOption

if TYPE_CHECKING:
    from clients.python.onramp_client import Onramp

#: So many batches are read before the first of them is answered.
_AHEAD = 4
#: Above the gateway's own deadline.
_ANSWER_SECONDS = 30.0
#: Room comes with an answer, or when an event is given up.
_UNTIL_ONE_IS_GIVEN_UP = 86_400.0
_KEY_REFUSED = (401, 403)
_CHUNK = 1 << 16

#: Ids and their lines.
Part = list[tuple[str, bytes]]


def send(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="Envelopes, one JSON document a line; - reads standard input.")
    ] = None,
    event: Annotated[str | None, typer.Option(help="Send one event of this name instead.")] = None,
    payload: Annotated[str, typer.Option(help="That event's payload, a JSON object.")] = "{}",
    event_id: Annotated[str | None, typer.Option("--id", help="That event's id; made up if missing.")] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="The gateway; without it that of `onramp up`.", envvar="ONRAMP_URL", show_default=False
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="API key: `onramp up` prints one.", envvar="ONRAMP_API_KEY")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=10_000, help="Most events in one request.")] = 500,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to go on trying while it is away.")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print each result as a line of JSON.")] = False,
    data_dir: DataDirOption = ROOT / ".onramp",
) -> None:
    """Send events to the gateway and print a receipt for each.

    Sending the same ids again is safe: each lands once. Examples:

    onramp send --event order_placed --payload '{"total": 42}'

    onramp send events.ndjson --json

    my-program | onramp send -
    """
    from clients.python.onramp_client import Onramp
    from stack import addresses
    from stack.errors import StackError

    if (file is None) == (event is None):
        raise typer.BadParameter("give either a FILE (- for standard input) or --event NAME")
    url = url or addresses.known(data_dir).gateway
    receipts = _Receipts(as_json=as_json)
    try:
        onramp = Onramp(
            url,
            key,
            batch=batch,
            connections=1,  # Lines keep their order.
            queue_size=_AHEAD * batch,
            timeout_seconds=_ANSWER_SECONDS,
            give_up_seconds=wait,
            on_settled=receipts,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--url") from error
    try:
        _send(onramp, _given(file, event, payload, event_id, batch), receipts)
        code = receipts.code(url)
    except StackError as error:
        code = explain(error)
    raise typer.Exit(code)


class _Receipts:
    """Prints what becomes of each event, as soon as that is known."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._refused = False
        self._unprinted: Exception | None = None
        #: What was last said of an event that was given up.
        self.given_up: dict[str, Any] | None = None

    def __call__(self, event_id: str, outcome: str, said: dict[str, Any]) -> None:
        if outcome == "unknown" and said.get("status") not in _KEY_REFUSED:
            self.given_up = self.given_up or said
            return
        self._refused = self._refused or outcome != "accepted"
        try:
            self._print(event_id, said, accepted=outcome == "accepted")
        except Exception as error:  # noqa: BLE001 - raised again where it is heard
            self._unprinted = error

    def code(self, url: str) -> Exit:
        """The exit code.

        Raises:
            UnavailableError: the gateway gave no verdict in time.
        """
        from stack.away import unavailable

        if self._unprinted is not None:
            raise self._unprinted
        if self.given_up is not None:
            raise unavailable(url, self.given_up)
        return Exit.FAILED if self._refused else Exit.OK

    def _print(self, event_id: str, said: dict[str, Any], *, accepted: bool) -> None:
        if self._as_json:
            result = said if accepted else {"status": said.get("status"), "error": said}
            print(orjson.dumps({"id": event_id, **result}).decode())
        elif accepted:
            receipt = said["receipt"]
            print(f"{event_id} accepted: {receipt['topic']} {receipt['partition']} {receipt['offset']}")
        else:
            print(f"{event_id} rejected ({said.get('status')}): {said.get('detail')} {said.get('fix', '')}")


def _send(onramp: "Onramp", parts: Iterator[Part], receipts: _Receipts) -> None:
    """Send the very bytes that came in, until all are settled or one is given up."""
    try:
        for part in parts:
            onramp.send_many_bytes(part, block_seconds=_UNTIL_ONE_IS_GIVEN_UP)
            if receipts.given_up is not None:
                break
        onramp.flush()
    except KeyboardInterrupt:
        onramp.close(0)
        raise
    finally:
        onramp.close()  # Also what came before a line that is none.


def _given(
    file: Path | None, event: str | None, payload: str, event_id: str | None, most: int
) -> Iterator[Part]:
    if event is not None:
        line = _envelope(event, payload, event_id)
        yield [(_id_of(orjson.loads(line)), line)]
        return
    if file is None or str(file) == "-":
        yield from _read(sys.stdin.buffer, most)  # type: ignore[arg-type]
        return
    try:
        with file.open("rb") as opened:
            yield from _read(opened, most)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error


def _read(stream: io.BufferedIOBase, most: int) -> Iterator[Part]:
    """What has come together goes together, at most so many: who pipes a line sees it sent.

    Raises:
        BadParameter: a line is none, after those before it.
    """
    number = 0
    for lines in _arrived(stream):
        for start in range(0, len(lines), most):
            mine = lines[start : start + most]
            part, wrong = _checked(mine, number)
            number += len(mine)
            yield part
            if wrong is not None:
                raise wrong


def _arrived(stream: io.BufferedIOBase) -> Iterator[list[bytes]]:
    begun: list[bytes] = []
    while chunk := stream.read1(_CHUNK):
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = b"".join((*begun, whole[0]))
            begun = []
            yield whole
        begun.append(rest)
    yield [b"".join(begun)]


def _checked(lines: list[bytes], before: int) -> tuple[Part, typer.BadParameter | None]:
    """A line that is no document of its own would change what its neighbours mean."""
    part = []
    for number, line in enumerate(lines, start=before + 1):
        try:
            if stripped := line.strip():
                part.append((_id_of(orjson.loads(stripped)), stripped))
        except orjson.JSONDecodeError as error:
            return part, typer.BadParameter(f"line {number} is no JSON document: {error}")
    return part, None


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


def _id_of(document: Any) -> str:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return str(metadata.get("id")) if isinstance(metadata, dict) else "(no id)"
