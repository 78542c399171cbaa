"""Shared options of `onramp lake` verbs, and the storage of their tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shared.lake.storage import Storage

UrlOption = Annotated[
    str | None,
    typer.Option(
        help="Folder of the tables, or s3://bucket/prefix; without it that of `onramp up --lake`.",
        envvar="ONRAMP_LAKE_URL",
        show_default=False,
    ),
]
TableArgument = Annotated[str | None, typer.Argument(help="One table; all without it.", show_default=False)]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the work, and change nothing.")]


def storage_of(url: str | None, data_dir: Path) -> "Storage":
    """Return the storage of the settings; raise `typer.BadParameter` without one."""
    from shared.lake.settings import LakeStorageSettings

    folder = data_dir / "lake"
    address = url or (str(folder) if folder.is_dir() else "")
    if not address:
        raise typer.BadParameter("no lake is known: give --url", param_hint="--url")
    try:
        return LakeStorageSettings(url=address).storage
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="ONRAMP_LAKE_*") from error


def number(value: object) -> str:
    """Return a number with separators; nothing for None."""
    return f"{value:,}" if isinstance(value, int) else ""


def mib(size: object) -> str:
    """Return a number of bytes in MiB."""
    return f"{size / (1024 * 1024):,.1f}" if isinstance(size, int) else ""
