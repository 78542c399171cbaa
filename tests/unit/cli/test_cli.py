"""The command line for scripts: help with examples, and documented exit codes."""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from services.cli.app import app
from services.cli.exits import Exit
from stack.ports import free_port

VERBS = (
    "up",
    "transforms",
    "doctor",
    "ingest",
    "journey",
    "keys",
    "lake",
    "access",
    "apply",
    "plan",
    "export",
    "writer",
    "send",
    "top",
    "tracer",
    "errors",
    "types",
    "databases",
    "destinations",
    "partitions",
    "topics",
    "sources",
    "statement",
    "admin",
    "audit",
)
#: Of its body, without its options and its help.
LONGEST_VERB = 20
run = CliRunner()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str) -> None:
    result = run.invoke(app, [verb, "--help"])
    assert result.exit_code == 0
    assert (
        f"onramp {verb}" in result.output.replace("\n", " ").split("Options:")[0].split("Usage:", 1)[1][20:]
    )


def test_help_lists_exactly_the_known_verbs_and_the_exit_codes() -> None:
    result = run.invoke(app, ["--help"])
    listed = {line.split()[0] for line in result.output.split("Commands:")[1].splitlines() if line.strip()}
    assert listed == set(VERBS)
    assert "Exit codes: 0" in result.output


def test_doctor_tells_a_script_what_it_found() -> None:
    result = run.invoke(app, ["doctor", "--json"])
    found = json.loads(result.output)
    assert result.exit_code == (0 if found["healthy"] else 3)
    assert {each["what"] for each in found["findings"]} >= {"Python", "Packages", "Java", "Jars", "Ports"}


def test_doctor_fails_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stack.java.USUAL", ())
    monkeypatch.setattr("stack.java.shutil.which", lambda _: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = run.invoke(app, ["doctor"])
    assert result.exit_code == 3
    lines = [line.split(maxsplit=2) for line in result.output.splitlines()]
    assert lines[0] == ["RESULT", "CHECK", "DETAIL"]
    assert any(line[:2] == ["FAIL", "Java"] and line[2].startswith("No Java was found") for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["events.ndjson", "--event", "order_placed"],
        ["/nowhere/events.ndjson"],
        ["--event", "order_placed", "--payload", "{nonsense"],
        ["--event", "order_placed", "--url", "localhost:8080"],
        ["--event", "order_placed", "--batch", "0"],
    ],
)
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    assert run.invoke(app, ["send", *arguments]).exit_code == 2


def test_a_line_that_is_no_document_is_named_by_number(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text('{"metadata":{}},{"metadata":{}}\n', "utf-8")
    result = run.invoke(app, ["send", str(file)])
    assert result.exit_code == 2
    assert "line 1 is not a JSON document" in result.output


def test_no_gateway_is_3() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    result = run.invoke(app, ["send", "--event", "order_placed", "--url", url, "--wait", "0"])
    assert result.exit_code == 3
    assert "Is it running" in result.output


def test_an_audit_without_any_database_or_with_a_bad_pattern_is_2(tmp_path: Path) -> None:
    nowhere = ["audit", "--data-dir", str(tmp_path)]
    assert run.invoke(app, nowhere, env={"ONRAMP_WRITER_DSN": ""}).exit_code == 2
    for wrong in (["--topics", "("], ["--databases", "[]"], ["--databases", "{"]):
        assert run.invoke(app, [*nowhere, "--dsn", "postgresql://x@127.0.0.1:1/x", *wrong]).exit_code == 2


def test_sources_of_no_known_database_name_the_missing_setting_and_are_3(tmp_path: Path) -> None:
    nowhere = ["sources", "list", "--data-dir", str(tmp_path)]
    result = run.invoke(app, nowhere, env={"ONRAMP_WRITER_DSN": ""})
    assert (result.exit_code, "set ONRAMP_WRITER_DSN" in result.stderr) == (3, True)


def test_an_audit_without_kafka_is_3() -> None:
    where = ["--kafka", f"127.0.0.1:{free_port()}", "--dsn", "postgresql://x:secret@127.0.0.1:1/x"]
    result = run.invoke(app, ["audit", *where])
    assert result.exit_code == 3
    assert "cannot be read" in result.output
    assert "secret" not in result.output


def commands(command: Any, path: str = "onramp") -> Iterator[tuple[str, Any]]:
    """Every verb with the function that carries it out."""
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, f"{path} {name}")
    if not hasattr(command, "commands"):
        yield path, inspect.unwrap(command.callback)


@pytest.mark.parametrize(("path", "verb"), [*commands(typer.main.get_command(app))])
def test_a_verb_reads_its_options_and_hands_over(path: str, verb: FunctionType) -> None:
    """The module of a verb has its options and help; longer code is in another module."""
    [function] = ast.parse(textwrap.dedent(inspect.getsource(verb))).body
    assert isinstance(function, ast.FunctionDef)
    first, last = function.body[1], function.body[-1]
    length = (last.end_lineno or last.lineno) - first.lineno + 1
    assert length <= LONGEST_VERB, f"{path} has {length} lines"


def test_an_unknown_way_to_resolve_a_halt_is_refused_with_the_known_ones() -> None:
    said = CliRunner().invoke(app, ["databases", "resolve", "onramp", "redo"])
    assert (said.exit_code, "recheck, refill, skip" in said.stderr) == (Exit.USAGE, True)
