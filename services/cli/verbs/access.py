"""`onramp access explain`: whether a key may send an event, and the deciding line of the registry."""

import json
from typing import Annotated

import typer

from services.cli.exits import Exit, complain, exits_when_unavailable
from services.cli.options import DATA_DIR, DataDirOption, JsonOption, KafkaOption

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

KeyOption = Annotated[str, typer.Option("--key", help="The key's name.")]
EventOption = Annotated[str, typer.Option("--event", help="The event name.")]
DestinationOption = Annotated[
    str, typer.Option("--destination", help="The address of a packet: database.schema.table.")
]


@app.callback()
def access() -> None:
    """See the rights of keys, by the registry in Kafka.

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
    """Print whether a key may send an event, and the deciding line of the registry.

    Exits with 1 when it may not, 3 when Kafka cannot be reached. Example:

    onramp access explain --key shop --event order_placed --destination onramp.public.orders
    """
    from services.cli.connection_options import kafka_settings
    from services.ops.registry.access import answers
    from services.ops.registry.change import editing
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
    _print(said, may=may, as_json=as_json)
    raise typer.Exit(Exit.OK if may else Exit.FAILED)


def _print(said: list[tuple[bool, str]], *, may: bool, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"may": may, "lines": [{"yes": yes, "line": line} for yes, line in said]}))
        return
    print("\n".join(["yes" if may else "no", *(f"  {'yes' if y else 'NO '}  {line}" for y, line in said)]))
