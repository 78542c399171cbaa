"""`onramp types infer` and `check`: the output is a valid registry, and breaking changes are reported."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from shared.registry.file import load

RUNNER = CliRunner()
EVENT = {"metadata": {"id": "1"}, "event_name": "order_placed", "payload": {"amount": 1, "note": "a"}}


def lines(path: Path, *documents: object) -> str:
    path.write_text("".join(json.dumps(each) + "\n" for each in documents))
    return str(path)


def registry(path: Path, schema: dict[str, object], **event_type: object) -> str:
    path.write_text(json.dumps({"event_types": {"order_placed": {"schema": schema, **event_type}}}))
    return str(path)


def test_inferred_output_is_a_valid_registry(tmp_path: Path) -> None:
    other = EVENT | {"event_name": "other", "payload": {"amount": "x"}}
    samples = lines(tmp_path / "events.jsonl", EVENT, other, {"amount": 2.5})
    printed = RUNNER.invoke(app, ["types", "infer", "order_placed", samples])
    assert printed.exit_code == 0
    (tmp_path / "onramp.yaml").write_text(printed.stdout)

    assert load(tmp_path / "onramp.yaml").event_types["order_placed"].json_schema == {
        "type": "object",
        "required": ["amount"],
        "properties": {"amount": {"type": "number"}, "note": {"type": "string"}},
    }


def test_without_a_sample_nothing_is_printed(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["types", "infer", "other", lines(tmp_path / "events.jsonl", EVENT)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "has no payload of other" in done.stderr


@pytest.mark.parametrize(
    ("new", "options", "code", "said"),
    [
        ({"type": "object"}, [], 0, "Every schema accepts"),
        ({"required": ["a"]}, [], 1, "order_placed  /required  break    the field a was optional"),
        ({"not": {"required": ["a"]}}, [], 4, "order_placed  /not     undecided"),
        ({"not": {"required": ["a"]}}, ["--accept"], 0, "undecided"),
        ({"required": ["a"]}, ["--accept"], 1, "break"),
        ({"properties": {"a": {"type": "null"}}}, [], 0, "order_placed  /properties/a  warning"),
    ],
)
def test_a_change_has_its_findings_and_its_exit_code(
    tmp_path: Path, new: dict[str, object], options: list[str], code: int, said: str
) -> None:
    old = {"type": "object"}
    files = [registry(tmp_path / "old.yaml", old), registry(tmp_path / "new.yaml", old | new)]
    done = RUNNER.invoke(app, ["types", "check", *files, *options])
    assert done.exit_code == code
    assert said in done.stdout
    printed = json.loads(RUNNER.invoke(app, ["types", "check", *files, "--json"]).stdout)
    assert [each["event_type"] for each in printed] == ["order_placed"] * len(printed)


def test_the_types_own_mode_decides(tmp_path: Path) -> None:
    old = registry(tmp_path / "old.yaml", {"maxLength": 1})
    wider = registry(tmp_path / "new.yaml", {"maxLength": 2}, compatibility="full")
    assert RUNNER.invoke(app, ["types", "check", old, wider]).exit_code == 1
    other = registry(tmp_path / "other.yaml", {"maxLength": 0}, compatibility="none")
    assert RUNNER.invoke(app, ["types", "check", old, other]).exit_code == 0


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "http://127.0.0.1:1/x"}])
def test_invalid_schema_is_reported_with_its_file(tmp_path: Path, schema: dict[str, object]) -> None:
    old, new = registry(tmp_path / "old.yaml", {}), registry(tmp_path / "new.yaml", schema)
    done = RUNNER.invoke(app, ["types", "check", old, new])
    assert done.exit_code == 1
    assert "new.yaml" in done.stderr
