"""One place opens connections to Postgres: whoever opens one elsewhere forgets that machines are lost."""

import ast

import pytest

from tests.unit.house.tree import ROOT, product_files

OPENS = "shared/postgres/connect.py"
FILES = [file for file in product_files() if file.parts[0] in {"services", "shared"} and str(file) != OPENS]


def _opens(text: str) -> bool:
    calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return any(ast.unparse(called) == "psycopg2.connect" for called in calls)


@pytest.mark.parametrize("file", FILES, ids=str)
def test_connections_are_opened_in_one_place(file: str) -> None:
    assert not _opens((ROOT / file).read_text("utf-8")), f"{file}: use `connect` of {OPENS}"


def test_that_place_is_seen() -> None:
    assert _opens((ROOT / OPENS).read_text("utf-8"))
