"""Names follow CONTRIBUTING.md: no participles and no retired words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.conventions.tree import ROOT, product_files, report, text_of, tree_of

#: Names, and parts of names, of files, classes, functions, fields, constants, metrics and settings.
BANNED = {
    "look",
    "looks",
    "looked",
    "seen",
    "kept",
    "asked",
    "told",
    "found",
    "made",
    "held",
    "most",
    "least",
    "tips",
    "books",
}
#: Names that others have given: asyncio's protocols, an HTTP status, and the fields of error trackers.
FOREIGN = {"connection_made", "not_found", "NOT_FOUND", "first_seen", "last_seen"}
PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
#: Names of metrics and settings in texts: in code, rules, dashboards and pages.
PUBLIC = re.compile(r"\b(?:onramp_[a-z_]+|ONRAMP_[A-Z_]+)\b")
OTHER_FILES = [
    file.relative_to(ROOT)
    for top, kinds in (("deploy", "*"), ("docs", "*.md"), ("services", "*.sql"))
    for file in sorted((ROOT / top).rglob(kinds))
    if file.suffix in {".json", ".md", ".sql", ".yaml", ".yml"} and "adr" not in file.parts
]


def is_banned(name: str) -> bool:
    """Return whether one of the parts of `name` is banned."""
    return name not in FOREIGN and any(part.lower() in BANNED for part in PART.findall(name))


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of each class, function, field and constant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        if isinstance(node, ast.ClassDef | ast.Module):
            for each in node.body:
                targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
                yield from ((each.lineno, t.id) for t in targets if isinstance(t, ast.Name))


def offences(file: Path, tree: ast.Module) -> list[str]:
    """Return the banned names of a file, with their lines."""
    inside = [f"{file}:{line}: {name}" for line, name in names(tree) if is_banned(name)]
    return ([f"{file}: its name"] if is_banned(file.stem) else []) + inside


def test_names_in_code_say_what_they_hold() -> None:
    files = [*product_files(), *(p.relative_to(ROOT) for p in sorted((ROOT / "loadtest").rglob("*.py")))]
    offenders = [each for file in files for each in offences(file, tree_of(file))]
    assert offenders == [], report(offenders)


def test_names_of_metrics_settings_tables_and_columns_say_what_they_hold() -> None:
    files = [*product_files(), *OTHER_FILES]
    offenders = [
        f"{file}: {name}" for file in files for name in PUBLIC.findall(text_of(file)) if is_banned(name)
    ]
    columns = re.compile(
        r"^    ([a-z_]+)\s+(?:text|bigint|integer|timestamptz|jsonb?|boolean|uuid|pg_\w+|double)\b",
        re.MULTILINE,
    )
    offenders += [
        f"{file}: {name}"
        for file in OTHER_FILES
        if file.suffix == ".sql"
        for name in columns.findall(text_of(file))
        if is_banned(name)
    ]
    assert offenders == [], report(offenders)


@pytest.mark.parametrize(
    "code",
    [
        "def look(): ...",
        "class Kept: ...",
        "MAX_ASKED = 1",
        "class A:\n    looked_at: int\n    held: int",
        "a.seen = 1",
        "def tips(): ...",
        "class Books: ...",
    ],
)
def test_a_banned_name_is_noticed(code: str) -> None:
    assert offences(Path("services/a.py"), ast.parse(code)) != []


def test_a_banned_file_is_noticed() -> None:
    assert offences(Path("services/kept_events.py"), ast.parse("")) == ["services/kept_events.py: its name"]
