"""The project's files and what they import, for the tests of the house's own rules."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
PRODUCT: Final = ("clients", "services", "shared", "stack")


def product_files() -> list[Path]:
    """Every Python file of the product, relative to the project's folder."""
    return sorted(p.relative_to(ROOT) for top in PRODUCT for p in (ROOT / top).rglob("*.py"))


def imports(source: str, package: str) -> Iterator[str]:
    """The modules that `source`, a module of `package`, imports anywhere, type checking included."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=module, names=names, level=0):
                # `from services import writer` imports services.writer.
                yield from (f"{module}.{name.name}" for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package.split(".")[: len(package.split(".")) - level + 1]
                yield from (".".join([*above, *([module] if module else []), name.name]) for name in names)


def package_of(file: Path) -> str:
    """The package that `file`, relative to the project's folder, belongs to."""
    return ".".join(file.parent.parts)
