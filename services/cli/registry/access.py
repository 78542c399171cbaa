"""`onramp access explain`: whether a key may send an event, and which line of the registry says so."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.exits import Exit, complain, exits_when_unavailable
from services.cli.options import DATA_DIR, DataDirOption, JsonOption, KafkaOption

if TYPE_CHECKING:
    from shared.registry import ApiKey, Snapshot

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

KeyOption = Annotated[str, typer.Option("--key", help="The key's name.")]
EventOption = Annotated[str, typer.Option("--event", help="The event name.")]
DestinationOption = Annotated[
    str, typer.Option("--destination", help="What a packet of it would address: database.schema.table.")
]


@app.callback()
def access() -> None:
    """See who may do what, by the registry in Kafka.

    Example:
    onramp access explain --key shop --event order_placed
    """


@app.command()
def explain(
    *,
    key: KeyOption,
    event: EventOption,
    destination: DestinationOption = "",
    kafka: KafkaOption = None,
    data_dir: DataDirOption = DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Print whether a key may send an event, and the line of the registry that says so.

    Exits with 1 when it may not, 3 when Kafka cannot be reached. Example:

    onramp access explain --key shop --event order_placed --destination onramp.public.orders
    """
    from services.cli.registry.change import editing
    from services.cli.where import kafka_settings
    from shared.errors import UserError

    with exits_when_unavailable():
        try:
            with editing(kafka_settings(kafka, data_dir)) as editor:
                snapshot = editor.chain.snapshot()
        except UserError as error:
            complain(error.detail)
            raise typer.Exit(Exit.FAILED) from None
    said = list(answers(snapshot, key, event, destination))
    may = all(yes for yes, _ in said)
    if as_json:
        print(json.dumps({"may": may, "lines": [{"yes": yes, "line": line} for yes, line in said]}))
    else:
        print(
            "\n".join(["yes" if may else "no", *(f"  {'yes' if y else 'NO '}  {line}" for y, line in said)])
        )
    raise typer.Exit(Exit.OK if may else Exit.FAILED)


def answers(snapshot: "Snapshot", name: str, event: str, destination: str) -> Iterator[tuple[bool, str]]:
    """Yield each line that decides, and whether it says yes; the first no is the last line."""
    from shared import wire

    key = snapshot.keys.get(name)
    if key is None:
        yield False, f"keys: there is no {name}"
        return
    if not key.live_hashes(datetime.now(UTC)):
        yield False, f"keys.{name}.expires: none of its secrets is valid any more"
        return
    yield True, f"keys.{name}.hashes: a secret is valid"
    if wire.is_reserved(event) or not wire.EVENT_NAME.fullmatch(event):
        yield False, f"{event:.70} is no event name for senders"
        return
    yield _covered(key.events, event, f"keys.{name}.events")
    yield _named(snapshot, key, name, event)
    if destination:
        yield _covered(key.destinations, destination, f"keys.{name}.destinations")


def _named(snapshot: "Snapshot", key: "ApiKey", name: str, event: str) -> tuple[bool, str]:
    if event in snapshot.event_types:
        return True, f"event_types.{event}: it is registered"
    if snapshot.unknown_names == "refuse":
        return False, f"unknown_names: refuse, and event_types has no {event}"
    if not key.max_new_names:
        return False, f"keys.{name}.max_new_names: 0, and event_types has no {event}"
    return True, f"unknown_names: accept, up to {key.max_new_names} of keys.{name}.max_new_names"


def _covered(patterns: tuple[str, ...], name: str, place: str) -> tuple[bool, str]:
    for n, pattern in enumerate(patterns):
        if fnmatchcase(name, pattern):
            return True, f"{place}.{n}: {pattern!r} covers {name}"
    return False, f"{place}: none of {len(patterns)} covers {name}"
