"""Postgres connections are opened by a single function, so that every connection detects a lost machine."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.unit.conventions.tree import product_files, report, tree_of

OPENS = Path("shared/postgres/connect.py")


def _lines_that_connect(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="psycopg2"), attr="connect")):
                yield node.lineno


def test_connections_are_opened_in_one_place() -> None:
    offenders = [
        f"{file}:{line}: use `connect` of {OPENS}"
        for file in product_files()
        if file.parts[0] in {"services", "shared"} and file != OPENS
        for line in _lines_that_connect(tree_of(file))
    ]
    assert offenders == [], report(offenders)


def test_that_place_is_noticed() -> None:
    assert list(_lines_that_connect(tree_of(OPENS)))
