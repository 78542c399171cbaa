"""`onramp errors mark`: an operator's decision about a group of parked events."""

import getpass
from enum import StrEnum
from typing import Annotated, Any

import typer

from services.cli.admin_api import AdminApi
from services.cli.error_options import ActorOption, AdminOption
from services.cli.exits import Exit, complain
from services.cli.options import JsonOption
from services.cli.show.parked_groups import print_group


class GroupState(StrEnum):
    """States of a group that an operator can set."""

    open = "open"
    acknowledged = "acknowledged"
    ignored = "ignored"
    resolved = "resolved"


def mark(
    group: Annotated[int, typer.Argument(help="The group's number.")],
    *,
    state: Annotated[GroupState | None, typer.Option(help="Its new state.", show_default=False)] = None,
    assignee: Annotated[
        str | None, typer.Option(help="Assignee; empty for none.", show_default=False)
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Reason; it is logged.", show_default=False)] = None,
    actor: ActorOption = "",
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> None:
    """Mark a group of parked events as acknowledged, ignored, resolved or open, or assign it.

    A resolved group that gets another event is open again; an ignored one stays ignored. Examples:

    onramp errors mark 3 --state acknowledged --assignee bob

    onramp errors mark 3 --state ignored --reason "a partner's tests"
    """
    if state is None and assignee is None:
        complain("give --state or --assignee: nothing would change")
        raise typer.Exit(Exit.USAGE)
    asked: dict[str, Any] = {"actor": actor or getpass.getuser(), "reason": reason}
    if state is not None:
        asked["state"] = state.value
    if assignee is not None:
        asked["assignee"] = assignee or None
    print_group(AdminApi.at(admin).change(f"/v1/groups/{group}", asked), as_json=as_json)
