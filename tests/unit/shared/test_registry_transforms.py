"""Transforms and lookups in the registry: limits, conflicts between entries, and the deployed source."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from shared.registry import Snapshot
from shared.registry.change_log import Chain, Ruling
from shared.registry.difference import difference
from shared.registry.file import RegistryFileError, load
from shared.registry.known_databases import unknown_places
from shared.registry.memory import reasons
from shared.registry.merge import merge_file, with_deployed
from shared.registry.strict_yaml import loads
from shared.registry.transforms import (
    MAX_SOURCE_BYTES,
    Lookup,
    Transform,
    TransformLimits,
    digest_of_source,
    require_fit,
)
from tests.unit.shared.test_registry_change_log import record

EXAMPLE = """
transforms:
  flight_delays: {from: flight_departed, to: [flight_delayed], start: now, lanes: 1, lookups: [airlines],
    limits: {cpu_ms: 1000, memory_mb: 512, outputs: 100}}
lookups:
  airlines: {database: onramp, table: public.airlines, key: carrier, columns: [name], refresh_s: 60,
    max_rows: 1000000}
"""
DELAYS = {"from": "flight_departed", "to": ["flight_delayed"]}
AIRLINES = {"database": "onramp", "table": "public.airlines", "key": "carrier", "columns": ["name"]}
TYPES: dict[str, Any] = {"flight_departed": {}, "flight_delayed": {}}
CODE = "def transform(event, lookup):\n    return None\n"


def deployed(source: str = CODE, **fields: Any) -> dict[str, Any]:
    return {**DELAYS, **fields, "source": source, "digest": digest_of_source(source)}


def why(section: str, entries: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as refused:
        Snapshot.model_validate({section: entries})
    return "; ".join(reasons(refused.value))


def test_the_example_of_the_documentation_has_the_defaults() -> None:
    snapshot = Snapshot.model_validate(loads(EXAMPLE))
    transform, lookup = snapshot.transforms["flight_delays"], snapshot.lookups["airlines"]
    assert transform == Transform.model_validate({**DELAYS, "lookups": ["airlines"]})
    assert (transform.source_type, transform.to, transform.start) == (
        "flight_departed",
        ("flight_delayed",),
        "now",
    )
    assert transform.limits == TransformLimits(cpu_ms=1000, memory_mb=512, outputs=100)
    assert lookup == Lookup.model_validate(AIRLINES)
    assert (lookup.refresh_seconds, lookup.max_rows) == (60, 1_000_000)
    require_fit(snapshot.transforms, snapshot.lookups, TYPES)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"from": "onramp_probe"}, "is Onramp's own"),
        ({"from": "onramp_x"}, "is Onramp's own"),
        ({"to": ["onramp_x"]}, "is Onramp's own"),
        ({"to": []}, "at least 1 item"),
        ({"to": ["a", "a"]}, "a name comes twice"),
        ({"to": ["A"]}, "an event name is"),
        ({"lanes": 0}, "greater than or equal to 1"),
        ({"lanes": 17}, "less than or equal to 16"),
        ({"start": "latest"}, "'now' or 'earliest'"),
        ({"limits": {"cpu_ms": 1}}, "limits.cpu_ms"),
        ({"limits": {"memory_mb": 1}}, "limits.memory_mb"),
        ({"limits": {"outputs": 0}}, "limits.outputs"),
        ({"source": CODE}, "digest is the SHA-256 of source"),
        ({"digest": "0" * 64}, "digest is the SHA-256 of source"),
        (deployed("#" * (MAX_SOURCE_BYTES + 1)), "65,537 bytes; the maximum is 65,536"),
        (deployed(source="#" * (MAX_SOURCE_BYTES // 2) + "é" * (MAX_SOURCE_BYTES // 4 + 1)), "65,538 bytes"),
        ({"sources": "x"}, "Extra inputs"),
    ],
)
def test_an_unusable_transform_is_refused_with_the_reason(changed: dict[str, Any], told: str) -> None:
    assert told in why("transforms", {"flight_delays": {**DELAYS, **changed}})


def test_a_source_of_the_largest_size_is_accepted() -> None:
    Snapshot.model_validate({"transforms": {"a": deployed("#" * MAX_SOURCE_BYTES)}})


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"table": "airlines"}, "schema.table"),
        ({"columns": []}, "at least 1 item"),
        ({"columns": ["a", "a"]}, "a name comes twice"),
        ({"refresh_s": 0}, "refresh_s"),
        ({"max_rows": 0}, "max_rows"),
        ({"database": ""}, "at least 1 character"),
    ],
)
def test_an_unusable_lookup_is_refused_with_the_reason(changed: dict[str, Any], told: str) -> None:
    assert told in why("lookups", {"airlines": {**AIRLINES, **changed}})


@pytest.mark.parametrize(
    ("transforms", "told"),
    [
        ({"t": {"from": "a", "to": ["a"]}}, "a → a"),
        ({"t": {"from": "a", "to": ["b"]}, "u": {"from": "b", "to": ["c", "a"]}}, "a → b → a"),
        (
            {
                "t": {"from": "d", "to": ["a"]},
                "u": {"from": "a", "to": ["b"]},
                "v": {"from": "b", "to": ["c"]},
                "w": {"from": "c", "to": ["a"]},
            },
            "a → b → c → a",
        ),
        ({"t": {"from": "x", "to": ["b"]}}, "transforms.t.from: there is no event type x"),
        ({"t": {"from": "a", "to": ["b", "y"]}}, "transforms.t.to: there is no event type y"),
        (
            {"t": {"from": "a", "to": ["b"], "lookups": ["z"]}},
            "transforms.t.lookups: there is no lookup z",
        ),
    ],
)
def test_entries_that_do_not_fit_together_do_not_count_for_any_reader(
    transforms: dict[str, Any], told: str
) -> None:
    types: dict[str, Any] = {name: {} for name in "abcd"}
    snapshot = Snapshot.model_validate({"transforms": transforms})
    with pytest.raises(ValueError, match=told):
        require_fit(snapshot.transforms, {}, types)
    chain = Chain()
    verdict = chain.take(0, record(-1, {"event_types": types, "transforms": transforms}))
    assert verdict.ruling is Ruling.VOID
    assert told in verdict.reason


def test_transforms_that_join_and_fork_have_no_cycle() -> None:
    edges = {"t": ("a", ["b", "c"]), "u": ("b", ["d"]), "v": ("c", ["d"]), "w": ("a", ["d"])}
    entries = {name: {"from": source, "to": to} for name, (source, to) in edges.items()}
    require_fit(Snapshot.model_validate({"transforms": entries}).transforms, {}, dict.fromkeys("abcd"))


def test_a_type_or_lookup_in_use_is_not_deleted() -> None:
    chain = Chain()
    sections = {
        "event_types": {**TYPES, "free": {}},
        "transforms": {"t": {**DELAYS, "lookups": ["airlines"]}},
        "lookups": {"airlines": AIRLINES},
    }
    assert chain.take(0, record(-1, sections)).ruling is Ruling.COUNTED
    assert chain.take(1, record(0, delete={"event_types": ["flight_delayed"]})).ruling is Ruling.VOID
    assert chain.take(2, record(0, delete={"lookups": ["airlines"]})).ruling is Ruling.VOID
    assert chain.take(3, record(0, delete={"event_types": ["free"]})).ruling is Ruling.COUNTED
    assert chain.take(4, record(3, delete={"transforms": ["t"], "lookups": ["airlines"]})).ruling is (
        Ruling.COUNTED
    )


def chain_of(*puts: tuple[dict[str, Any], bool]) -> Chain:
    chain = Chain()
    for n, (put, of_file) in enumerate(puts):
        verdict = chain.take(n, record(n - 1, put, of_file=of_file))
        assert verdict.ruling is Ruling.COUNTED, verdict.reason
    return chain


def test_a_file_leaves_the_deployed_source_in_force() -> None:
    file = {"event_types": TYPES, "transforms": {"t": DELAYS}}
    chain = chain_of((file, True), ({"transforms": {"t": deployed()}}, False))
    merged = merge_file(chain, Snapshot.model_validate(file))
    assert (merged.unchanged, merged.clashes) == ([], [])
    assert difference(chain, merged.desired).is_empty


def test_a_file_changes_a_deployed_transform_without_a_conflict() -> None:
    file = {"event_types": TYPES, "transforms": {"t": DELAYS}}
    chain = chain_of(
        (file, True),
        ({"transforms": {"t": deployed()}}, False),
        ({"transforms": {"t": deployed(CODE + "#2")}}, False),
    )
    changed = Snapshot.model_validate({"transforms": {"t": {**DELAYS, "lanes": 2}}})
    merged = merge_file(chain, changed)
    assert merged.clashes == []
    assert difference(chain, merged.desired).put == {"transforms": {"t": deployed(CODE + "#2", lanes=2)}}
    assert with_deployed(changed, chain.snapshot()).transforms["t"].source == CODE + "#2"


def test_a_file_that_names_a_source_brings_it_into_force() -> None:
    chain = chain_of(({"event_types": TYPES, "transforms": {"t": deployed()}}, False))
    wanted = Snapshot.model_validate({"transforms": {"t": deployed(CODE + "#2")}})
    assert with_deployed(wanted, chain.snapshot()) == wanted


def test_lookups_of_a_database_that_is_not_configured_are_named() -> None:
    snapshot = Snapshot.model_validate({"lookups": {"airlines": AIRLINES}})
    assert list(unknown_places(snapshot, {"other": ["public"]}, "other")) == ["lookups.airlines"]
    assert not unknown_places(snapshot, {"onramp": ["public"]}, "onramp")


def test_a_misspelt_field_of_a_file_gets_a_suggestion(tmp_path: Path) -> None:
    path = tmp_path / "onramp.yaml"
    path.write_text("transforms:\n  t: {from: a, to: [b], lanse: 2}\n", "utf-8")
    with pytest.raises(RegistryFileError, match=r"line 2: .*unknown field; did you mean `lanes`\?"):
        load(path)
