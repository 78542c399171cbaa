"""`onramp send`: one event, or a file of them, to the gateway."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from services.cli.event_lines import Batch, batches_in, one_event
from services.cli.exits import Exit, explain
from services.cli.options import DATA_DIR, DataDirOption
from services.cli.show.receipts import Receipts

if TYPE_CHECKING:
    from clients.python.onramp_client import Onramp

#: Maximum batches that are read before the first answer.
_AHEAD: Final = 4
#: Timeout in seconds, above the gateway's own deadline.
_ANSWER_SECONDS: Final = 30.0
#: An answer, or an abandoned event, frees a slot.
_UNTIL_ONE_IS_GIVEN_UP: Final = 86_400.0

FileArgument = Annotated[
    Path | None, typer.Argument(help="Envelopes, one JSON document a line; - reads standard input.")
]
EventOption = Annotated[str | None, typer.Option(help="Send one event of this name instead.")]
PayloadOption = Annotated[str, typer.Option(help="That event's payload, a JSON object.")]
IdOption = Annotated[str | None, typer.Option("--id", help="That event's id; generated if missing.")]
UrlOption = Annotated[
    str | None,
    typer.Option(
        help="The gateway; without it that of `onramp up`.", envvar="ONRAMP_URL", show_default=False
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        help="API key; without it, and without --url, that of `onramp up`.",
        envvar="ONRAMP_API_KEY",
        show_default=False,
    ),
]
BatchOption = Annotated[int, typer.Option(min=1, max=10_000, help="Maximum events in one request.")]
WaitOption = Annotated[float, typer.Option(min=0, help="Seconds to retry while the gateway is unreachable.")]
LinesOfJsonOption = Annotated[bool, typer.Option("--json", help="Print each result as a line of JSON.")]


def send(
    *,
    file: FileArgument = None,
    event: EventOption = None,
    payload: PayloadOption = "{}",
    event_id: IdOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
    batch: BatchOption = 500,
    wait: WaitOption = 10.0,
    as_json: LinesOfJsonOption = False,
    data_dir: DataDirOption = DATA_DIR,
) -> None:
    """Send events to the gateway and print a receipt for each.

    Sending the same ids again is safe: each lands once. Examples:

    onramp send --event order_placed --payload '{"total": 42}'

    onramp send events.ndjson --json

    my-program | onramp send -
    """
    from stack import addresses
    from stack.dev_key import known_dev_key

    if (file is None) == (event is None):
        raise typer.BadParameter("give either a FILE (- for standard input) or --event NAME")
    if url is None:  # the key of this folder is for its own gateway only
        url, key = addresses.known(data_dir).gateway, key or known_dev_key(data_dir)
    receipts = Receipts(as_json=as_json)
    client = _client(url, key, batch, wait, receipts)
    batches = iter([one_event(event, payload, event_id)]) if event is not None else batches_in(file, batch)
    raise typer.Exit(_sent(client, batches, receipts, url))


def _client(url: str, key: str | None, batch: int, wait: float, receipts: Receipts) -> "Onramp":
    """Return a client that preserves the lines' order and abandons an event after `wait` seconds."""
    from clients.python.onramp_client import Onramp

    try:
        return Onramp(
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


def _sent(client: "Onramp", batches: Iterator[Batch], receipts: Receipts, url: str) -> Exit:
    from stack.errors import StackError

    try:
        _send(client, batches, receipts)
        return receipts.code(url)
    except StackError as error:
        return explain(error)


def _send(client: "Onramp", batches: Iterator[Batch], receipts: Receipts) -> None:
    """Send the original bytes, until all events have answers or one is abandoned."""
    try:
        for batch in batches:
            client.send_many_bytes(batch, block_seconds=_UNTIL_ONE_IS_GIVEN_UP)
            if receipts.dead_lettered is not None:
                break
        client.flush()
    except KeyboardInterrupt:
        client.close(0)
        raise
    finally:
        client.close()  # Also sends the lines before an invalid one.
