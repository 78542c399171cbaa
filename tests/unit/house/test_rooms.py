"""Rooms are steps: small, without circles, and each imports only from floors below its own."""

from graphlib import CycleError

import pytest

from docs.rooms import ROOT, SERVICES, floors, modules, rooms

MOST_FILES = 15


@pytest.mark.parametrize("service", SERVICES)
def test_no_module_imports_itself_by_a_circle(service: str) -> None:
    graph = modules(service)
    assert sum(map(len, graph.values())) > len(graph) / 2, "it sees no imports"
    assert sum(map(len, floors(graph))) == len(graph)


@pytest.mark.parametrize("service", SERVICES)
def test_rooms_import_one_way(service: str) -> None:
    graph = rooms(service)
    assert sum(map(len, floors(graph))) == len(graph)


@pytest.mark.parametrize("service", SERVICES)
def test_a_room_is_small_enough_to_know(service: str) -> None:
    for folder in {file.parent for file in (ROOT / "services" / service).rglob("*.py")}:
        files = sorted(file.name for file in folder.glob("*.py") if file.name != "__init__.py")
        assert len(files) <= MOST_FILES, f"{folder.name} has {len(files)} files: {files}"


def test_a_circle_is_seen_and_named() -> None:
    with pytest.raises(CycleError, match="cycle") as seen:
        floors({"sort": {"persist"}, "persist": {"model", "sort"}, "model": set()})
    assert {"sort", "persist"} <= set(seen.value.args[1])
