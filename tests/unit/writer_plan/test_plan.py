"""Trials: the requested window and file, division of work among tasks, and the final report."""

from pathlib import Path

import orjson
import pytest
import yaml
from pydantic import SecretStr

from services.cli.exits import Exit as CliExit
from services.writer.plan.plan import InForce, WrongFileError, changed
from services.writer.plan.reasons import Reason
from services.writer.plan.report import Report, in_payload
from services.writer.plan.rules import rules_of
from services.writer.plan.survey import Survey
from services.writer.plan.tally import (
    SAMPLES,
    Newly,
    Outcomes,
    Sample,
    TaskTally,
    TypeTally,
    total,
)
from services.writer.plan.task import shares
from services.writer.postgres.database import configured
from services.writer.settings import WriterSettings
from shared.contracts.json_schema import compile_schema
from shared.contracts.pair import Finding, Kind
from shared.kafka_read.history import Window, WindowRanges
from shared.kafka_read.offsets import Partition, Range
from shared.printable_text import printable
from shared.registry.changes import SchemaChange
from shared.registry.entries import EMPTY, Snapshot
from shared.time_window import moment
from shared.trial_program import Exit

NOW = 1_800_000_000.0
WHY = Reason("schema_mismatch", "/payload/n", "expected type integer")
DATABASES = configured(WriterSettings(dsn=SecretStr("postgresql://x@127.0.0.1:1/x")))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("24h", 86_400), ("7d", 604_800), ("2027-01-15T07:00:00Z", 3600)],
)
def test_a_moment_is_a_span_before_now_or_a_time(text: str, seconds: int) -> None:
    assert moment(text, NOW) == NOW - seconds


def test_more_than_there_ever_was_is_all() -> None:
    assert moment("999999999d", NOW) == 0.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2999-01-01T00:00:00Z", "in the future"),
        ("2026-01-01T00:00:00", "no offset"),
        ("yesterday", "24h"),
        ("0h", "24h"),
        ("-1h", "24h"),
        ("", "24h"),
    ],
)
def test_another_moment_is_refused_with_what_it_may_be(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        moment(text, NOW)


def test_ranges_are_divided_among_tasks_without_a_gap() -> None:
    ranges = [Range("id", Partition("a", 0), 7, 107), Range("id", Partition("a", 1), 0, 2)]
    given = shares(ranges, 3)
    assert [sum(map(len, each)) for each in given] == [33, 34, 35]
    for whole in ranges:
        parts = sorted(r.start for each in given for r in each if r.partition == whole.partition)
        ends = sorted(r.end for each in given for r in each if r.partition == whole.partition)
        assert [whole.start, *ends[:-1]] == parts
        assert ends[-1] == whole.end


def test_events_are_tried_with_what_the_gateway_checks_of_a_table_that_is_created() -> None:
    field = {"properties": {"n": {"type": "integer"}}}
    made = {"schema": "public", "table": "t"}
    types = {
        "own": {"schema": field, "destinations": [made]},
        "created": {"schema": field, "destinations": [made | {"create": True}]},
    }
    found = rules_of(Snapshot.model_validate({"event_types": types}), DATABASES).types
    checked = {name: compile_schema(orjson.loads(each.schema or b"")) for name, each in found.items()}
    assert {name: each.is_valid({"n": 2**63}) for name, each in checked.items()} == {
        "own": True,
        "created": False,
    }


def written(folder: Path, text: str) -> Path:
    file = folder / "onramp.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("event_types: [", "onramp.yaml"),
        ("event_types: {a: {nonsense: 1}}", "event_types.a.nonsense"),
        ("event_types: {a: {schema: {type: nonsense}}}", "event_types.a.schema"),
        ("event_types: {a: {destinations: [{vanity: nowhere}]}}", "no such database"),
        ("event_types: {a: {destinations: [{schema: closed, table: t}]}}", "opens the schemas"),
    ],
)
def test_invalid_file_is_refused_with_the_location_of_the_error(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(WrongFileError, match=says):
        changed(InForce(EMPTY), written(tmp_path, text), DATABASES)
    with pytest.raises(WrongFileError, match="does not exist"):
        changed(InForce(EMPTY), tmp_path / "nowhere.yaml", DATABASES)


def test_a_section_that_the_file_does_not_name_stays(tmp_path: Path) -> None:
    old = Snapshot.model_validate({"event_types": {"a": {}}, "unknown_names": "refuse"})
    file = written(tmp_path, yaml.safe_dump({"event_types": {"b": {}}}))
    new = changed(InForce(old), file, DATABASES).snapshot
    assert (set(new.event_types), new.unknown_names) == ({"b"}, "refuse")


def report(tally: TaskTally, survey: Survey | None = None, findings: tuple[SchemaChange, ...] = ()) -> Report:
    return Report(
        tally=tally,
        window_ranges=WindowRanges(),
        window=Window(last=5),
        surveys={"onramp": survey or Survey()},
        findings=list(findings),
        merge=[],
        same=False,
        seconds=1.0,
    )


def counted(newly_fail: int = 0, name: str = "order_placed", read: int = 10) -> TaskTally:
    newly = Newly(events=newly_fail)
    if newly_fail:
        newly.reasons[WHY] = newly_fail
        newly.samples = [Sample(receipt=f"t/0@{n}", reasons=[WHY], event={}) for n in range(newly_fail)]
        newly.samples = newly.samples[:SAMPLES]
    of_type = TypeTally(
        read=read, new=Outcomes(refused=newly_fail, landed=read - newly_fail), newly_fail=newly
    )
    return TaskTally(types={name: of_type}, read=read)


def test_the_exit_codes_are_the_command_lines() -> None:
    assert {each.name: int(each) for each in Exit} == {each.name: int(each) for each in CliExit}
    assert report(counted()).exit is Exit.OK
    assert report(counted(1)).exit is Exit.FAILED
    assert report(TaskTally()).exit is Exit.UNCHECKED
    assert "Kafka holds no event" in report(TaskTally()).unchecked()[0]
    assert report(counted(), Survey(out="it is off")).exit is Exit.UNCHECKED
    assert report(counted(1), Survey(out="it is off")).exit is Exit.FAILED
    away = counted()
    away.failure = "Kafka is away"
    assert report(away).exit is Exit.UNAVAILABLE
    unread = counted()
    unread.unread.append("t/0")
    assert report(unread).exit is Exit.UNCHECKED
    untried = counted()
    untried.untried["onramp.public.t"] = "it is locked"
    assert report(untried).exit is Exit.UNCHECKED


def test_task_counts_are_summed_and_five_samples_are_retained() -> None:
    found = total([counted(4), counted(3), counted(2, "other")])
    assert (found.read, set(found.types)) == (30, {"order_placed", "other"})
    of_type = found.types["order_placed"]
    assert (of_type.read, of_type.newly_fail.events, len(of_type.newly_fail.samples)) == (20, 7, SAMPLES)
    assert of_type.newly_fail.reasons[WHY] == 7


def test_names_and_reasons_that_anybody_makes_up_are_bounded() -> None:
    found = total(counted(1, f"name_{n}", read=1) for n in range(5_010))
    assert len(found.types) == 5_001
    assert found.types["(other event names)"].read == 10
    newly = Newly()
    for n in range(300):
        newly.add(Newly(events=1, reasons=type(newly.reasons)([WHY._replace(pointer=f"/payload/{n}")])))
    assert (len(newly.reasons), sum(newly.reasons.values())) == (201, 300)


@pytest.mark.parametrize(
    ("pointer", "at"),
    [
        ("/properties/note", "/payload/note"),
        ("/properties/a/properties/b", "/payload/a/b"),
        ("/properties/a/items", None),
        ("", None),
        ("/required", None),
    ],
)
def test_a_place_in_a_schema_is_a_place_in_the_payload(pointer: str, at: str | None) -> None:
    assert in_payload(pointer) == at


def test_field_at_which_events_newly_fail_is_reported_with_its_warning() -> None:
    warning = SchemaChange("order_placed", Finding(Kind.WARNING, "/properties/n", "it was not named"))
    other = SchemaChange("order_placed", Finding(Kind.WARNING, "/properties/nn", "it was not named"))
    said = report(counted(3), findings=(warning, other))
    assert [each["events"] for each in said.as_dict()["schemas"]] == [3, 0]
    assert [line for line in said.lines() if "newly fail at" in line] == [
        "  3 events newly fail at this field"
    ]


def test_control_characters_in_text_from_senders_are_escaped_for_the_terminal() -> None:
    assert printable("a\x1b[31m\u202eb\x9b") == "a\\x1b[31m\\u202eb\\x9b"
