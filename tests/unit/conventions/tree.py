"""The project's files, each read and parsed once, and their imports: for the tests of conventions."""

import ast
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
PRODUCT: Final = ("clients", "services", "shared", "stack")
#: Folders without files of ours.
SKIPPED: Final = frozenset({".git", ".onramp", ".pytest_cache", ".venv", "node_modules"})


@cache
def product_files() -> tuple[Path, ...]:
    """Return every Python file of the product, relative to the project's folder."""
    return tuple(sorted(p.relative_to(ROOT) for top in PRODUCT for p in (ROOT / top).rglob("*.py")))


@cache
def pages() -> tuple[Path, ...]:
    """Return every Markdown file of the project, relative to its folder."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED]
        found += [(Path(folder) / name).relative_to(ROOT) for name in files if name.endswith(".md")]
    return tuple(sorted(found))


@cache
def text_of(file: Path) -> str:
    """Return the text of a file, named relative to the project's folder."""
    return (ROOT / file).read_text("utf-8")


@cache
def tree_of(file: Path) -> ast.Module:
    """Return the syntax tree of a Python file, named relative to the project's folder."""
    return ast.parse(text_of(file))


def line_at(text: str, offset: int) -> int:
    """Return the number of the line that holds `offset`."""
    return text.count("\n", 0, offset) + 1


def report(offenders: Iterable[str]) -> str:
    """Return a message that names every offender: pytest itself abbreviates long lists."""
    return "\n".join(["offenders:", *offenders])


def imports(tree: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each module that `tree`, of `package`, imports, type checking included."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name) for name in names)
            case ast.ImportFrom(module=module, names=names, level=0):
                # `from services import writer` imports services.writer.
                yield from ((node.lineno, f"{module}.{name.name}") for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package.split(".")[: len(package.split(".")) - level + 1]
                for name in names:
                    yield node.lineno, ".".join([*above, *([module] if module else []), name.name])


def package_of(file: Path) -> str:
    """Return the package that `file`, relative to the project's folder, belongs to."""
    return ".".join(file.parent.parts)
