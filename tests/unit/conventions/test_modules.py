"""Every module has a docstring with its purpose, and a limited length."""

import ast
from pathlib import Path

from tests.unit.conventions.sizes import warnings
from tests.unit.conventions.tree import ROOT, product_files, report, text_of, tree_of

MAX_LINES = 500
#: One row after another, looked up and never read through.
TABLES = [Path("shared/errors.py")]


def test_the_product_is_found() -> None:
    """Otherwise the rules that name every offender would hold for want of files."""
    assert {Path("services/writer/driver/batch.py"), Path("shared/envelope.py")} <= set(product_files())


def test_every_module_has_a_docstring() -> None:
    offenders = [
        f"{file}:1: no docstring: say why the module exists"
        for file in product_files()
        if not ast.get_docstring(tree_of(file))
    ]
    assert offenders == [], report(offenders)


def test_every_file_is_short_enough_to_read() -> None:
    lengths = {file: len(text_of(file).splitlines()) for file in product_files() if file not in TABLES}
    offenders = [
        f"{file}:{MAX_LINES + 1}: {lines} lines: make it two files"
        for file, lines in lengths.items()
        if lines > MAX_LINES
    ]
    assert offenders == [], report(offenders)


def test_large_files_and_folders_are_warned_of() -> None:
    few = {Path(f"few/{n}.py"): 300 for n in range(15)} | {Path("few/__init__.py"): 1}
    many = {Path(f"many/{n}.py"): 1 for n in range(16)} | {Path("many/long.py"): 301}
    assert list(warnings(few | many)) == [
        "warning: many/long.py has 301 lines",
        "warning: many has 17 files",
    ]


def test_every_folder_is_a_package() -> None:
    # Without it a stray package of the same name on the path would be merged in silence.
    folders = sorted({file.parent for file in product_files()})
    offenders = [
        f"{folder}: add an __init__.py" for folder in folders if not (ROOT / folder / "__init__.py").exists()
    ]
    assert offenders == [], report(offenders)
