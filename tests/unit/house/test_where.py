"""CONTRIBUTING says where to change things: each file that it names has what the change is about."""

import re

import pytest

from tests.unit.house.tree import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]*\]\([^|]+) \|$", PAGE.split("## Where do I change")[1], re.MULTILINE)

#: By a word of the question, what must be in the file that is named first.
WITNESSES = {
    "Retry-After": b'b"retry-after"',
    "Content-Encoding": b'b"gzip"',
    "form of body": b"ce-specversion",
    "envelope valid": b"def parse",
    "key's rate": b"events_per_second",
    "syslog message": b'"syslog-"',
    "header that marks": b"crc32(key)",
    "how many events": b"class BatchSizer",
    "recreated": b"halt_reasons.RECREATED",
    "where an event goes": b"def sort",
    "landing table": b'"_received_at"',
    "column type": b'"timestamptz"',
    "one COPY": b"copy_expert",
    "source's changes": b"change_table.name_of",
    "value is read": b"jsonb_typeof",
    "changes are merged": b"ON CONFLICT",
    "SQLSTATE": b"57014",
    "connections": b"connections to a",
    "pauses": b"class PausePolicy",
    "comes back": b"class Databases",
    "a metric": b"Counter(",
    "one group": b"def cause_of",
    "an error's words": b"TABLE",
    "audit's columns": b"unroutable",
    "verb": b"typer.Typer",
    "stops": b"def stop",
    "load shape": b"ramp-to-break",
}


@pytest.mark.parametrize(("what", "where"), ROWS)
def test_what_a_change_is_about_is_in_the_file_that_is_named_first(what: str, where: str) -> None:
    (witness,) = (found for word, found in WITNESSES.items() if word in what)
    first = re.findall(r"\]\(([^)]+)\)", where)[0]
    assert witness in (ROOT / first).read_bytes(), f"{what}: not in {first}"


def test_the_table_is_seen() -> None:
    assert len(ROWS) == len(WITNESSES)
