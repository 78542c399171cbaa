"""`onramp topics` and `types infer --topic`: topic settings, and record shapes without values."""

import getpass
import json
import re
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from services.admin.store.control_sql import prepare, transaction
from services.cli.app import app
from services.cli.connection_options import Where
from shared.registry import Snapshot
from tests.fixtures.writer import envelope, event, make_topics
from tests.integration.admin.conftest import Stage

SECRET = b'{"name":"Ann\\u001b[31m","born":"1990-01-02","mail":"ann@example.com","n":%d}'


@pytest.fixture
def known(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A topic with four settled events and one that is not, whose type has a personal field."""
    snapshot = Snapshot.model_validate({"event_types": {stage.name: {"personal": ["/mail"]}}})
    monkeypatch.setattr(Where, "registry", lambda _: snapshot)
    stage.settle(*(envelope(f"e-{n}", stage.name, SECRET % n) for n in range(4)))
    stage.send(b"\x1b]0;no json\x07")
    return stage


def run(stage: Stage, *command: str) -> Any:
    return CliRunner().invoke(app, [*command, "--kafka", stage.bootstrap])


def test_a_topic_is_listed_with_what_kafka_says_of_it(known: Stage) -> None:
    done = run(known, "topics", "list", "--json")
    assert done.exit_code == 0, done.output
    listed = {each["topic"]: each for each in json.loads(done.stdout)}
    assert not [name for name in listed if name.startswith(("onramp.", "__"))]
    mine = listed[known.partition.topic]
    assert (mine["partitions"], mine["replicas"], mine["leaderless"]) == (1, 1, 0)
    assert (mine["event_type"], mine["events"], mine["lag"]) == (known.name, 5, 1)
    assert mine["retention_ms"] > 0
    assert mine["rate"] == round(5 / 60, 2)
    assert mine["bytes"] > 5 * len(SECRET)
    shown = run(known, "topics", "list").stdout
    assert re.search(rf"^{known.partition.topic} +{known.name} ", shown, re.MULTILINE)
    assert f"{mine['bytes']:,}" in shown


def test_a_sample_shows_no_value_and_no_control_character(known: Stage) -> None:
    for named in (known.name, known.partition.topic):
        done = run(known, "topics", "sample", named, "--last", "2", "--json")
        assert done.exit_code == 0, done.output
        event_, garbage = json.loads(done.stdout)
        assert (event_["offset"], garbage["offset"]) == (3, 4)
        assert event_["event"]["payload"]["mail"] == "***"
        assert garbage["event"] == "12 bytes, no JSON"
    said = run(known, "topics", "sample", known.name).stdout
    assert "Aaa" in said
    assert not [secret for secret in ("Ann", "1990", "example", "\x1b", "\x07") if secret in said]


def test_sample_of_a_missing_topic_exits_with_1_and_prints_no_control_character(known: Stage) -> None:
    done = run(known, "topics", "sample", "no_such\x1b[31m")
    assert done.exit_code == 1
    assert "there is no topic" in done.output
    assert "\x1b" not in done.output


def test_a_schema_is_found_in_the_newest_records(known: Stage) -> None:
    known.send(event("other", "another_name", else_=1))
    done = run(known, "types", "infer", known.name, "--topic", known.name)
    assert done.exit_code == 0, done.output
    schema = yaml.safe_load(done.stdout)["event_types"][known.name]["schema"]
    assert schema["properties"]["born"] == {"type": "string", "format": "date"}
    assert schema["properties"]["n"] == {"type": "integer"}
    assert sorted(schema["required"]) == ["born", "mail", "n", "name"]
    none = run(known, "types", "infer", known.name, "--topic", known.name, "--last", "1")
    assert none.exit_code == 1
    assert "has no payload" in none.output
    assert run(known, "types", "infer", known.name).exit_code == 2


def test_an_empty_topic_has_no_records(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Where, "registry", lambda _: Snapshot())
    make_topics(stage.bootstrap, f"{stage.partition.topic}_empty", partitions=3)
    done = run(stage, "topics", "sample", f"{stage.partition.topic}_empty", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, [])


def test_topic_is_created_by_the_registry_or_by_options_where_the_registry_has_no_entry(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{stage.name}_new"
    said = {"event_types": {name: {"partitions": 3, "retention": "36h"}}}
    monkeypatch.setattr(Where, "registry", lambda _: Snapshot.model_validate(said))
    assert "the registry has 3" in run(stage, "topics", "create", name, "--partitions", "4").output
    dry = run(stage, "topics", "create", name, "--dry-run")
    assert (dry.exit_code, "can be created" in dry.output) == (0, True)
    assert run(stage, "topics", "create", name).exit_code == 0  # a dry run made none
    assert run(stage, "topics", "create", name, "--dry-run").exit_code == 1
    again = run(stage, "topics", "create", name)
    assert (again.exit_code, "it exists already" in again.output) == (1, True)
    other = f"{stage.name}_more"
    done = run(stage, "topics", "create", other, "--partitions", "5", "--retention", "2d", "--json")
    assert (done.exit_code, json.loads(done.stdout)["created"]) == (0, True)
    listed = {each["topic"]: each for each in json.loads(run(stage, "topics", "list", "--json").stdout)}
    hour = 3_600_000
    for topic, partitions, kept in ((f"events.{name}", 3, 36), (f"events.{other}", 5, 48)):
        made = listed[topic]
        assert (made["partitions"], made["replicas"], made["retention_ms"]) == (partitions, 1, kept * hour)


def test_a_topic_that_keeps_events_otherwise_than_its_type_says_is_named_and_changed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = Snapshot.model_validate({"event_types": {stage.name: {"retention": "36h"}}})
    monkeypatch.setattr(Where, "registry", lambda _: snapshot)
    topic, wanted = stage.partition.topic, 36 * 3_600_000
    alter = f"onramp topics alter {topic} --retention 36h"

    def listed() -> dict[str, Any]:
        listed = json.loads(run(stage, "topics", "list", "--json").stdout)
        return next(dict(each) for each in listed if each["topic"] == topic)

    kept = listed()["retention_ms"]
    assert (listed()["retention_differs"], listed()["retention_said"]) == (True, "36h")
    assert alter in run(stage, "topics", "list").stdout
    dry = run(stage, *alter.split()[1:], "--dry-run", "--json")
    assert (dry.exit_code, json.loads(dry.stdout)["after_ms"]) == (0, wanted)
    assert listed()["retention_ms"] == kept
    said = run(stage, "topics", "alter", stage.name, "--retention", "36h")
    assert (said.exit_code, "keeps events 1.5 d, not 7 d" in said.stdout) == (0, True), said.output
    assert (listed()["retention_ms"], listed()["retention_differs"]) == (wanted, False)
    assert alter not in run(stage, "topics", "list").stdout


def test_a_reason_is_an_act_and_while_it_cannot_be_written_nothing_is_changed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Where, "registry", lambda _: Snapshot())
    name, why = f"{stage.name}_why", ("--reason", "the shop opens", "--control", stage.dsn)
    create, alter = ("topics", "create", name), ("topics", "alter", name, "--retention", "36h")
    unwritten = run(stage, *create, *why)
    assert (unwritten.exit_code, "cannot be stored" in unwritten.output) == (3, True), unwritten.output
    with transaction(stage.dsn) as conn:
        prepare(conn)
    for refused in ((*alter, *why), (*create, "--partitions", "1001", *why), (*create, "--dry-run", *why)):
        run(stage, *refused)
    assert run(stage, *create, *why).exit_code == 0  # nothing has made it before
    run(stage, *create, *why)  # it exists already
    assert run(stage, *alter, *why).exit_code == 0
    assert run(stage, *alter).exit_code == 0  # without a reason Kafka alone is asked
    done = stage.rows("SELECT actor, act, subject, reason FROM onramp_admin.acts ORDER BY id")
    by, of = getpass.getuser(), (f"topic events.{name}", why[1])
    assert done == [(by, "create topic", *of), (by, "keep 36h", *of)]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["onramp.settled", "--retention", "1h"], "not an event topic"),
        (["__consumer_offsets", "--retention", "1h"], "not an event topic"),
        (["no_such_event", "--retention", "1h"], "there is no such topic"),
        (["../x", "--retention", "1h"], "there is no such topic"),
        (["no_such_event", "--retention", "0h"], "hours or days"),
    ],
)
def test_alter_is_refused_for_a_missing_or_non_event_topic_or_an_invalid_retention(
    stage: Stage, command: list[str], why: str
) -> None:
    done = run(stage, "topics", "alter", *command)
    assert (done.exit_code, why in done.output) == (1, True), done.output


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["onramp.registry"], "no event uses this topic"),
        (["__consumer_offsets"], "no event uses this topic"),
        (["onramp_mine"], "no event uses this topic"),
        (["../x\x1b[31m"], "no event uses this topic"),
        (["a", "--retention", "1 day"], "hours or days"),
        (["a", "--partitions", "1001"], "at most 1000"),
        (["a", "--replication", "3"], "Kafka refuses: InvalidReplicationFactorError"),
    ],
)
def test_create_is_refused_for_a_topic_name_or_setting_that_is_invalid(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, command: list[str], why: str
) -> None:
    monkeypatch.setattr(Where, "registry", lambda _: Snapshot())
    done = run(stage, "topics", "create", *command)
    assert done.exit_code == 1, done.output
    assert why in done.output
    assert "\x1b" not in done.output


def test_fewer_replicas_than_a_202_stands_on_are_refused(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Where, "registry", lambda _: Snapshot())
    monkeypatch.setenv("ONRAMP_KAFKA_MIN_INSYNC", "2")
    done = run(stage, "topics", "create", "a", "--replication", "1")
    assert (done.exit_code, "no event could be accepted" in done.output) == (1, True)
