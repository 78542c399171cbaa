"""The registry as the verbs of transforms read and change it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from services.cli.connection_options import Where
from services.cli.exits import Exit, complain, exits_when_unavailable, finish

if TYPE_CHECKING:
    from shared.registry import Snapshot

NameArgument = Annotated[str, typer.Argument(help="The transform's name, as in the registry.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Reason, stored with the change.")]


def deployed_line(after: "Snapshot", name: str) -> str:
    """Return the line that a deploy prints."""
    return f"{name}@{(after.transforms[name].digest or '')[:12]} is deployed"


def change(
    where: Where,
    make: "Callable[[Snapshot], Snapshot]",
    reason: str,
    *,
    as_json: bool,
    applied: "Callable[[Snapshot], str] | None" = None,
) -> NoReturn:
    """Bring the registry that `make` returns into force, print the result, and exit.

    `applied`: returns the sentence to print instead of the changed fields.
    """
    from services.ops.registry.change import State, Wish, change_to, editing
    from shared.errors import UserError
    from shared.registry.memory import reasons

    with exits_when_unavailable():
        try:
            with editing(where.kafka_settings) as editor:
                wanted = make(editor.chain.snapshot())
                result = change_to(editor, wanted, Wish(reason=reason))
        except UserError as error:
            complain(error.detail)
            raise typer.Exit(Exit.FAILED) from None
        except ValueError as error:
            complain("; ".join(reasons(error)))
            raise typer.Exit(Exit.FAILED) from None
    worked = result.state in {State.APPLIED, State.UNCHANGED}
    at = "" if result.offset is None else f" at offset {result.offset}"
    shown = list(result.changes)
    if applied is not None and result.state is State.APPLIED:
        shown = [applied(wanted)]
    finish(
        result.as_dict(),
        worked=worked,
        as_json=as_json,
        done="\n".join([*shown, f"{result.state}{at}"]),
        problem=f"{result.state}: {result.reason}",
    )
