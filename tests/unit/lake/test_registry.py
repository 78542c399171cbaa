from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from services.lake.compaction.retention import keep_days_of
from services.writer.driver.routes_from_registry import routes_of
from shared.registry.entries import EventType, Snapshot
from shared.registry.known_databases import unknown_places
from shared.registry.memory import MemoryRegistry

LAKE = {"type": "lake", "table": "flights"}
DATABASE: Any = SimpleNamespace(name="onramp", dbname="onramp", schemas=("events", "public"))


def snapshot(*destinations: dict[str, Any]) -> Snapshot:
    return Snapshot.model_validate({"event_types": {"flight_departed": {"destinations": destinations}}})


def test_the_table_is_the_named_one_or_the_name_of_the_event() -> None:
    assert snapshot({"type": "postgres"}, LAKE).lake_table_of("flight_departed") == "flights"
    assert snapshot({"type": "lake"}).lake_table_of("flight_departed") == "flight_departed"
    assert snapshot({"type": "postgres"}).lake_table_of("flight_departed") is None
    assert snapshot().lake_table_of("another") is None


@pytest.mark.parametrize("databases", [[], [{"type": "postgres"}]])
def test_the_writer_has_the_same_routes_with_a_table_in_the_lake(databases: list[dict[str, Any]]) -> None:
    assert routes_of(snapshot(*databases, LAKE), [DATABASE]) == routes_of(snapshot(*databases), [DATABASE])
    assert unknown_places(snapshot(*databases, LAKE), {"onramp": ()}, "onramp") == {}


@pytest.mark.parametrize(
    ("event_type", "reason"),
    [
        ({"destinations": [LAKE | {"schema": "public"}]}, "a type and a table alone"),
        ({"destinations": [LAKE | {"create": True}]}, "a type and a table alone"),
        ({"destinations": [{"type": "lake", "table": "../flights"}]}, "a table of the lake is"),
        (
            {"destinations": [LAKE, {"type": "lake", "table": "others"}]},
            "at most one destination in the lake",
        ),
        ({"lake": {"partition": "hour"}}, "'day', 'month' or 'none'"),
        ({"lake": {"start": "yesterday"}}, "'earliest' or 'now'"),
        ({"lake": {"keep_days": 0}}, "greater than or equal to 1"),
        ({"lake": {"url": "s3://elsewhere"}}, "Extra inputs"),
    ],
)
def test_wrong_entries_are_refused(event_type: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        EventType.model_validate(event_type)


def test_a_type_without_a_table_decides_nothing_about_another_types_table() -> None:
    types = {
        "departed": {"destinations": [LAKE], "lake": {"keep_days": 400}},
        "flights": {"lake": {"keep_days": 7}},
        "trains": {"lake": {"keep_days": 30}},
    }
    registry = MemoryRegistry({"event_types": types})
    assert registry.snapshot().lake_tables(is_all=False) == {"flights": "departed"}
    assert registry.snapshot().lake_tables(is_all=True) == {"flights": "departed", "trains": "trains"}
    assert keep_days_of(registry) == {"flights": 400, "trains": 30}


def test_two_types_cannot_share_a_table() -> None:
    with pytest.raises(ValidationError, match="have one table in the lake"):
        Snapshot.model_validate(
            {
                "event_types": {
                    "a": {"destinations": [{"type": "lake", "table": "b"}]},
                    "b": {"destinations": [{"type": "lake"}]},
                }
            }
        )
