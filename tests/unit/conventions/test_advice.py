"""Commands advised in errors, logs, help and documentation exist and can be run as written."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from docs import generate
from services.cli.app import app
from shared.errors import FORBIDDEN_DESTINATION, TABLE, UNKNOWN_DATABASE, Fault
from tests.unit.conventions.tree import line_at, pages, product_files, report, text_of, tree_of

#: A command that is named: in backticks or quotes to their end, else from a line's begin (behind
#: variables or a pipe) or a colon to the line's.  Two spaces end it: help explains behind them.
COMMAND = re.compile(
    r"`(?:bin/)?onramp ([^`]+)`"
    r"|'(?:bin/)?onramp ([^']+)'"
    r"|(?:^|: |\| )[ \t]*(?:[A-Z_]+=\S+ )*(?:bin/)?onramp ([a-z][^\n`]*?)(?=  |\n|$)",
    re.MULTILINE,
)
#: `docs/cli.md` is help that is wrapped: its sources are among the product's files.
FILES = [*product_files(), *(page for page in pages() if page != Path("docs/cli.md"))]
WRONG_ADVICE = [
    "mend it, then `onramp errors reschedule`",
    "`onramp replay events.x/0/17`",
    "see 'onramp error count'",
    "onramp errors show KEY --bytes > event.json",
    "ONRAMP_URL=http://x onramp send --file event.json",
    "cat event.json | onramp send -- a b",
    "to go on: onramp partitions resolve events.x/0 skip",
    "`onramp types resume order_placed in_all_databases`",
    "onramp errors show --raw",
]
ROOT_COMMAND: Any = typer.main.get_command(app)


def literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of a module's string literals; the values put into them are written as X."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def commands(text: str, first_line: int = 1) -> Iterator[tuple[int, str]]:
    """Yield line and text of our commands that `text` names, from their verb on."""
    for match in COMMAND.finditer(text):
        line = line_at(text, match.start()) + first_line - 1
        yield line, next(filter(None, match.groups())).strip()


@cache
def commands_of(file: Path) -> list[tuple[int, str]]:
    texts = literals(tree_of(file)) if file.suffix == ".py" else [(1, text_of(file))]
    return [command for line, text in texts for command in commands(text, line)]


@cache
def wrong(command: str) -> str:
    """Return why `command` cannot be run; empty if it can.  A verb alone is only a name."""
    given = shlex.split(re.split(r"[>|…]", command)[0])
    found, path = ROOT_COMMAND, "onramp"
    while given and hasattr(found, "commands") and not given[0].startswith("-"):
        path = f"{path} {given[0]}"
        if given[0] not in found.commands:
            return f"there is no {path}"
        found = found.commands[given.pop(0)]
    if not given or "--help" in given or "…" in command:
        return ""
    try:
        found.make_context(path, [*given]).close()
    except Exception as error:  # noqa: BLE001 - click's exceptions have no public name in typer
        return f"{path}: {error}"
    return ""


def test_every_command_that_is_named_can_be_given() -> None:
    offenders = [
        f"{file}:{line}: `onramp {command}`: {why}"
        for file in FILES
        for line, command in commands_of(file)
        if (why := wrong(command))
    ]
    assert offenders == [], report(offenders)


def test_commands_are_found_where_they_are_named() -> None:
    """Else the test above would hold by seeing nothing."""
    found = {command for file in FILES for _, command in commands_of(file)}
    assert found >= {
        "types resume X",  # the writer's log
        "partitions resolve X accept",
        "types resume NAME",  # an error's fix
        "errors tail --kind parked",
        "databases resolve NAME …",  # a page
        "up --events 1000 --exit --json",  # help
        'errors show events.order_placed/0/17/onramp.events.order_placed --raw --reason "a fix" > event.json',
    }
    named = {command.split()[0] for command in found}
    assert named >= {name.split()[1] for name, _ in generate.verbs(ROOT_COMMAND, "onramp")}


def test_wrong_advice_is_noticed() -> None:
    assert [text for text in WRONG_ADVICE for _, command in commands(text) if not wrong(command)] == []
    assert [len(list(commands(text))) for text in WRONG_ADVICE] == [1] * len(WRONG_ADVICE)


def test_no_fix_calls_for_a_replay_while_no_verb_does_it() -> None:
    verbs = {name for name, _ in generate.verbs(ROOT_COMMAND, "onramp")}
    offenders = [code for code, fault in TABLE.items() if "replay" in fault.fix]
    assert not offenders or any(name.endswith(" replay") for name in verbs), report(offenders)


@pytest.mark.parametrize("fault", [UNKNOWN_DATABASE, FORBIDDEN_DESTINATION], ids=lambda fault: fault.code)
def test_fix_of_a_refused_event_names_each_way_to_land_it(fault: Fault) -> None:
    """By a replay once the registry is right, or into another table, or corrected and sent again."""
    [replay] = [command for _, command in commands(fault.fix) if command.startswith("errors replay")]
    assert shlex.split(replay)[:4] == ["errors", "replay", "--code", fault.code]
    assert wrong(replay) == ""
    assert "`--to " in fault.fix
    assert "send the event again" in fault.fix
