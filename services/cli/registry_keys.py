"""The verbs of `onramp keys` on the registry in Kafka; each action is one change."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.cli.exits import Exit, complain, exits_when_unavailable
from services.cli.options import DATA_DIR, DataDirOption, JsonOption, KafkaOption
from services.cli.show.tables import print_table
from services.ops.registry.key_overlap import DEFAULT_OVERLAP, end_of_overlap

if TYPE_CHECKING:
    from services.ops.registry.sender_keys import Keys
    from shared.registry import ApiKey

KeyArgument = Annotated[str, typer.Argument(help="The key's name, as `onramp keys list` prints it.")]
EventsOption = Annotated[
    list[str] | None, typer.Option("--event", help="An event name or pattern it may send; all unless given.")
]
DestinationsOption = Annotated[
    list[str] | None,
    typer.Option("--destination", help="A pattern of database.schema.table its packets may address."),
]
OverlapOption = Annotated[
    str,
    typer.Option("--overlap", help="Remaining validity of the old secrets: 30m, 24h, 7d; 0m ends them now."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would change, and change nothing.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Reason, stored with the change.")]


def create(
    name: KeyArgument,
    *,
    event: EventsOption = None,
    destination: DestinationsOption = None,
    dry_run: DryRunOption = False,
    reason: ReasonOption = "",
    kafka: KafkaOption = None,
    data_dir: DataDirOption = DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Create a sender's key, and bring it into force. It is printed once and stored nowhere.

    Exits with 1 when a key of that name exists, or another change came first. Example:

    onramp keys create shop --event "order_*" --reason "the new shop"
    """
    from services.ops.registry.sender_keys import created

    add = partial(created, events=event or (), destinations=destination or ())
    _give_secret(name, add, reason, kafka, data_dir, dry_run=dry_run, as_json=as_json)


def rotate(
    name: KeyArgument,
    *,
    overlap: OverlapOption = DEFAULT_OVERLAP,
    dry_run: DryRunOption = False,
    reason: ReasonOption = "",
    kafka: KafkaOption = None,
    data_dir: DataDirOption = DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Give a key a new secret; the old ones end after the overlap. It is printed once and stored nowhere.

    Exits with 1 when there is no such key, or another change came first. Example:

    onramp keys rotate shop --overlap 24h
    """
    from services.ops.registry.sender_keys import with_another_secret

    try:
        until = end_of_overlap(overlap)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--overlap") from None
    replace = partial(with_another_secret, until=until)
    _give_secret(name, replace, reason, kafka, data_dir, dry_run=dry_run, as_json=as_json)


def revoke(
    name: KeyArgument,
    *,
    dry_run: DryRunOption = False,
    reason: ReasonOption = "",
    kafka: KafkaOption = None,
    data_dir: DataDirOption = DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Revoke a key with all its secrets; it takes effect within two seconds.

    Exits with 1 when there is no such key, or another change came first. Example:

    onramp keys revoke shop --reason "its laptop was lost"
    """
    from services.ops.registry.sender_keys import without

    changes = _change(lambda keys: without(keys, name), reason, kafka, data_dir, dry_run=dry_run)
    _tell({"name": name}, changes, f"{name} is revoked.", dry_run=dry_run, as_json=as_json)


def list_(
    *, kafka: KafkaOption = None, data_dir: DataDirOption = DATA_DIR, as_json: JsonOption = False
) -> None:
    """Print the senders' keys in force, with their rights and expiry.

    Exits with 3 when Kafka cannot be reached. Example:

    onramp keys list
    """
    from services.ops.registry.sender_keys import view_of

    found: list[dict[str, Any]] = []

    def read(keys: "Keys") -> "Keys":
        found.extend(view_of(name, key) for name, key in sorted(keys.items()))
        return keys

    _change(read, "", kafka, data_dir)
    if as_json:
        print(json.dumps(found))
        return
    rows = (
        (each["name"], each["secrets"], each["expires"] or "revoked", ", ".join(each["events"]))
        for each in found
    )
    print_table(("KEY", "SECRETS", "VALID UNTIL", "EVENTS"), rows, {"SECRETS"})
    if not found:
        print("There is no key.")


def _give_secret(
    name: str,
    change: "Callable[[Keys, str, str], Keys]",
    reason: str,
    kafka: str | None,
    data_dir: Path,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Bring the keys that `change` returns for the key's name and a new hash into force; print the secret."""
    from shared.registry.key_secrets import new_key

    secret, sha256 = new_key(name)
    changes = _change(lambda keys: change(keys, name, sha256), reason, kafka, data_dir, dry_run=dry_run)
    done = f"The key, for the sender (it is not stored):\n\n  {secret}\n"
    _tell({"name": name, "key": secret}, changes, done, dry_run=dry_run, as_json=as_json)


def _change(
    change: "Callable[[Keys], Mapping[str, ApiKey]]",
    reason: str,
    kafka: str | None,
    data_dir: Path,
    *,
    dry_run: bool = False,
) -> list[str]:
    """Bring the keys that `change` returns into force, and return a line for each difference.

    Ends the verb with 1 if the change is refused.
    """
    from services.cli.connection_options import kafka_settings
    from services.ops.registry.change import State, Wish, change_to, editing
    from shared.errors import UserError
    from shared.registry import Snapshot

    with exits_when_unavailable():
        try:
            with editing(kafka_settings(kafka, data_dir)) as editor:
                wanted = Snapshot(keys=change(editor.chain.snapshot().keys))
                result = change_to(editor, wanted, Wish(reason=reason, is_dry=dry_run))
        except (UserError, ValueError) as error:
            complain(error.detail if isinstance(error, UserError) else _first_line(error))
            raise typer.Exit(Exit.FAILED) from None
    if result.state not in {State.APPLIED, State.UNCHANGED, State.POSSIBLE}:
        complain(f"{result.state}: {result.reason}")
        raise typer.Exit(Exit.FAILED)
    return result.changes


def _first_line(error: ValueError) -> str:
    from shared.registry.memory import reasons

    return "; ".join(reasons(error))


def _tell(said: dict[str, object], changes: list[str], done: str, *, dry_run: bool, as_json: bool) -> None:
    """Print the changes; a dry run prints no secret, because none is in force."""
    if dry_run:
        said, done = {"name": said["name"], "changes": changes}, "\n".join([*changes, "possible"])
    print(json.dumps(said) if as_json else done)
