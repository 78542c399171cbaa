"""`onramp partitions`: halted partitions with their reasons, and resuming one."""

import asyncio
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.connection_options import Where, with_where_options
from services.cli.exits import Exit, exits_when_unavailable, finish
from services.cli.options import JsonOption
from services.cli.show.tables import print_table

if TYPE_CHECKING:
    from services.ops.operate.kafka_halts import Halt

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class How(StrEnum):
    """The writer's action."""

    accept = "accept"


PartitionArgument = Annotated[
    str, typer.Argument(help="TOPIC/NUMBER, as `onramp partitions list` prints it.")
]
HowArgument = Annotated[
    How, typer.Argument(help="accept: give up the lost events, and continue with the events that Kafka has.")
]


@app.callback()
def partitions() -> None:
    """See which partitions are halted, and resume one.

    A partition is halted when continuing would skip events: Kafka lost acknowledged events, or deleted
    unsettled ones. The other partitions continue. Examples:

    onramp partitions list

    onramp partitions resolve events.order_placed/0 accept
    """


@app.command(name="list")
@with_where_options
def list_(where: Where, *, as_json: JsonOption = False) -> None:
    """Print the halted partitions that an operator can resume, with their reasons.

    Exits with 0 when none is, 1 when one is, 3 when Kafka cannot be reached. Example:

    onramp partitions list --json
    """
    from services.ops.operate import kafka_halts

    with exits_when_unavailable():
        halts = asyncio.run(kafka_halts.halts(where.brokers))
    if as_json:
        print(json.dumps([halt._asdict() for halt in halts]))
    else:
        print_table(("PARTITION", "SINCE", "ANSWER", "REASON"), map(_row, halts))
        if not halts:
            print("No partition waits for an operator.")
    raise typer.Exit(Exit.FAILED if halts else Exit.OK)


@app.command()
@with_where_options
def resolve(
    where: Where, partition: PartitionArgument, how: HowArgument, *, as_json: JsonOption = False
) -> None:
    """Send the running writer the decision to resume a halted partition, which it applies within seconds.

    If the log was truncated, all its events from that point land in every database. Events that landed before
    and were sent again are duplicates by their key; in a table without a key they land twice. Exits with 1
    when the partition is not halted. Example:

    onramp partitions resolve events.order_placed/0 accept
    """
    from services.ops.operate import kafka_halts

    with exits_when_unavailable():
        halted = asyncio.run(kafka_halts.answer(where.brokers, partition, how))
    finish(
        {"partition": partition, "resolution": how if halted else None},
        worked=halted,
        as_json=as_json,
        done=f"Decision stored: {how}. `onramp partitions list` says when {partition} continues.",
        problem=f"{partition} has no halt to resolve; `onramp partitions list` lists them",
    )


def _row(halt: "Halt") -> tuple[str, ...]:
    return halt.partition, halt.since, halt.answer or "", halt.reason
