"""The verbs of a transform's operator: rollback, list, pause, resume and logs."""

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from services.cli.connection_options import Where, with_where_options
from services.cli.exits import Exit, exits_when_unavailable, finish
from services.cli.options import JsonOption
from services.cli.show.tables import print_table
from services.cli.verbs.transforms.registry import NameArgument, ReasonOption, change, deployed_line

if TYPE_CHECKING:
    from services.ops.transforms.deploys import Version
    from shared.registry import Snapshot

ShownArgument = Annotated[
    str | None, typer.Argument(help="Print the versions of this transform instead.", show_default=False)
]
RequiredReasonOption = Annotated[str, typer.Option("--reason", help="Reason, stored with the state.")]
ToOption = Annotated[
    str | None,
    typer.Option(
        "--to", help="Beginning of a version's digest; the one before unless given.", show_default=False
    ),
]
AcceptOption = Annotated[
    bool,
    typer.Option("--accept", help="Continue at the nearest end of the log if the position is outside of it."),
]
FollowOption = Annotated[bool, typer.Option("-f", "--follow", help="Continue with new lines until Ctrl-C.")]
LinesOption = Annotated[int, typer.Option("--last", min=1, max=10_000, help="Number of the last lines.")]
_NUMBERS: Final = ("LAG", "EMITTED", "DROPPED", "PARKED")


@with_where_options
def rollback(
    where: Where,
    name: NameArgument,
    *,
    to: ToOption = None,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Bring an earlier version of the function into force again.

    Exits with 1 when there is none, with 3 when Kafka cannot be reached. Example:

    onramp transforms rollback flight_delays --reason "carriers are missing"
    """
    from services.ops.transforms.deploys import required, version_before, with_source

    with exits_when_unavailable():
        versions = _versions(where, name)

    def make(before: "Snapshot") -> "Snapshot":
        version = version_before(versions, required(before, name).digest, to)
        return with_source(before, name, version.source)

    change(
        where,
        make,
        reason or "rollback",
        as_json=as_json,
        applied=lambda after: deployed_line(after, name),
    )


@with_where_options
def list_(where: Where, name: ShownArgument = None, *, as_json: JsonOption = False) -> None:
    """Print each transform with its version, state, lag and outcomes; or the versions of one.

    Exits with 3 when Kafka cannot be reached. Examples:

    onramp transforms list

    onramp transforms list flight_delays
    """
    from services.ops.transforms.overview import overview
    from services.ops.transforms.reader import NO_FACTS, TransformReader

    if name is not None:
        _print_versions(where, name, as_json=as_json)
        return
    with exits_when_unavailable():
        registry = where.registry()
        facts = TransformReader(where.brokers).read() if registry.transforms else NO_FACTS
    found = overview(registry, facts)
    if as_json:
        print(json.dumps(found))
        return
    headers = ("TRANSFORM", "TYPES", "VERSION", "STATE", *_NUMBERS, "REASON")
    print_table(headers, map(_row, found), set(_NUMBERS))
    if not found:
        print("The registry has no transform.")


def _row(view: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a transform as a row of the list."""
    return (
        *(view["name"], f"{view['from']} → {', '.join(view['to'])}", (view["digest"] or "-")[:12]),
        *(view["state"], "-" if view["lag"] is None else view["lag"]),
        *(view["emitted"], view["dropped"], view["parked"], view["reason"]),
    )


@with_where_options
def pause(
    where: Where, name: NameArgument, *, reason: RequiredReasonOption, as_json: JsonOption = False
) -> None:
    """Pause a transform: its events stay on Kafka until it is resumed.

    Exits with 1 when there is no such transform, with 3 when Kafka cannot be reached. Example:

    onramp transforms pause flight_delays --reason "the airlines are wrong"
    """
    _set_state(where, name, "paused", reason, as_json=as_json)


@with_where_options
def resume(
    where: Where,
    name: NameArgument,
    *,
    accept: AcceptOption = False,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Resume a paused transform at its position.

    With `--accept` a position outside of the log moves to the log's nearest end: the events between are lost.
    Exits with 1 when there is no such transform, with 3 when Kafka cannot be reached. Example:

    onramp transforms resume flight_delays
    """
    _set_state(where, name, "running", reason, accept=accept, as_json=as_json)


@with_where_options
def logs(
    where: Where,
    name: NameArgument,
    *,
    last: LinesOption = 100,
    follow: FollowOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print lines that the function printed or logged in the last 24 hours, each with its event and version.

    Exits with 3 when Kafka cannot be reached. Example:

    onramp transforms logs flight_delays -f
    """
    from services.ops.transforms.log_lines import lines

    async def show() -> None:
        async for line in lines(where.brokers, name, last, follows=follow):
            print(json.dumps(line._asdict()) if as_json else line.shown(), flush=True)

    with exits_when_unavailable():
        try:
            asyncio.run(show())
        except KeyboardInterrupt:
            raise typer.Exit(Exit.OK) from None


def _set_state(
    where: Where, name: str, state: str, reason: str, *, accept: bool = False, as_json: bool
) -> NoReturn:
    from services.ops.transforms.kafka_states import set_state

    with exits_when_unavailable():
        is_known = name in where.registry().transforms
        if is_known:
            asyncio.run(set_state(where.brokers, name, state, reason, accept=accept))
    finish(
        {"name": name, "state": state if is_known else None},
        worked=is_known,
        as_json=as_json,
        done=f"{name} is {state} within a second.",
        problem=f"the registry has no transform {name}; `onramp transforms list` prints them",
    )


def _print_versions(where: Where, name: str, *, as_json: bool) -> None:
    with exits_when_unavailable():
        found = _versions(where, name)
    if as_json:
        print(json.dumps([each.as_dict() for each in found]))
        return
    rows = (
        (each.digest[:12], each.time.isoformat(timespec="seconds"), each.actor, each.reason)
        for each in reversed(found)
    )
    print_table(("VERSION", "DEPLOYED", "BY", "REASON"), rows, set())
    if not found:
        print(f"{name} was never deployed.")


def _versions(where: Where, name: str) -> "list[Version]":
    from services.ops.transforms.deploys import counted_changes, versions_in
    from shared.registry.factory import open_log
    from shared.settings import RegistrySettings

    log = open_log(RegistrySettings(), where.kafka_settings)
    try:
        return versions_in(counted_changes(log), name)
    finally:
        log.close()
