"""Packages are steps: small, without circles, and each imports only from layers below its own."""

from graphlib import CycleError

import pytest

from docs.layers import ROOT, SERVICES, Graph, layers, modules, packages
from tests.unit.conventions.tree import report

MAX_FILES = 25


def circles(graphs: dict[str, Graph]) -> list[str]:
    found = []
    for name, graph in graphs.items():
        try:
            placed = sum(map(len, layers(graph)))
        except CycleError as error:
            found.append(f"services/{name}: imports in a circle: {' -> '.join(error.args[1])}")
        else:
            assert placed == len(graph), name
    return found


def test_no_module_imports_itself_by_a_circle() -> None:
    graphs = {service: modules(service) for service in SERVICES}
    for name, graph in graphs.items():
        assert sum(map(len, graph.values())) > len(graph) / 2, f"no imports found in {name}"
    offenders = circles(graphs)
    assert offenders == [], report(offenders)


def test_packages_import_one_way() -> None:
    offenders = circles({service: packages(service) for service in SERVICES})
    assert offenders == [], report(offenders)


def test_packages_are_small_enough_to_know() -> None:
    offenders = []
    for service in SERVICES:
        for folder in sorted({file.parent for file in (ROOT / "services" / service).rglob("*.py")}):
            files = sorted(file.name for file in folder.glob("*.py") if file.name != "__init__.py")
            if len(files) > MAX_FILES:
                offenders.append(
                    f"{folder.relative_to(ROOT)}: {len(files)} files: make it two packages: {files}"
                )
    assert offenders == [], report(offenders)


def test_a_circle_is_noticed_and_named() -> None:
    with pytest.raises(CycleError, match="cycle") as raised:
        layers({"sort": {"persist"}, "persist": {"model", "sort"}, "model": set()})
    assert {"sort", "persist"} <= set(raised.value.args[1])
