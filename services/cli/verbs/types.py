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
from services.cli.show.tables import print_table
from services.cli.verbs.topics import newest_values

if TYPE_CHECKING:
    from services.ops.operate.holds_sql import Hold
    from shared.registry import Snapshot
    from shared.registry.changes import SchemaChange

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

EventArgument = Annotated[str, typer.Argument(help="The event type, as `onramp types list` prints it.")]

ReasonOption = Annotated[str, typer.Option(help="Reason, stored with each event.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
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
LastOption = Annotated[int, typer.Option("--last", min=1, max=10_000, help="Number of these records.")]
OldArgument = Annotated[Path, typer.Argument(help="The registry's file in force.")]
NewArgument = Annotated[Path, typer.Argument(help="The new file.")]
AcceptOption = Annotated[
    bool, typer.Option("--accept", help="Accept undecided findings, which you have reviewed.")
]
_SAMPLES_AT_ONCE = 1000


@app.callback()
def types() -> None:
    """See which event types are paused, and resume them; infer schemas, and check changes of them.

    An event type pauses when too many of its events are parked: its events wait in the database
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
    """Print the holds that events wait behind in their database: paused types and blocked tables.

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
        _print_holds(holds)
        if not holds:
            print("No event type is paused and no table is blocked.")
    raise typer.Exit(Exit.FAILED if any(hold.state == "paused" for hold in holds) else Exit.OK)


@app.command()
@with_database_options
def resume(where: Where, event: EventArgument, *, as_json: JsonOption = False) -> None:
    """Resume a paused event type: waiting events land first, in order, then new ones.

    Events that still fail are parked one by one. Exits with 1 when the type is
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
        done=f"{event} continues in {', '.join(resumed)}.",
        problem=f"{event} is not paused; `onramp types list` shows paused types",
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
    """Dead-letter events that wait behind a hold: they are parked in order, and can be replayed later.

    Later events wait or land: a paused type is resumed, a blocked table retried. Exits with 1 when
    there is no such hold, or without confirmation. Example:

    onramp types park order_placed --reason "the sender has sent all of it again"
    """
    if not reason.strip() or "\0" in reason:
        raise typer.BadParameter("give a reason: it is stored with each event", param_hint="--reason")
    where.require_database()
    with exits_when_unavailable():
        parked = _dead_letter(where, name, reason, yes=yes)
    finish(
        {"name": name, "dead_lettered": parked},
        worked=bool(parked),
        as_json=as_json,
        done=f"The writer parks the events that wait for {name} in {', '.join(parked)} within seconds.",
        problem=f"no hold is named {name}; `onramp types list` shows the holds",
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

    Lines or records with events of other names are skipped. Fields of every sample are required; a text is
    a date-time, a date or a uuid if it is one in every sample. Exits
    with 1 without a sample. Examples:

    onramp types infer order_placed events.jsonl

    onramp types infer order_placed --topic order_placed --last 500
    """
    import yaml

    from shared.contracts.infer import Samples

    if (file is None) == (topic is None):
        raise typer.BadParameter("give either a file of samples or --topic")
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
    """Print which previously valid values the schemas of a changed registry reject, and where.

    Each event type is compared by its `compatibility`. Exits with 1 for a break or an invalid file,
    with 4 for undecided findings, else with 0. Example:

    onramp types check onramp.yaml.old onramp.yaml
    """
    from shared.contracts.pair import Kind
    from shared.registry.changes import schema_changes

    changes = schema_changes(_registry(old), _registry(new))
    if as_json:
        print(json.dumps([{"event_type": each.event_type, **each.finding._asdict()} for each in changes]))
    else:
        print_table(("EVENT TYPE", "POINTER", "FINDING", "REASON"), map(_change_row, changes))
        if not changes:
            print("Every schema accepts the values of the one before.")
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


def _change_row(change: "SchemaChange") -> tuple[str, ...]:
    kind, pointer, reason = change.finding
    return change.event_type, pointer or "/", kind, reason


def _dead_letter(where: Where, name: str, reason: str, *, yes: bool) -> list[str]:
    """Dead-letter the holds of this name; return the databases that had one."""
    from services.ops.operate import holds_sql

    found = [hold for of in where.databases.items() for hold in holds_sql.holds(*of) if hold.name == name]
    if found and not yes:
        _confirm(found)
    by = getpass.getuser()
    return [
        database
        for database in dict.fromkeys(hold.database for hold in found)
        if holds_sql.dead_letter(database, where.databases[database], name, by=by, reason=reason)
    ]


def _confirm(holds: "list[Hold]") -> None:
    """Ask for confirmation to park the events behind `holds`; end the verb without a yes."""
    _print_holds(holds)
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


def _print_holds(holds: "list[Hold]") -> None:
    columns = ("DATABASE", "KIND", "NAME", "STATE", "SQLSTATE", "SINCE", "WAITING")
    print_table(columns, map(_row, holds), {"WAITING"})


def _row(hold: "Hold") -> tuple[str, ...]:
    since = hold.since.isoformat(timespec="seconds")
    return hold.database, hold.kind, hold.name, hold.state, hold.sqlstate or "", since, f"{hold.waiting:,}"
