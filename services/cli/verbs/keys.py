"""`onramp keys`: makes API keys.  What is granted to them is written by hand, in `onramp.yaml`."""

import json
from typing import Annotated

import typer

from services.cli.exits import Exit, complain
from services.cli.options import JsonOption

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

NameArgument = Annotated[
    str, typer.Argument(help="Who sends: 1 to 32 of a-z 0-9 -, as in the registry's `keys`.")
]


@app.callback()
def keys() -> None:
    """Make API keys for the gateway.

    Example:
    onramp keys new shop
    """


@app.command()
def new(name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Make a key and its SHA-256, and print what to give to the sender and what to write down.

    The key is printed once and kept nowhere: whoever loses it makes another. Exits with 1 for
    a name that no key can have. Example:

    onramp keys new shop
    """
    from shared.registry.keys import new_key

    _require_key_name(name)
    key, sha256 = new_key(name)
    if as_json:
        print(json.dumps({"name": name, "key": key, "sha256": sha256}))
        return
    print(f"The key, for the sender (it is kept nowhere):\n\n  {key}\n")
    print("Its hash, for the registry's file; beside another hash while a key is rotated:\n")
    print(f'keys:\n  {name}:\n    hashes:\n      - sha256: "{sha256}"')


def _require_key_name(name: str) -> None:
    from pydantic import TypeAdapter, ValidationError

    from shared.registry.model import KeyId

    try:
        TypeAdapter(KeyId).validate_python(name)
    except ValidationError as error:
        complain(error.errors(include_input=False)[0]["msg"])
        raise typer.Exit(Exit.FAILED) from None
