"""Prose uses standard terms: retired phrases and sentence starts fail."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import generate
from tests.unit.conventions.test_docs import prose
from tests.unit.conventions.tree import ROOT, line_at, pages, report, text_of, tree_of

#: Phrases that have the dialect's meaning only, and the standard term for each.
STANDARD = {
    r"reads? again": "re-snapshot",
    r"rereads?": "re-snapshot",
    r"stays? out": "is excluded",
    r"told by": "identified by",
    r"(?:is|are|was|were) told": "is informed, is identified",
    r"books balance": "totals reconcile",
    r"nobody foresaw": "unexpected",
    r"sets? aside": "quarantine",
    r"incarnations?": "generation",
    r"strays": "no longer routed",
    r"(?:some|no)body": "name the actor",
    r"who(?:so)?ever": "name the actor",
    r"amid": "during",
    r"beside": "next to, in addition to",
    r"st(?:ands?|ood|anding) by": "standby",
    r"modelers?": "merger",
    r"keepers?": "dead-letter ingester",
    r"wedged": "stuck",
    r"upkeep": "reconcile interval",
    r"(?:is|are|was|were) away": "is unreachable",
}
BANNED = re.compile(rf"\b(?:{'|'.join(STANDARD)})\b".replace(" ", r"\s+"), re.IGNORECASE)
#: The start of a sentence, after an earlier one, a bullet, a bold mark or a line's indentation.
START = re.compile(
    r"(?:\A|\n[ \t]*\n|(?<=[.!?;])\s|(?:\A|\n)[ \t]*(?:[-*]|\d+\.)[ \t])[\s(*_]*"
    r"(?P<word>What|Who|Whoever|Of)\s(?P<rest>[^.?!|]*[.?!|]?)"
)
FOLDERS = ("services", "shared", "stack", "clients", "loadtest", "docs", "deploy")
#: Pages that the code's words or results make: the code is read instead.
GENERATED = {*generate.PAGES, "docs/capacity.md"}
WRITTEN = [p for p in pages() if str(p) not in GENERATED and p.parent != Path("loadtest/results")]
CODE = [p.relative_to(ROOT) for top in FOLDERS for p in sorted((ROOT / top).rglob("*.py"))]
#: Whole lines of comment, or the end of a line of code. A line that begins with "# " may be a heading.
COMMENT = re.compile(r"(?:^(?:[ \t]+#|#:)[^\n]*\n?)+|(?<=  )#[^\n]*", re.MULTILINE)
HEADING = re.compile(r"^#+ .*$", re.MULTILINE)


def faults(text: str) -> Iterator[tuple[int, str]]:
    """Yield position and advice of each fault; headings and questions are exempt."""
    text = HEADING.sub(lambda line: " " * len(line[0]), text)
    for match in BANNED.finditer(text):
        yield match.start(), f"{match[0]!r}: use a standard term"
    for match in START.finditer(text):
        if not match["rest"].endswith(("?", "|")):
            yield match.start("word"), f"a sentence starts with {match['word']!r}: start with a component"


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring and each literal of several words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each comment; consecutive lines of comment are one."""
    for match in COMMENT.finditer(text):
        lines = (line.strip().lstrip("#:").strip() for line in match[0].splitlines())
        yield line_at(text, match.start()), " ".join(lines)


def test_pages_read_like_a_reference() -> None:
    offenders = [
        f"{page}:{line_at(text, position)}: {advice}"
        for page in WRITTEN
        for text in [prose(text_of(page))]
        for position, advice in faults(text)
    ]
    assert offenders == [], report(offenders)


def test_docstrings_and_messages_read_like_a_reference() -> None:
    offenders = [
        f"{file}:{line + text.count(chr(10), 0, position)}: {advice}"
        for file in CODE
        for line, text in texts(tree_of(file))
        for position, advice in faults(text)
    ]
    assert offenders == [], report(offenders)


def test_comments_read_like_a_reference() -> None:
    offenders = [
        f"{file}:{line}: {advice}"
        for file in CODE
        for line, text in comments(text_of(file))
        for _, advice in faults(text)
    ]
    assert offenders == [], report(offenders)


def test_a_comment_is_read_over_its_lines() -> None:
    text = "a = 1  # Nobody knows.\n    #: A table is read\n    #: again.\n"
    assert list(comments(text)) == [(1, "Nobody knows."), (2, "A table is read again.")]


@pytest.mark.parametrize(
    "text",
    [
        "A table is read\nagain.",
        "The books balance.",
        "It failed. What cannot land waits.",
        "- **Of a table** nothing is left.",
        "Who reads it waits.",
        "An error that nobody foresaw",
    ],
)
def test_dialect_is_noticed(text: str) -> None:
    assert list(faults(text))


@pytest.mark.parametrize(
    "text", ["## What is lost", "Done. What now?", "One of them.", "What it costs | 3 |"]
)
def test_headings_questions_and_cells_are_exempt(text: str) -> None:
    assert not list(faults(text))
