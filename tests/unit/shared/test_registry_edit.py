"""Changes of the registry: the smallest change set, its permission, and conflicts."""

import copy
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from services.ops.registry.change import Result, State, Wish, apply_file
from services.ops.registry.database_addresses import KnownPlaces
from shared.errors import KAFKA_UNAVAILABLE, REGISTRY_CONFLICT, InfrastructureError, UserError
from shared.registry import Snapshot
from shared.registry.change_log import FORMAT
from shared.registry.difference import Difference, difference, too_large
from shared.registry.editor import Editor
from shared.registry.log import MemoryLog

KEY = {"hashes": [{"sha256": "ab" * 32, "expires": "2027-01-31T00:00:00Z"}], "events_per_second": 5}
FILE: dict[str, Any] = {
    "event_types": {"a": {"schema": {"properties": {"n": {"type": "integer"}}}}, "b": {"owner": "x"}},
    "keys": {"one": KEY, "two": KEY},
    "grants": [{"topic": "t", "schema": "s"}],
    "unknown_names": "refuse",
}


def applied(
    log: MemoryLog, document: Any, folder: Path, where: KnownPlaces | None = None, **wish: Any
) -> Any:
    file = folder / "onramp.yaml"
    file.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return apply_file(Editor(log), file, Wish(actor="me", reason="why", **wish), where)


def test_a_file_is_in_force_and_the_same_again_is_no_change(tmp_path: Path) -> None:
    log = MemoryLog()
    first = applied(log, FILE, tmp_path)
    assert (first.state, first.offset) == (State.APPLIED, 0)
    assert Editor(log).chain.snapshot() == Snapshot.model_validate(FILE)
    again = applied(log, FILE, tmp_path)
    assert (again.state, len(log.records)) == (State.UNCHANGED, 1)
    exported = applied(log, yaml.safe_dump(Editor(log).chain.document()), tmp_path)
    assert exported.state is State.UNCHANGED
    kept = orjson.loads(log.records[0].value or b"")
    assert (kept["actor"], kept["reason"], kept["after"]) == ("me", "why", -1)


def test_apply_writes_only_the_differences(tmp_path: Path) -> None:
    log = MemoryLog()
    applied(log, FILE, tmp_path)
    changed = copy.deepcopy(FILE)
    del changed["keys"]["two"]
    changed["event_types"]["b"] = {"owner": "y", "max_bytes": 5}
    changed["event_types"]["c"] = {}
    changed["grants"] = []
    result = applied(log, changed, tmp_path)
    assert result.changes == [
        "~ event_types.b: max_bytes, owner",
        "+ event_types.c",
        "~ grants",
        "- keys.two",
    ]
    record = orjson.loads(log.records[1].value or b"")
    assert record["put"] == {
        "event_types": {"b": {"owner": "y", "max_bytes": 5}, "c": {}},
        "grants": [],
    }
    assert record["delete"] == {"keys": ["two"]}


def test_a_section_that_is_not_named_stays(tmp_path: Path) -> None:
    log = MemoryLog()
    applied(log, FILE, tmp_path)
    assert applied(log, {"event_types": {}}, tmp_path).changes == ["- event_types.a", "- event_types.b"]
    assert set(Editor(log).chain.snapshot().keys) == {"one", "two"}
    assert applied(log, "", tmp_path).state is State.UNCHANGED
    assert applied(log, {"keys": {}}, tmp_path).state is State.APPLIED
    assert not Editor(log).chain.snapshot().keys


def test_nothing_is_written_by_a_dry_run_or_of_a_file_that_is_wrong(tmp_path: Path) -> None:
    log = MemoryLog()
    assert applied(log, FILE, tmp_path, is_dry=True).state is State.POSSIBLE
    bomb = "a: &a [x,x]\nb: &b [*a,*a]\n" + "".join(
        f"{chr(99 + n)}: &{chr(99 + n)} [*{chr(98 + n)},*{chr(98 + n)}]\n" for n in range(20)
    )
    wrong = [
        "keys: [",
        "event_types:\n\ta: {}",
        {"keyz": {}},
        {"event_types": {"a": {"schema": {"type": "nothing"}}}},
        {"event_types": {"a": {"schema": {"$ref": "https://example.com/other.json"}}}},
        {"event_types": {"a": {"schema": {"pattern": "("}}}},
        bomb,
        "event_types:\n  a:\n    schema: " + "{not: " * 1000 + "{}" + "}" * 1000,
    ]
    for document in wrong:
        assert applied(log, document, tmp_path).state is State.REFUSED
    assert not log.records


def test_a_break_is_refused_by_its_pointer_and_what_is_undecided_needs_a_person(tmp_path: Path) -> None:
    log = MemoryLog()
    applied(log, FILE, tmp_path)
    broken = {
        "event_types": {"a": {"schema": {"properties": {"n": {"type": "string"}}}}, "b": {"owner": "x"}}
    }
    result = applied(log, broken, tmp_path, accept=True)
    assert result.state is State.REFUSED
    assert result.findings[0].finding.pointer == "/properties/n/type"
    unsure = {"event_types": {"a": {"schema": {"not": {"required": ["x"]}}}, "b": {"owner": "x"}}}
    assert applied(log, unsure, tmp_path).state is State.UNDECIDED
    assert len(log.records) == 1
    assert applied(log, unsure, tmp_path, accept=True).state is State.APPLIED


def test_snapshot_too_large_for_the_writer_is_refused(tmp_path: Path) -> None:
    types = {f"type_{n}": {} for n in range(5001)}
    assert "5,001" in too_large(Snapshot.model_validate({"event_types": types}))
    tables = [{"schema": "public", "table": "t" * 60}] * 10
    types = {f"type_{n}": {"destinations": tables} for n in range(500)}
    assert "900,000" in too_large(Snapshot.model_validate({"event_types": types}))
    types = {f"type_{n}": {"destinations": tables} for n in range(400)}
    assert not too_large(Snapshot.model_validate({"event_types": types}))
    assert applied(
        MemoryLog(), {"event_types": types | {f"x_{n}": {} for n in range(5000)}}, tmp_path
    ).state is (State.REFUSED)


NEW: dict[str, Any] = {"hashes": [{"sha256": "cd" * 32}]}


def by_hand(log: MemoryLog, **keys: Any) -> None:
    """Change keys as `onramp keys` does; None removes one."""
    editor = Editor(log)
    there = dict(editor.chain.snapshot().keys) | keys
    wanted = Snapshot.model_validate({"keys": {name: key for name, key in there.items() if key}})
    editor.write(difference(editor.chain, wanted), "me", "")


def hashes(log: MemoryLog) -> dict[str, str]:
    return {name: key.hashes[0].sha256[:2] for name, key in Editor(log).chain.snapshot().keys.items()}


def test_a_key_that_people_made_survives_every_apply(tmp_path: Path) -> None:
    log = MemoryLog()
    by_hand(log, made=NEW)
    assert applied(log, FILE, tmp_path).unchanged == ["= keys.made: unchanged, because no file has named it"]
    one = FILE | {"keys": {"one": KEY}}
    assert applied(log, one, tmp_path).changes == ["- keys.two"]
    assert applied(log, {"keys": {}}, tmp_path).changes == ["- keys.one"]
    assert hashes(log) == {"made": "cd"}
    applied(log, {"keys": {"made": KEY}}, tmp_path)  # the file names it now: from here on it is the file's
    assert hashes(log) == {"made": "ab"}
    applied(log, {"keys": {}}, tmp_path)
    assert hashes(log) == {}
    by_hand(log, made=NEW)  # another one of the same name
    applied(log, {"keys": {}}, tmp_path)
    assert hashes(log) == {"made": "cd"}


def test_a_key_that_was_rotated_or_revoked_is_not_opened_again_by_the_same_file(tmp_path: Path) -> None:
    log = MemoryLog()
    applied(log, FILE, tmp_path)
    by_hand(log, one=NEW, two=None)
    again = applied(log, FILE | {"unknown_names": "accept"}, tmp_path)
    assert (again.state, again.changes) == (State.APPLIED, ["~ unknown_names"])
    assert again.unchanged == [
        "= keys.one: changed by others since the file was applied",
        "= keys.two: deleted by others since the file was applied",
    ]
    assert hashes(log) == {"one": "cd"}
    without = FILE | {"unknown_names": "accept", "keys": {}}
    assert applied(log, without, tmp_path).changes == ["- keys.one"]  # what the file takes away is away


@pytest.mark.parametrize("now", [NEW, None])
def test_conflicting_change_is_refused_until_overwrite_is_set(tmp_path: Path, now: Any) -> None:
    log = MemoryLog()
    applied(log, FILE, tmp_path)
    by_hand(log, one=now)
    mine = FILE | {"keys": {"one": KEY | {"events": ["order_*"]}, "two": KEY}}
    refused = applied(log, mine, tmp_path)
    assert refused.state is State.REFUSED
    assert "keys.one: others changed it" in refused.reason
    assert hashes(log).get("one") == (now and "cd")
    assert applied(log, mine, tmp_path, overwrite=True).state is State.APPLIED
    assert hashes(log) == {"one": "ab", "two": "ab"}


def test_a_file_that_does_not_fit_the_entries_of_others_is_refused(tmp_path: Path) -> None:
    log = MemoryLog()
    lake = {"destinations": [{"type": "lake", "table": "flights"}]}
    applied(log, {"event_types": {"a": lake}}, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    for wish in ({}, {"overwrite": True}):
        result = applied(log, {"event_types": {"a": lake, "b": lake}}, other, **wish)
        assert result.state is State.REFUSED
    Editor(log).write(Difference({"event_types": {"c": {}}}, {}), "another", "")
    Editor(log).write(Difference({"event_types": {"c": lake}}, {"event_types": ["a"]}), "another", "")
    result = applied(log, {"event_types": {"b": lake}}, other)
    assert (result.state, result.reason) == (
        State.REFUSED,
        "Value error, b and c have one table in the lake, flights: name two",
    )


def test_overwriting_takes_away_what_the_file_does_not_name(tmp_path: Path) -> None:
    log = MemoryLog()
    by_hand(log, made=NEW)
    assert applied(log, {"keys": {}}, tmp_path).state is State.UNCHANGED
    assert applied(log, {"keys": {}}, tmp_path, overwrite=True).changes == ["- keys.made"]
    assert hashes(log) == {}


def test_error_names_its_line_and_suggests_the_likely_field(tmp_path: Path) -> None:
    log = MemoryLog()
    file = "event_types:\n  a:\n    schema:\n      properties:\n        n:\n          type: {}\n"
    applied(log, file.format("integer"), tmp_path)
    misspelt = applied(log, "event_types:\n  a: {}\n  b:\n    partitons: 3\n    zzzzzz: 1\n", tmp_path)
    assert misspelt.reason == (
        "onramp.yaml, line 4: event_types.b.partitons: unknown field; did you mean `partitions`?; "
        "onramp.yaml, line 5: event_types.b.zzzzzz: unknown field; "
        "docs/registry.md lists the fields"
    )
    wrong = applied(log, file.format("nothing"), tmp_path)
    assert wrong.reason.startswith("onramp.yaml, line 3: event_types.a.schema: ")
    broken = applied(log, file.format("string"), tmp_path)
    assert broken.lines()[-1].startswith("line 6: a /properties/n/type: break: ")


def put(document: Any) -> Any:
    return Snapshot.model_validate(document)


def test_second_of_two_concurrent_writes_is_refused_as_a_conflict() -> None:
    log = MemoryLog()
    first, second = Editor(log), Editor(log)
    changes = [difference(e.chain, put({"keys": {n: KEY}})) for e, n in ((first, "one"), (second, "two"))]
    assert first.write(changes[0], "me", "") == 0
    with pytest.raises(UserError) as raised:
        second.write(changes[1], "you", "")
    assert raised.value.fault is REGISTRY_CONFLICT
    assert raised.value.fault.status == 409
    assert list(Editor(log).chain.snapshot().keys) == ["one"]
    again = difference(second.chain, put({"keys": {"one": KEY, "two": KEY}}))
    assert second.write(again, "you", "") == 2  # it has read what was first


class LosesAnswers(MemoryLog):
    def __init__(self, *, writes: bool) -> None:
        super().__init__()
        self._writes = writes

    def append(self, value: bytes) -> int:
        if self._writes:
            super().append(value)
        raise InfrastructureError(KAFKA_UNAVAILABLE, "no answer")


def test_an_answer_that_is_lost_is_read_back() -> None:
    log = LosesAnswers(writes=True)
    editor = Editor(log)
    assert editor.write(difference(editor.chain, put({"keys": {"one": KEY}})), "me", "") == 0
    lost = Editor(LosesAnswers(writes=False))
    with pytest.raises(InfrastructureError):
        lost.write(difference(lost.chain, put({"keys": {"one": KEY}})), "me", "")


def test_editor_of_an_older_format_writes_nothing() -> None:
    log = MemoryLog()
    before = Editor(log)
    change = difference(before.chain, put({"keys": {"one": KEY}}))
    log.append(orjson.dumps({"format": FORMAT + 1, "after": -1}))
    with pytest.raises(UserError):
        Editor(log)
    with pytest.raises(UserError):  # also one that had read before
        before.write(change, "me", "")


#: Nobody listens there: names alone are compared.
KNOWN = KnownPlaces({"main": "host=127.0.0.1 port=1", "shop": "host=127.0.0.1 port=1"}, {"shop": ("app",)})
SOURCE = {"dsn_env": "ONRAMP_SOURCE_S", "schemas": ["app"], "publish": "s"}


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (
            {"event_types": {"a": {}, "b": {"destinations": [{"vanity": "shpo"}]}}},
            "line 5: event_types.b.destinations.0: no such database: shpo; configured are main, shop",
        ),
        (
            {
                "event_types": {
                    "a": {"destinations": [{"database": "shop", "schema": "public", "table": "t"}]}
                }
            },
            "opens the schemas app, not public",
        ),
        ({"grants": [{"topic": "t", "database": "war*"}]}, "grants.0: no such database: war*"),
        ({"contracts": [{"unknown_fields": "freeze", "database": "x"}]}, "contracts.0: no such"),
        ({"sources": {"s": SOURCE | {"database": "x"}}}, "sources.s: no such database: x"),
    ],
)
@pytest.mark.parametrize("is_dry", [True, False])
def test_reference_to_an_unknown_database_or_closed_schema_is_refused(
    document: dict[str, Any], says: str, *, is_dry: bool, tmp_path: Path
) -> None:
    log = MemoryLog()
    refused = applied(log, document, tmp_path, KNOWN, is_dry=is_dry)
    assert (refused.state, log.records) == (State.REFUSED, [])
    assert says in refused.reason


def test_valid_references_and_references_that_existed_before_are_accepted(tmp_path: Path) -> None:
    log = MemoryLog()
    fine = {
        "event_types": {"a": {"destinations": [{"vanity": "shop"}, {}]}},
        "grants": [{"topic": "t", "database": "s*"}, {"topic": "u"}],
        "sources": {"s": SOURCE | {"database": "shop"}},
    }
    assert applied(log, fine, tmp_path, KNOWN).state is State.APPLIED
    more = fine | {"event_types": fine["event_types"] | {"b": {}}}
    assert applied(log, more, tmp_path, KnownPlaces({"main": "x"})).state is State.APPLIED


def test_without_any_database_a_name_of_one_is_refused_and_the_default_one_is_not(tmp_path: Path) -> None:
    default = {"event_types": {"a": {"destinations": [{}]}}, "grants": [{"topic": "t"}]}
    assert applied(MemoryLog(), default, tmp_path, KnownPlaces({})).state is State.APPLIED
    named = {"event_types": {"a": {"destinations": [{"vanity": "shop"}]}}}
    refused = applied(MemoryLog(), named, tmp_path, KnownPlaces({}))
    assert refused.state is State.REFUSED
    assert "configured are none (the writer's settings; for `onramp` --dsn and --databases)" in refused.reason


def test_a_change_consults_only_the_databases_that_it_needs(tmp_path: Path) -> None:
    def with_table(**more: Any) -> dict[str, Any]:
        return {"destinations": [{"schema": "public", "table": "t", **more}], "owner": "x"}

    down = KnownPlaces({"main": "host=127.0.0.1 port=1"})
    for there, note in (
        (with_table(create=True), "whether the tables of main exist was not checked"),
        (with_table(), ""),
    ):
        log = MemoryLog()
        applied(log, FILE | {"event_types": {"a": there}}, tmp_path)
        renamed = {"event_types": {"a": there | {"owner": "y"}, "b": {}}, "keys": {"one": KEY}}
        result = applied(log, FILE | renamed, tmp_path, down)
        assert (result.state, result.reason.partition(":")[0]) == (State.APPLIED, note)
        assert hashes(log) == {"one": "ab"}
    changed = {"event_types": {"a": with_table(create=True) | {"schema": {"properties": {"n": {}}}}}}
    with pytest.raises(InfrastructureError):
        applied(MemoryLog(), changed, tmp_path, down)


def test_a_table_that_would_take_no_field_is_not_created(tmp_path: Path) -> None:
    down = KnownPlaces({"main": "host=127.0.0.1 port=1"})
    field = {"properties": {"n": {}}}

    def change(schema: dict[str, Any], **more: Any) -> Result:
        place = {"destinations": [{"schema": "public", "table": "t", "create": True}], "schema": schema}
        return applied(MemoryLog(), {"event_types": {"a": place | more}}, tmp_path, down)

    for schema in ({}, {"oneOf": [field, {"type": "object"}]}):
        refused = change(schema)
        assert refused.state is State.REFUSED
        assert "event_types.a: its schema names no field" in refused.reason
        with pytest.raises(InfrastructureError):  # it asks the database
            change(schema, contract={"unknown_fields": "discard"})
    for schema in ({"allOf": [field]}, {"additionalProperties": False}):
        with pytest.raises(InfrastructureError):
            change(schema)
