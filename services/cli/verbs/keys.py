"""`onramp keys`: creates keys of senders and operators, for the file or for the registry in Kafka."""

import json
from enum import StrEnum
from typing import Annotated

import typer

from services.cli import registry_keys
from services.cli.exits import Exit, complain
from services.cli.options import JsonOption

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.command()(registry_keys.create)
app.command(name="list")(registry_keys.list_)
app.command()(registry_keys.rotate)
app.command()(registry_keys.revoke)

NameArgument = Annotated[str, typer.Argument(help="The key's name: 1 to 32 characters of a-z 0-9 -.")]


class Role(StrEnum):
    """Roles of operators; each includes the ones before it."""

    viewer = "viewer"
    operator = "operator"
    admin = "admin"


OperatorOption = Annotated[
    Role | None,
    typer.Option(help="A key of the admin service instead, for this role.", show_default=False),
]


@app.callback()
def keys() -> None:
    """Create keys: for senders to the gateway, or for operators of the admin service.

    Example:
    onramp keys new shop
    """


@app.command()
def new(name: NameArgument, *, operator: OperatorOption = None, as_json: JsonOption = False) -> None:
    """Create a key and its SHA-256, and print the key for its holder and the registry's entry.

    The key is printed once and stored nowhere; a lost key must be replaced. A viewer of the admin service
    sees masked parked events, an operator acts on them, an admin reads values and the audit log. Exits with
    1 for an invalid name. Examples:

    onramp keys new shop

    onramp keys new ann --operator admin
    """
    from shared.registry.key_secrets import new_key

    _require_key_name(name)
    key, sha256 = new_key(name)
    if as_json:
        print(json.dumps({"name": name, "key": key, "sha256": sha256}))
        return
    print(f"The key, for {'the operator' if operator else 'the sender'} (it is not stored):\n\n  {key}\n")
    print("Its hash, for the registry's file; listed after the other hash while a key is rotated:\n")
    section, role = ("operators", f"\n    role: {operator}") if operator else ("keys", "")
    print(f'{section}:\n  {name}:{role}\n    hashes:\n      - sha256: "{sha256}"')


def _require_key_name(name: str) -> None:
    from pydantic import TypeAdapter, ValidationError

    from shared.registry.entries import KeyId

    try:
        TypeAdapter(KeyId).validate_python(name)
    except ValidationError as error:
        complain(error.errors(include_input=False)[0]["msg"])
        raise typer.Exit(Exit.FAILED) from None
