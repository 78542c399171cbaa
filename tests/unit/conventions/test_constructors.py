"""No wiring by position: where a constructor takes many arguments, those beyond the fourth have names.

A NamedTuple is left out: its positions are what it is for, such as the columns of a query's row.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.conventions.tree import product_files, report, tree_of

MAX_BY_POSITION = 4
FOLDERS = ("shared", "services/ingest", "services/writer", "services/cli", "stack")


def _by_position(of: ast.ClassDef) -> int:
    """Return how many arguments the constructor of a class takes by position."""
    for each in of.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return len(each.args.posonlyargs) + len(each.args.args) - 1
    decorators = [ast.unparse(d) for d in of.decorator_list]
    if not any("dataclass" in d and "kw_only=True" not in d for d in decorators):
        return 0
    n = 0
    for each in of.body:
        if isinstance(each, ast.AnnAssign):
            if ast.unparse(each.annotation) == "KW_ONLY":
                break
            text = ast.unparse(each)
            n += not ("ClassVar" in text or "init=False" in text or "kw_only=True" in text)
    return n


def _breaches(file: Path, tree: ast.Module) -> Iterator[str]:
    for each in ast.walk(tree):
        if isinstance(each, ast.ClassDef) and (n := _by_position(each)) > MAX_BY_POSITION:
            fix = "kw_only=True, or a KW_ONLY or * before the others"
            yield f"{file}:{each.lineno}: {each.name} takes {n} by position: {fix}"


def test_constructors_take_few_arguments_by_position() -> None:
    files = [file for file in product_files() if any(file.is_relative_to(folder) for folder in FOLDERS)]
    assert files
    offenders = [breach for file in files for breach in _breaches(file, tree_of(file))]
    assert offenders == [], report(offenders)


_FIELDS = "".join(f"    {name}: int\n" for name in "abcde")
_MARKED = _FIELDS.replace("    c", "    _: KW_ONLY\n    c")


@pytest.mark.parametrize(
    ("text", "breaches"),
    [
        (f"@dataclass(frozen=True)\nclass A:\n{_FIELDS}", 1),
        (f"@dataclass(kw_only=True)\nclass A:\n{_FIELDS}", 0),
        (f"@dataclass\nclass A:\n{_MARKED}", 0),
        (f"class A(NamedTuple):\n{_FIELDS}", 0),
        ("class A:\n    def __init__(self, a, b, c, d, e): ...", 1),
        ("class A:\n    def __init__(self, a, b, c, d, *, e): ...", 0),
    ],
)
def test_a_breach_is_seen(text: str, breaches: int) -> None:
    assert len(list(_breaches(Path("x.py"), ast.parse(text)))) == breaches
