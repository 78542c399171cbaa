"""The verbs of a function's author: new, test, rehearse and deploy."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from services.cli.connection_options import Where, with_where_options
from services.cli.exits import Exit, complain, exits_when_unavailable
from services.cli.options import JsonOption, LastOption, SinceOption
from services.cli.verbs.topics import newest_values
from services.cli.verbs.transforms.registry import NameArgument, ReasonOption, change, deployed_line

FolderOption = Annotated[Path, typer.Option("--folder", help="Folder of NAME.py and NAME.tests.yaml.")]
RegistryOption = Annotated[
    Path, typer.Option("--registry", help="The registry's file, for the types and limits; it may be absent.")
]
FromOption = Annotated[str, typer.Option("--from", help="The event type that the function reads.")]
AgainstOption = Annotated[
    str | None,
    typer.Option(help="`live` compares with the deployed version.", show_default=False),
]
UntriedOption = Annotated[
    str | None,
    typer.Option("--untried", help="Deploy without test and rehearsal, for this reason.", show_default=False),
]
_TRANSFORMS: Final = Path("transforms")
_FILE: Final = Path("onramp.yaml")


class _Window(NamedTuple):
    """The options of a rehearsal's window."""

    since: str | None
    last: int | None


@with_where_options
def new(where: Where, name: NameArgument, *, source: FromOption, folder: FolderOption = _TRANSFORMS) -> None:
    """Write a function and a test whose event has the shape of the newest one on Kafka, without its values.

    Exits with 1 when Kafka has no such event or a file exists, with 3 when Kafka cannot be reached. Example:

    onramp transforms new flight_delays --from flight_departed
    """
    from services.transform.author.example_tests import AuthorFileError
    from services.transform.author.new_transform import write_files

    with exits_when_unavailable():
        values = newest_values(where, source, 1)
        personal = where.registry().personal_of(source)
    if not values:
        complain(f"Kafka has no event of {source}: send one, then repeat this command")
        raise typer.Exit(Exit.FAILED)
    try:
        paths = write_files(folder, name, source, values[-1], personal)
    except AuthorFileError as error:
        complain(str(error))
        raise typer.Exit(Exit.FAILED) from None
    for path in paths:
        print(f"wrote {path}")
    print(f"Name its outputs in {_FILE}, and apply that (docs/transforms.md):")
    print(f"transforms:\n  {name}: {{from: {source}, to: [NAME_OF_AN_OUTPUT]}}")


def run_test(
    name: NameArgument,
    *,
    folder: FolderOption = _TRANSFORMS,
    registry: RegistryOption = _FILE,
    as_json: JsonOption = False,
) -> None:
    """Run the examples of NAME.tests.yaml, without Kafka and databases.

    Outputs pass the checks of their event types if the registry's file has them. Exits with 1 when an example
    fails or a file is invalid. Example:

    onramp transforms test flight_delays
    """
    raise typer.Exit(_tested(name, folder, registry, as_json=as_json))


@with_where_options
def rehearse(
    where: Where,
    name: NameArgument,
    *,
    since: SinceOption = None,
    last: LastOption = None,
    against: AgainstOption = None,
    folder: FolderOption = _TRANSFORMS,
    as_json: JsonOption = False,
) -> None:
    """Run the function on events in Kafka; nothing is written.

    Prints outcomes, failures by exception and line with receipts, times, and with `--against live` the
    differences from the deployed version. Exits with 1 when an event newly fails, with 4 when none does but
    not all could be tried, and with 3 when Kafka or a lookup cannot be read. Examples:

    onramp transforms rehearse flight_delays --since 24h

    onramp transforms rehearse flight_delays --last 100000 --against live
    """
    os.environ |= _environment(where)
    arguments = _rehearsal(name, folder, _Window(since, last), against=against, as_json=as_json)
    os.execv(sys.executable, arguments)  # noqa: S606 - no shell


@with_where_options
def deploy(
    where: Where,
    name: NameArgument,
    *,
    since: SinceOption = None,
    last: LastOption = None,
    untried: UntriedOption = None,
    reason: ReasonOption = "",
    folder: FolderOption = _TRANSFORMS,
    registry: RegistryOption = _FILE,
    as_json: JsonOption = False,
) -> None:
    """Bring the function of NAME.py into force, after its test and a rehearsal have passed.

    The registry's log has each version with its actor, time and reason. Exits with 1 when an example or an
    event of the rehearsal fails, with 4 when not all could be tried, with 3 when Kafka cannot be reached.
    Examples:
    onramp transforms deploy flight_delays --reason "half an hour is a delay"

    onramp transforms deploy flight_delays --untried "the first event comes tomorrow"
    """
    from services.ops.transforms.deploys import with_source
    from services.transform.author.example_tests import AuthorFileError, read_source

    try:
        source = read_source(folder, name)
    except AuthorFileError as error:
        complain(str(error))
        raise typer.Exit(Exit.FAILED) from None
    if untried is None:
        _try(where, name, folder, registry, _Window(since, last))
    elif not untried.strip():
        raise typer.BadParameter("give a reason", param_hint="--untried")
    said = f"untried: {untried}" if untried is not None else ""
    change(
        where,
        lambda before: with_source(before, name, source),
        "; ".join(filter(None, (reason, said))),
        as_json=as_json,
        applied=lambda after: deployed_line(after, name),
    )


def _tested(name: str, folder: Path, registry: Path, *, as_json: bool) -> Exit:
    """Run the examples, print their results, and return the exit code."""
    from services.transform.author.example_tests import AuthorFileError, load_project, run_examples

    try:
        project = load_project(folder, name, registry if registry.exists() else None)
        results = list(run_examples(project))
    except AuthorFileError as error:
        complain(str(error))
        return Exit.FAILED
    failed = sum(bool(each.problems) for each in results)
    if as_json:
        print(json.dumps([each._asdict() for each in results]))
    else:
        for each in results:
            print(f"{'FAILED' if each.problems else 'ok':6} {each.name}")
            for text in each.problems + [f"printed: {line}" for line in each.printed]:
                print("".join(f"       {line}\n" for line in text.splitlines()), end="")
        print(f"{len(results) - failed} of {len(results)} examples passed")
    return Exit.FAILED if failed else Exit.OK


def _try(where: Where, name: str, folder: Path, registry: Path, window: _Window) -> None:
    """Run the test and the rehearsal; exit if one of them has not passed."""
    code: int = _tested(name, folder, registry, as_json=False)
    if code == Exit.OK:
        arguments = _rehearsal(name, folder, window)
        code = subprocess.run(arguments, env=os.environ | _environment(where), check=False).returncode
    if code != Exit.OK:
        complain(f"{name} is not deployed; --untried REASON deploys it nevertheless")
        raise typer.Exit(code)


def _rehearsal(
    name: str,
    folder: Path,
    window: _Window,
    *,
    against: str | None = None,
    as_json: bool = False,
) -> list[str]:
    """Return the command of a rehearsal, a program of its own: it needs Arrow, and the lowest priority."""
    given = {"--since": window.since, "--last": window.last, "--against": against, "--folder": folder}
    options = [f"{option}={value}" for option, value in given.items() if value is not None]
    json_option = ["--json"] if as_json else []
    return [sys.executable, "-m", "services.transform.rehearsal", *options, *json_option, "--", name]


def _environment(where: Where) -> dict[str, str]:
    database = next(iter(where.databases), "onramp")
    return {
        "ONRAMP_KAFKA_BOOTSTRAP": where.kafka,
        "ONRAMP_WRITER_DATABASE": database,
        "ONRAMP_WRITER_DSN": where.databases.get(database, ""),
        "ONRAMP_WRITER_DATABASES": json.dumps(dict(where.databases)),
    }
