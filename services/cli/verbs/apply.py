"""`onramp apply`: brings the registry's file into force for all services, as one change."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from services.cli.connection_options import Where, with_where_options
from services.cli.exits import Exit, complain, exits_when_unavailable
from services.cli.options import JsonOption

if TYPE_CHECKING:
    from services.ops.registry.change import Result

FileArgument = Annotated[Path, typer.Argument(help="The registry's file, as docs/registry.md describes it.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would change, and change nothing.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Reason, stored with the change.")]
ActorOption = Annotated[
    str, typer.Option("--actor", help="Actor; by default your name on this machine.", show_default=False)
]
AcceptOption = Annotated[
    bool, typer.Option("--accept", help="Accept undecided findings, which you have reviewed.")
]
OverwriteOption = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace entries that others created or changed in the file's sections."
    ),
]
_EXITS: Final = {"refused": Exit.FAILED, "conflict": Exit.FAILED, "undecided": Exit.UNCHECKED}


@with_where_options
def apply(
    where: Where,
    file: FileArgument,
    *,
    dry_run: DryRunOption = False,
    reason: ReasonOption = "",
    actor: ActorOption = "",
    accept: AcceptOption = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Bring the registry's file into force in Kafka, whole or not at all, for all services and at once.

    A section that the file does not name remains, and so do changes of others (keys by `onramp keys`), unless
    the file changes the same entry. Tables of destinations with `create: true` are created first, and new
    fields are added as nullable columns, by `ddl_dsn` if the database has one. The
    command refuses a schema that rejects previously valid events, more than 5,000 event types or 900 KB of
    routes, and a change if another change came first. Exits with 1 for a refusal, with 4 when a schema needs
    a review, with 3 when Kafka or a database cannot be reached. Examples:

    onramp apply onramp.yaml --dry-run

    onramp apply onramp.yaml --reason "orders have a currency"
    """
    from services.ops.registry.change import Wish, apply_file, editing
    from shared.errors import UserError

    wish = Wish(actor=actor, reason=reason, accept=accept, is_dry=dry_run, overwrite=overwrite)
    with exits_when_unavailable():
        try:
            with editing(where.kafka_settings) as editor:
                result = apply_file(editor, file, wish, where)
        except UserError as error:
            complain(error.detail)
            raise typer.Exit(Exit.FAILED) from None
    _show(result, as_json=as_json)
    raise typer.Exit(_EXITS.get(result.state, Exit.OK))


def _show(result: "Result", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(result.as_dict()))
        return
    print("".join(f"{line}\n" for line in result.lines()), end="")
    at = "" if result.offset is None else f" at offset {result.offset}"
    if result.state in _EXITS:
        complain(f"{result.state}: {result.reason}")
    else:
        print(f"{result.state}{at}{': ' if result.reason else ''}{result.reason}")
