"""Tests of functions on examples, and the differences between JSON documents."""

from pathlib import Path
from typing import Any

import pytest

from services.transform.author.example_tests import (
    AuthorFileError,
    ExampleResult,
    load_project,
    run_examples,
)
from shared.json_differences import ABSENT, JsonDifference, differences

REGISTRY = """\
event_types:
  read: {}
  made: {schema: {type: object, properties: {n: {type: integer}}}, key: /n}
transforms:
  double: {from: read, to: [made], lookups: [names], limits: {outputs: 2}}
lookups:
  names: {database: onramp, table: public.names, key: id, columns: [name]}
"""
SOURCE = """\
def transform(event, lookup):
    print("saw", event["event_name"], event["metadata"]["id"])
    n = event["payload"]["n"]
    if lookup("names", n):
        return None
    return [{"event_name": "made", "payload": {"n": n * 2}}] * event["payload"].get("times", 1)
"""


def results(folder: Path, examples: str, source: str = SOURCE) -> list[ExampleResult]:
    (folder / "double.py").write_text(source, "utf-8")
    (folder / "double.tests.yaml").write_text(examples, "utf-8")
    (folder / "onramp.yaml").write_text(REGISTRY, "utf-8")
    return list(run_examples(load_project(folder, "double", folder / "onramp.yaml")))


def test_examples_pass_or_name_what_differs(tmp_path: Path) -> None:
    found = results(
        tmp_path,
        """\
- {name: doubled, given: {payload: {n: 2}}, expect: {event_name: made, payload: {n: 4}}}
- {given: {payload: {n: 2}}, lookups: {names: {"2": {name: two}}}, expect: null}
- {given: {payload: {n: 2}}, expect: {event_name: made, payload: {n: 5, m: 1}}}
- {given: {payload: {n: 2}}, expect: []}
- {given: {payload: {}}, expect: {error: KeyError}}
- {given: {payload: {}}, expect: {error: transform_failed}}
- {given: {payload: {}}, expect: null}
- {given: {payload: {n: 2}}, expect: {error: KeyError}}
- {given: {payload: {n: 2, times: 3}}, expect: {error: transform_too_many_outputs}}
""",
    )
    problems = [each.problems for each in found]
    assert (found[0].name, found[1].name) == ("doubled", "example 2")
    assert problems[:2] == [[], []]
    assert problems[2] == [
        "/0/payload/m: expected 1, was nothing",
        "/0/payload/n: expected 5, was 4",
    ]
    assert problems[3] == ['/0: expected nothing, was {"event_name":"made","payload":{"n":4}}']
    assert problems[4:6] == [[], []]
    assert problems[6][0] == "transform_failed: KeyError at line 3: 'n'"
    assert problems[7] == ["expected KeyError; the event is emitted"]
    assert problems[8] == []
    assert found[0].printed == ["saw read test"]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ('{"event_name": "made", "payload": {"n": "x"}}', "schema_mismatch"),
        ('{"event_name": "other", "payload": {}}', "does not list this event name in `to`"),
        ('{"event_name": "made", "payload": {}}', "key_missing"),
    ],
)
def test_outputs_pass_the_gateways_checks(tmp_path: Path, output: str, told: str) -> None:
    source = f"def transform(event, lookup):\n    return {output}\n"
    (result,) = results(tmp_path, "- {given: {payload: {}}, expect: null}", source)
    assert "transform_bad_output: output 1" in result.problems[0]
    assert told in result.problems[0]


@pytest.mark.parametrize(
    ("examples", "told"),
    [
        ("[]", "at least 1 item"),
        ("- {given: {}}", "0.expect: Field required"),
        ("- {given: {}, expect: null, exepct: 1}", "0.exepct: Extra inputs"),
        ("- [", r"double\.tests\.yaml: "),
    ],
)
def test_a_wrong_test_file_is_refused_with_the_place(tmp_path: Path, examples: str, told: str) -> None:
    with pytest.raises(AuthorFileError, match=told):
        results(tmp_path, examples)


def test_a_function_without_files_or_registry(tmp_path: Path) -> None:
    with pytest.raises(AuthorFileError, match=r"double\.py cannot be read"):
        load_project(tmp_path, "double", None)
    (tmp_path / "double.py").write_text(SOURCE, "utf-8")
    with pytest.raises(AuthorFileError, match=r"double\.tests\.yaml does not exist"):
        load_project(tmp_path, "double", None)


def test_the_example_of_the_repository_passes() -> None:
    found = list(run_examples(load_project(Path("transforms"), "flight_delays", None)))
    assert [each.problems for each in found] == [[]] * 4


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2.0}]}, []),
        ({"a": 1}, {"a": True}, [("/a", 1, True)]),
        ({"a/b": 1, "c~": 2}, {}, [("/a~1b", 1, ABSENT), ("/c~0", 2, ABSENT)]),
        ([1], [1, 2], [("/1", ABSENT, 2)]),
        ({"a": {}}, {"a": []}, [("/a", {}, [])]),
        (None, 0, [("", None, 0)]),
    ],
)
def test_differences_are_named_by_pointer(first: Any, second: Any, found: list[tuple[Any, ...]]) -> None:
    assert list(differences(first, second)) == [JsonDifference(*each) for each in found]


def test_documents_of_any_depth_are_compared() -> None:
    def nested(value: int) -> Any:
        document: Any = value
        for _ in range(5_000):
            document = {"a": [document]}
        return document

    (found,) = differences(nested(1), nested(2))
    assert (found.first, found.second) == (1, 2)
