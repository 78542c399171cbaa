"""`onramp partitions`: which are halted and why, and letting one go on."""

import asyncio
import json
import sys
from collections.abc import Coroutine
from enum import StrEnum
from typing import Annotated, TypeVar

import typer

from services.cli.exits import Exit
from services.cli.where import JsonOption, Where, looks

T = TypeVar("T")

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class How(StrEnum):
    """What the writer is to do."""

    accept = "accept"


@app.callback()
def partitions() -> None:
    """See which partitions are halted, and let one go on.

    A partition is halted when going on would skip events: Kafka lost what it had acknowledged, or
    deleted what was not settled. The other partitions go on. Examples:

    onramp partitions list

    onramp partitions resolve events.order_placed/0 accept
    """


@app.command(name="list")
@looks
def list_(where: Where, *, as_json: JsonOption = False) -> None:
    """Print the halted partitions that a person can let go on, and why they are halted.

    Exits with 0 when none is, 1 when one is, 3 when Kafka cannot be reached. Example:

    onramp partitions list --json
    """
    from services.admin.operate import kafka_halts

    found = _asked(kafka_halts.halts(where.brokers))
    if as_json:
        print(json.dumps([each._asdict() for each in found]))
    else:
        for each in found:
            said = f"; answer: {each.answer}" if each.answer else ""
            print(f"{each.partition}: halted; since: {each.since}; reason: {each.reason}{said}")
        if not found:
            print("No partition waits for a person.")
    raise typer.Exit(Exit.FAILED if found else Exit.OK)


@app.command()
@looks
def resolve(
    where: Where,
    partition: Annotated[str, typer.Argument(help="TOPIC/NUMBER, as `onramp partitions list` prints it.")],
    how: Annotated[
        How, typer.Argument(help="accept: what is lost is lost; go on with what Kafka has, from there.")
    ],
    *,
    as_json: JsonOption = False,
) -> None:
    """Tell the running writer to go on with a halted partition; it does so within seconds.

    Where the log was cut, all that it holds from the cut on lands, in every database; events that
    landed before, and were sent again, are duplicates by their key, and in a table without a key
    they land twice. Exits with 1 when the partition is not halted. Example:

    onramp partitions resolve events.order_placed/0 accept
    """
    from services.admin.operate import kafka_halts

    told = _asked(kafka_halts.answer(where.brokers, partition, how))
    if as_json:
        print(json.dumps({"partition": partition, "resolution": how if told else None}))
    elif told:
        print(f"The writer is told: {how}. `onramp partitions list` says when {partition} goes on.")
    else:
        print(f"onramp: {partition} is not halted, or not so that a word could help", file=sys.stderr)
    raise typer.Exit(Exit.OK if told else Exit.FAILED)


def _asked(asking: Coroutine[None, None, T]) -> T:
    from shared.errors import InfrastructureError

    try:
        return asyncio.run(asking)
    except InfrastructureError as error:
        print(f"onramp: {error.detail}", file=sys.stderr)
        raise typer.Exit(Exit.UNAVAILABLE) from error
