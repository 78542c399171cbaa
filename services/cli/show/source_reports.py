"""Reads the agent's reports of sources from their target databases, and maps them to an exit code."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from services.cli.exits import Exit, complain

if TYPE_CHECKING:
    from services.cli.connection_options import Where


def read(where: "Where") -> tuple[list[dict[str, Any]], bool]:
    """Return the last report of each source, and whether every database could be read.

    Raises `typer.Exit` (3) when no database is known.
    """
    from services.cdc.agent.source_state_sql import StateStoreError
    from services.cdc.setup.source_requests_sql import listed

    if not where.databases:
        complain(
            "no database is known that sources are published to: set ONRAMP_WRITER_DSN or give --dsn; "
            "--data-dir finds the database of `onramp up`"
        )
        raise typer.Exit(Exit.UNAVAILABLE)
    found: list[dict[str, Any]] = []
    is_whole = True
    for name, dsn in where.databases.items():
        try:
            found += [{"database": name, **row} for row in listed(dsn)]
        except StateStoreError as error:
            complain(f"cannot read the sources published to {name}: {error}")
            is_whole = False
    return found, is_whole


def exit_of(where: "Where", found: Sequence[Mapping[str, Any]]) -> Exit:
    """Return whether all sources are healthy; print those of the registry without an agent's report."""
    from services.cli.show.source_list import is_well
    from shared.errors import InfrastructureError

    code = Exit.OK if all(map(is_well, found)) else Exit.FAILED
    try:
        named = where.registry().sources
    except InfrastructureError as error:
        complain(f"sources that no agent has reported are not listed: {error.detail}")
        return code if found else Exit.UNAVAILABLE
    if not named and not found:
        complain("the registry names no sources: `onramp sources add` adds one")
    for name in sorted(named.keys() - {row["source"] for row in found}):
        code = Exit.FAILED
        complain(
            f"no agent has reported the source {name} yet: if that stays, start "
            f"python -m services.cdc.agent with {named[name].dsn_env} set (`onramp up` starts it)"
        )
    return code
