"""`onramp errors` on real topics: reasons without values, repeats as one, honest about draining."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from shared import wire
from tests.fixtures.writer import envelope, event, records
from tests.integration.admin.conftest import BAD, Stage

SECRET = b'{"secret":"\\u0000 hunter2"}'


def _run(stage: Stage, verb: str, *arguments: str, database: bool = True) -> Any:
    where = stage.arguments if database else [*stage.arguments[:2], "--data-dir", "/nowhere"]
    return CliRunner().invoke(app, ["errors", verb, *arguments, *where])


def _of(stage: Stage, verb: str, *arguments: str, database: bool = True) -> list[dict[str, Any]]:
    """What a verb says in JSON about the stage's own events; the topics are shared with other tests."""
    said = _run(stage, verb, *arguments, "--json", database=database)
    assert said.exit_code == 0, said.output
    found = [each for line in said.stdout.splitlines() for each in _list(json.loads(line))]
    return [each for each in found if each["event"] == stage.name]


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


@pytest.fixture
def parked(stage: Stage) -> Stage:
    """One event is parked, and its record was published twice."""
    stage.settle(event("good", stage.name), envelope("bad", stage.name, SECRET))
    [kept] = [
        r for r in records(stage.bootstrap, wire.USER_ERRORS) if r.value and stage.name.encode() in r.value
    ]
    assert kept.key is not None
    assert kept.value is not None
    stage.park(kept.key, kept.value, list(kept.headers.items()))
    return stage


def test_a_parked_event_is_told_with_its_reason_and_without_its_value(parked: Stage) -> None:
    key = f"{parked.partition.topic}/0/1/onramp.{parked.table}"
    said = _run(parked, "tail", "-n", "1000")
    [line] = [line for line in said.output.splitlines() if key in line]
    assert "parked  data_rejected" in line
    assert "hunter2" not in said.output
    shown = _run(parked, "show", key)
    assert "step: persist" in shown.output
    assert "hunter2" not in shown.output


def test_its_value_is_shown_on_request_with_control_characters_escaped(stage: Stage) -> None:
    first = stage.settle(b"no json \x1b[2J\xff\n")
    key = f"{stage.partition.topic}/0/{first}/"
    shown = _run(stage, "show", key, "--value")
    assert "value: no json \\x1b[2J\\xff\\n" in shown.output
    assert "\x1b" not in shown.output
    assert "code: no_envelope" in shown.output


def test_its_very_bytes_are_written_for_a_file_and_where_there_are_none_that_is_said(stage: Stage) -> None:
    first = stage.settle(b"no json \x1b[2J\xff\n", None)
    assert _run(stage, "show", f"{stage.partition.topic}/0/{first}/", "--raw").stdout_bytes == (
        b"no json \x1b[2J\xff\n"
    )
    nothing = _run(stage, "show", f"{stage.partition.topic}/0/{first + 1}/", "--raw")
    assert (nothing.exit_code, nothing.stdout_bytes) == (1, b"")
    assert "there are no bytes" in nothing.stderr


def test_repeats_under_one_key_are_one_event(parked: Stage) -> None:
    assert [(g["code"], g["destination"], g["events"]) for g in _of(parked, "count")] == [
        ("data_rejected", f"onramp.{parked.table}", 1)
    ]
    assert len(_of(parked, "tail", "-n", "10000")) == 1


def test_an_unknown_key_is_1_and_no_kafka_is_3(stage: Stage) -> None:
    assert _run(stage, "show", "nothing/0/0/").exit_code == 1
    said = CliRunner().invoke(app, ["errors", "count", "--kafka", "127.0.0.1:1", "--data-dir", "/nowhere"])
    assert said.exit_code == 3
    assert "cannot be read" in said.output


def test_diverted_events_wait_until_the_ledger_has_passed_them(stage: Stage) -> None:
    stage.settle(event("good", stage.name))
    stage.settle(event("later", stage.name), divert=True)
    assert [e["state"] for e in _of(stage, "tail", "-n", "10000", "--kind", "waiting")] == ["waiting"]
    assert [g["state"] for g in _of(stage, "count", database=False)] == ["diverted"]
    stage.execute("UPDATE onramp.ledger SET next_offset = 2")
    assert _of(stage, "tail", "-n", "10000") == []
    assert [g["state"] for g in _of(stage, "count")] == ["drained"]


def test_a_database_that_is_out_does_not_hide_what_waits(stage: Stage) -> None:
    stage.settle(event("later", stage.name), divert=True)
    where = ["--kafka", stage.bootstrap, "--dsn", "postgresql://x@127.0.0.1:1/x"]
    said = CliRunner().invoke(app, ["errors", "tail", "-n", "10000", *where])
    assert said.exit_code == 0
    assert f"{stage.partition.topic}/0/0/onramp" in said.stdout
    assert "what has drained there is unknown" in said.stderr


def test_bad_is_parked_in_json_too(stage: Stage) -> None:
    stage.settle(envelope("bad", stage.name, BAD))
    [found] = _of(stage, "tail", "-n", "10000", "--kind", "parked")
    assert (found["offset"], found["reason"]["step"], "value" in found) == (0, "persist", False)


def test_what_waits_in_its_own_database_is_told_with_why(stage: Stage) -> None:
    stage.settle(event("a", stage.name))
    stage.hold("type", stage.name, "paused")
    stage.settle(event("b", stage.name))
    [found] = _of(stage, "tail", "-n", "10000", "--kind", "waiting")
    key = f"{stage.partition.topic}/0/1/onramp.{stage.table}"
    assert (found["key"], found["state"], found["code"]) == (key, "waiting", "paused")
    assert "onramp types resume" in _run(stage, "show", key).output
    assert [(g["code"], g["events"]) for g in _of(stage, "count")] == [("paused", 1)]
