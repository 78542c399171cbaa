"""Option of verbs that include the lake, and its storage with the registry in force."""

from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.connection_options import Where

if TYPE_CHECKING:
    from services.ops.audit.lake import Lake

LakeOption = Annotated[
    str | None,
    typer.Option(
        "--lake",
        help="Folder of the lake's tables, or s3://bucket/prefix; by default that of `onramp up`, if any.",
        envvar="ONRAMP_LAKE_URL",
        show_default=False,
    ),
]


def lake_of(where: Where, url: str | None) -> "Lake | None":
    """Return the lake of the option, else that of `onramp up`; None if there is none."""
    folder = where.data_dir / "lake"
    address = url or (str(folder) if folder.is_dir() else "")
    if not address:
        return None
    from services.ops.audit.lake import Lake
    from shared.lake.settings import LakeStorageSettings

    try:
        storage = LakeStorageSettings(url=address).storage
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="ONRAMP_LAKE_*") from error
    return Lake(storage, where.registry())
