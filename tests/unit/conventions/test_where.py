"""CONTRIBUTING.md names the right files: each contains the code that its question is about."""

import re

from tests.unit.conventions.tree import ROOT, report

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
    "header that marks": b"HEADER_CONTEXT",
    "partition of a key": b"crc32(key)",
    "size limit": b"EVENT_TOO_LARGE",
    "own topics": b"cleanup.policy",
    "an alert": b"alert:",
    "login cookie": b"def cookie(",
    "parked events are stored": b"INSERT INTO onramp_admin.parked",
    "retained": b"RETENTION_DAYS: Final",
    "where a replay": b"def land",
    "wal_level": b"wal_level is",
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
    "wait between retries": b"class Backoff",
    "pauses": b"class PausePolicy",
    "comes back": b"class Databases",
    "a metric": b"Counter(",
    "one group": b"def cause_of",
    "an error's words": b"TABLE",
    "audit's columns": b"unroutable",
    "verb": b"typer.Typer",
    "stops": b"def stop",
    "load shape": b"ramp-to-break",
    "transform's outputs": b"class OutputChecks",
    "transform is paused": b"class PausePolicy",
    "files of the lake": b"def choose",
    "typed columns of the lake": b"def properties_of",
    "lines of a statement": b"class TopicLine",
    "entrance of the tracer": b"FORMS",
}


def test_each_change_is_in_the_file_that_is_named_first() -> None:
    offenders = []
    for what, where in ROWS:
        (witness,) = (found for word, found in WITNESSES.items() if word in what)
        first = re.findall(r"\]\(([^)]+)\)", where)[0]
        file = ROOT / first
        if not file.is_file() or witness not in file.read_bytes():
            offenders.append(
                f"CONTRIBUTING.md, {what}: {witness!r} is not in {first}: name the file that has it"
            )
    assert offenders == [], report(offenders)


def test_the_table_is_found() -> None:
    assert len(ROWS) == len(WITNESSES)
