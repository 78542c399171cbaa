"""`onramp lake compact` and `vacuum`: maintenance of the tables, once or as a service."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.cli.exits import Exit, complain, exits_when_unavailable
from services.cli.options import DATA_DIR, DataDirOption, JsonOption
from services.cli.show.tables import print_table
from services.cli.verbs.lake_tables.options import (
    DryRunOption,
    TableArgument,
    UrlOption,
    mib,
    number,
    storage_of,
)

if TYPE_CHECKING:
    from shared.lake.storage import Storage


def compact(
    table: TableArgument = None,
    *,
    forever: Annotated[
        bool, typer.Option("--forever", help="Run the maintenance service until Ctrl-C or SIGTERM.")
    ] = False,
    dry_run: DryRunOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Rewrite small files into larger ones; writers and readers continue meanwhile.

    The files of a date are rewritten when 16 are below 32 MiB, and once more when the date has ended.
    --forever also writes checkpoints, deletes replaced files after a week, and drops dates by keep_days.
    Examples:
    onramp lake compact --dry-run

    onramp lake compact flights

    onramp lake compact --forever
    """
    storage = storage_of(url, data_dir)
    if forever:
        if dry_run or table:
            raise typer.BadParameter("takes no table and no --dry-run", param_hint="--forever")
        os.environ["ONRAMP_LAKE_URL"] = storage.url
        os.execv(sys.executable, [sys.executable, "-m", "services.lake.compaction"])  # noqa: S606
    done: list[dict[str, Any]] = []
    for name, handle in _opened(storage, table):
        with _exits_when_storage_fails(name):
            done += [{"table": name} | each for each in _rewrites(handle, dry_run=dry_run)]
    if as_json:
        print(json.dumps(done))
    else:
        _print_rewrites(done)


def _rewrites(handle: Any, *, dry_run: bool) -> Iterator[dict[str, Any]]:
    """Rewrite the files of a table that are due, or only yield what would be rewritten."""
    from datetime import UTC, datetime

    from services.lake.compaction.delta_compact import compact as run
    from services.lake.compaction.delta_compact import due
    from services.lake.compaction.delta_maintain import checkpoint_if_due
    from services.lake.compaction.settings import CompactionSettings

    settings, now = CompactionSettings(), datetime.now(UTC)
    if dry_run:
        for partition, chosen in due(handle, settings.policy, now):
            yield {
                "partitions": [str(partition)],
                "files_before": len(chosen.files),
                "files_after": None,
                "bytes_before": sum(file.bytes for file in chosen.files),
            }
        return
    yield from (each.as_dict() for each in run(handle, settings.policy, now))
    checkpoint_if_due(handle, settings.checkpoint_commits)


def _print_rewrites(done: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        (
            each["table"],
            number(each["files_before"]),
            number(each["files_after"]),
            mib(each["bytes_before"]),
            ", ".join(map(str, each["partitions"])),
        )
        for each in done
    ]
    print_table(("TABLE", "FILES", "NEW FILES", "MIB", "PARTITIONS"), rows, ("FILES", "NEW FILES", "MIB"))
    if not done:
        print("No files to rewrite.")


def vacuum(
    table: TableArgument = None,
    *,
    hours: Annotated[
        int, typer.Option(help="Hours that replaced files stay, for queries that still read them.", min=1)
    ] = 168,
    dry_run: DryRunOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Delete data files that no version of the last week needs; files of other programs remain.

    Examples:
    onramp lake vacuum --dry-run

    onramp lake vacuum flights --hours 24
    """
    from services.lake.compaction.delta_maintain import unreferenced
    from services.lake.compaction.delta_maintain import vacuum as run

    storage = storage_of(url, data_dir)
    found: list[dict[str, Any]] = []
    for name, handle in _opened(storage, table):
        with _exits_when_storage_fails(name):
            own, foreign = unreferenced(handle, hours)
            if not dry_run:
                own = run(handle, hours)
        found.append({"table": name, "files": list(own), "foreign": list(foreign)})
    if as_json:
        print(json.dumps(found))
        return
    rows = [(each["table"], f"{len(each['files']):,}", f"{len(each['foreign']):,}") for each in found]
    print_table(("TABLE", "WOULD DELETE" if dry_run else "DELETED", "FOREIGN FILES"), rows)


def _opened(storage: "Storage", table: str | None) -> Iterator[tuple[str, Any]]:
    """Yield the named table, or all tables of Onramp."""
    from services.ops.lake.delta_facts import opened, table_names
    from shared.lake.delta_log import owner_of

    with exits_when_unavailable():
        for name in [table] if table else table_names(storage):
            handle = opened(storage, name)
            if table or owner_of(handle) is not None:
                yield name, handle


@contextmanager
def _exits_when_storage_fails(table: str) -> Iterator[None]:
    from services.lake.compaction.delta_rounds import ERRORS
    from shared.lake.storage import reason_of

    try:
        yield
    except ERRORS as error:
        complain(f"the maintenance of table {table} failed: {reason_of(error)}")
        raise typer.Exit(Exit.UNAVAILABLE) from error
