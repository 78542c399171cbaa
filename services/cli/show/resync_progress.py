"""Requests a resync for `onramp sources resync`, and follows it until all tables are merged."""

import sys
import time
from typing import TYPE_CHECKING, Final

from services.cli.terminal import report_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from services.cli.connection_options import Where

_POLL_SECONDS: Final = 0.5
#: Polls in a row without anything to merge: the last rows may be between Kafka and the database.
_QUIET_POLLS: Final = 4
#: States that a resync goes through.
_EXPECTED: Final = ("starting", "flowing", "out_of_sync")


def request(where: "Where", source: str) -> list[str]:
    """Ask the agent for a resync; return the databases that have the source. Raises `KeptError`."""
    from services.cdc.setup.source_requests_sql import ask_for_resync

    return [name for name, dsn in where.databases.items() if ask_for_resync(dsn, source)]


def follow(where: "Where", databases: "Sequence[str]", source: str) -> bool:
    """Show the progress in each database until the end; return False if the agent does not poll.

    Raises `KeptError`.
    """
    return all(_is_followed(where.databases[each], source) for each in databases)


def _is_followed(dsn: str, source: str) -> bool:
    from services.cdc.setup.source_requests_sql import SILENT_SECONDS, progress

    report = report_to(sys.stderr)
    first, said, quiet = progress(dsn, source), "", 0
    with report.step(f"Re-snapshotting {source}"):
        while (now := progress(dsn, source)) is not None and quiet < _QUIET_POLLS:
            quiet = quiet + 1 if now.is_over else 0
            if now.polled_s_ago > SILENT_SECONDS:
                return False
            if now.state not in _EXPECTED and now.trouble != said:
                said = now.trouble
                report.note(f"  {said}")
            landed = now.landed - (first.landed if first else 0)
            merged = f"{now.tables - now.behind} of {now.tables} tables are merged"
            report.progress(f"{source} is {now.state}: {landed:,} changes have landed, {merged}")
            time.sleep(_POLL_SECONDS)
    return True
