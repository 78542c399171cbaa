"""`onramp errors recheck`: reopens replays that a restored dump has lost."""

import getpass
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from services.cli.admin_api import AdminApi
from services.cli.error_options import ActorOption, AdminOption, ReasonOption
from services.cli.exits import Exit, complain
from services.cli.options import JsonOption
from services.cli.show.parked_groups import print_rechecked

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only list the events.")]
_PAGE: Final = 1_000


def recheck(
    *,
    reason: ReasonOption,
    dry_run: DryRunOption = False,
    actor: ActorOption = "",
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reopen replayed events that their database does not know after a restore from a dump.

    Every replayed event is searched where it landed. Only events without a landed or staged attempt there
    are reopened; replay them then. Run it after a database was restored, or when `onramp audit` reports
    replay_lost. Exits with 3 when a database does not answer. Examples:

    onramp errors recheck --reason "restored from last night" --dry-run

    onramp errors recheck --reason "restored from last night"
    """
    asked = {"reason": reason, "dry_run": dry_run, "actor": actor or getpass.getuser(), "limit": _PAGE}
    unreached = print_rechecked(_pages(AdminApi.at(admin), asked), dry_run=dry_run, as_json=as_json)
    for name, why in unreached.items():
        complain(f"{name or 'a database that is not configured'} was not asked: {why}")
    raise typer.Exit(Exit.UNAVAILABLE if unreached else Exit.OK)


def _pages(api: AdminApi, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the results of each page of replayed events."""
    after: int | None = 0
    while after is not None:
        page = api.post("/v1/recheck", {**asked, "after": after})
        yield page
        after = page["next"]
