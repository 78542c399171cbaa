"""`onramp types`: paused types and blocked tables, resuming a type, inferring and comparing schemas."""

import getpass
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from services.cli.connection_options import Where, with_database_options, with_where_options
from services.cli.event_lines import batches_in
from services.cli.exits import Exit, complain, exits_when_unavailable, finish
from services.cli.options import JsonOption
from services.cli.verbs.topics import newest_values

if TYPE_CHECKING:
    from services.ops.operate.holds_sql import Held
    from shared.registry import Snapshot
    from shared.registry.changes import SchemaChange

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

EventArgument = Annotated[str, typer.Argument(help="The event type, as `onramp types list` prints it.")]

ReasonOption = Annotated[str, typer.Option(help="Why: it is kept with each event.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
HoldArgument = Annotated[
    str, typer.Argument(help="The event type or SCHEMA.TABLE, as `onramp types list` prints it.")
]
NameArgument = Annotated[str, typer.Argument(help="The event name.")]
SamplesArgument = Annotated[
    Path | None,
    typer.Argument(
        help="Lines of JSON, events or their payloads; `-` is standard input.", show_default=False
    ),
]
TopicOption = Annotated[
    str | None,
    typer.Option(
        "--topic", help="Take the newest records of this topic instead of a file.", show_default=False
    ),
]
LastOption = Annotated[int, typer.Option("--last", min=1, max=10_000, help="So many of them.")]
OldArgument = Annotated[Path, typer.Argument(help="The registry's file as it is in force.")]
NewArgument = Annotated[Path, typer.Argument(help="The file as it is to be.")]
AcceptOption = Annotated[
    bool, typer.Option("--accept", help="What is undecided was looked at: it is no reason to fail.")
]
_SAMPLES_AT_ONCE = 1000


@app.callback()
def types() -> None:
    """See which event types are paused, and resume them; find schemas, and what a change of them breaks.

    An event type of which too many events are parked pauses: its events wait in the database
    until an operator has fixed the cause and resumes it. Examples:

    onramp types list

    onramp types resume order_placed

    onramp types park order_placed --reason "sent again"

    onramp types infer order_placed events.jsonl

    onramp types check onramp.yaml.old onramp.yaml
    """


@app.command(name="list")
@with_database_options
def list_(where: Where, *, as_json: JsonOption = False) -> None:
    """Print what events wait for in their own database: paused types and blocked tables.

    Exits with 0 when nothing is paused, 1 when something is, 3 when a database cannot be
    reached. Example:

    onramp types list --json
    """
    from services.ops.operate import holds_sql

    where.require_database()
    with exits_when_unavailable():
        holds = [hold for name, dsn in where.databases.items() for hold in holds_sql.holds(name, dsn)]
    if as_json:
        print(json.dumps([hold.as_dict() for hold in holds]))
    else:
        print("\n".join(map(_line, holds)) or "No event type is paused and no table is blocked.")
    raise typer.Exit(Exit.FAILED if any(hold.state == "paused" for hold in holds) else Exit.OK)


@app.command()
@with_database_options
def resume(where: Where, event: EventArgument, *, as_json: JsonOption = False) -> None:
    """Let the events of a paused type land: those that wait first, in order, then the new ones.

    What is still at fault among them is parked, event by event. Exits with 1 when the type is
    paused in none of the databases. Example:

    onramp types resume order_placed
    """
    from services.ops.operate import holds_sql

    where.require_database()
    with exits_when_unavailable():
        resumed = [name for name, dsn in where.databases.items() if holds_sql.resume(name, dsn, event)]
    finish(
        {"event": event, "resumed": resumed},
        worked=bool(resumed),
        as_json=as_json,
        done=f"{event} goes on in {', '.join(resumed)}.",
        problem=f"{event} is paused nowhere; `onramp types list` says what is",
    )


@app.command()
@with_database_options
def park(
    where: Where,
    name: HoldArgument,
    *,
    reason: ReasonOption,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Give up what waits behind a hold: it is parked, in order, with the reason, and can be replayed later.

    What comes after that waits on or lands: a paused type is resumed, a blocked table tried again. Exits
    with 1 when there is no such hold, or nobody agrees. Example:

    onramp types park order_placed --reason "the sender has sent all of it again"
    """
    if not reason.strip() or "\0" in reason:
        raise typer.BadParameter("say why: it is kept with each event", param_hint="--reason")
    where.require_database()
    with exits_when_unavailable():
        parked = _give_up(where, name, reason, yes=yes)
    finish(
        {"name": name, "dead_lettered": parked},
        worked=bool(parked),
        as_json=as_json,
        done=f"What waits for {name} in {', '.join(parked)} is parked by the writer within seconds.",
        problem=f"nothing holds {name}; `onramp types list` says what is held",
    )


@app.command()
@with_where_options
def infer(
    where: Where,
    name: NameArgument,
    file: SamplesArgument = None,
    *,
    topic: TopicOption = None,
    last: LastOption = 1000,
) -> None:
    """Print an event type for the registry's file, with the schema that all samples have in common.

    Of lines, or of a topic's newest records, those that are events of other names are passed over. Required
    is what every sample has; a text is a date-time, a date or a uuid if it is one in every sample. Exits
    with 1 without a sample. Examples:

    onramp types infer order_placed events.jsonl

    onramp types infer order_placed --topic order_placed --last 500
    """
    import yaml

    from shared.contracts.infer import Samples

    if (file is None) == (topic is None):
        raise typer.BadParameter("name a file of samples, or --topic: one of the two")
    samples = Samples()
    for document in _lines(file) if file else _records(where, topic or "", last):
        if (payload := _payload_of(document, name)) is not None:
            samples.add(payload)
    if not (schema := samples.schema()):
        complain(f"{file or topic} has no payload of {name}")
        raise typer.Exit(Exit.FAILED)
    print(
        yaml.safe_dump({"event_types": {name: {"schema": schema}}}, sort_keys=False, allow_unicode=True),
        end="",
    )


@app.command()
def check(
    old: OldArgument, new: NewArgument, *, accept: AcceptOption = False, as_json: JsonOption = False
) -> None:
    """Print what the schemas of a changed registry reject that those before took, and where.

    Each event type is compared by its `compatibility`. Exits with 1 for a break or a file that is
    wrong, with 4 when only a person can decide, else with 0. Example:

    onramp types check onramp.yaml.old onramp.yaml
    """
    from shared.contracts.pair import Kind
    from shared.registry.changes import schema_changes

    changes = schema_changes(_registry(old), _registry(new))
    if as_json:
        print(json.dumps([{"event_type": each.event_type, **each.finding._asdict()} for each in changes]))
    else:
        print("\n".join(map(_change_line, changes)) or "Every schema takes what the one before took.")
    kinds = {each.finding.kind for each in changes}
    if Kind.BREAK in kinds:
        raise typer.Exit(Exit.FAILED)
    raise typer.Exit(Exit.UNCHECKED if Kind.UNDECIDED in kinds and not accept else Exit.OK)


def _registry(file: Path) -> "Snapshot":
    from shared.contracts.json_schema import compile_schema
    from shared.registry.file import RegistryFileError, load

    try:
        snapshot = load(file)
        for event_type in snapshot.event_types.values():
            compile_schema(event_type.checked_schema or {})
    except (RegistryFileError, ValueError) as error:
        complain(f"{file}: {error}")
        raise typer.Exit(Exit.FAILED) from None
    return snapshot


def _change_line(change: "SchemaChange") -> str:
    kind, pointer, reason = change.finding
    return f"{change.event_type} {pointer or '/'}: {kind}: {reason}"


def _give_up(where: Where, name: str, reason: str, *, yes: bool) -> list[str]:
    """Give up the holds of this name; returns the databases in which there were any."""
    from services.ops.operate import holds_sql

    found = [hold for of in where.databases.items() for hold in holds_sql.holds(*of) if hold.name == name]
    if found and not yes:
        _confirm(found)
    by = getpass.getuser()
    return [
        database
        for database in dict.fromkeys(hold.database for hold in found)
        if holds_sql.give_up(database, where.databases[database], name, by=by, reason=reason)
    ]


def _confirm(holds: "list[Held]") -> None:
    """Ask for confirmation to park the events behind `holds`; end the verb without a yes."""
    for hold in holds:
        print(_line(hold))
    if not typer.confirm("Park what waits there?"):
        complain("nothing was changed")
        raise typer.Exit(Exit.FAILED)


def _lines(file: Path) -> Iterator[object]:
    for batch in batches_in(file, _SAMPLES_AT_ONCE):
        for _, line in batch:
            yield orjson.loads(line)


def _records(where: Where, topic: str, last: int) -> Iterator[object]:
    """Yield the events among a topic's newest records; other records are not samples."""
    with exits_when_unavailable():
        values = newest_values(where, topic, last)
    for value in values:
        try:
            document = orjson.loads(value)
        except orjson.JSONDecodeError:
            continue
        if isinstance(document, dict) and {"metadata", "event_name", "payload"} <= document.keys():
            yield document


def _payload_of(document: object, name: str) -> object:
    """Return the payload of a line, or None for an event of another name."""
    if not isinstance(document, dict) or not {"metadata", "event_name", "payload"} <= document.keys():
        return document
    return document["payload"] if document["event_name"] == name else None


def _line(hold: "Held") -> str:
    sqlstate = f" (SQLSTATE {hold.sqlstate})" if hold.sqlstate else ""
    since = hold.since.isoformat(timespec="seconds")
    return (
        f"{hold.database}: {hold.kind} {hold.name} is {hold.state}{sqlstate} since {since}, "
        f"{hold.waiting:,} waiting"
    )
