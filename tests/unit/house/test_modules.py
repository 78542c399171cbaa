"""Every module says why it exists, and none is too long to read."""

import ast
from pathlib import Path

import pytest

from tests.unit.house.tree import ROOT, product_files

MOST_LINES = 300
#: One row after another, looked up and never read through.
TABLES = [Path("shared/errors.py")]


@pytest.mark.parametrize("file", product_files(), ids=str)
def test_a_module_says_why_it_exists(file: Path) -> None:
    said = ast.get_docstring(ast.parse((ROOT / file).read_text("utf-8")))
    assert said, f"{file} has no docstring"


@pytest.mark.parametrize("file", [f for f in product_files() if f not in TABLES], ids=str)
def test_a_file_is_short_enough_to_read(file: Path) -> None:
    lines = len((ROOT / file).read_text("utf-8").splitlines())
    assert lines <= MOST_LINES, f"{file} has {lines} lines: it asks to be two"


@pytest.mark.parametrize("folder", sorted({f.parent for f in product_files()}), ids=str)
def test_every_folder_is_a_package(folder: Path) -> None:
    # Without it a stray package of the same name on the path would be merged in silence.
    assert (ROOT / folder / "__init__.py").exists()
