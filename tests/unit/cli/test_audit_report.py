"""The audit's report for people: what is wrong with the command that puts it right, and what is kept."""

from services.admin.findings import Code, Finding, Report, Source
from services.cli.show.audit_report import lines_of


def test_a_finding_ends_with_what_puts_it_right_and_what_is_kept_is_counted() -> None:
    lost = Finding(Code.REPLAY_LOST, Source("events.a", 0), 17, "it is not known", "`onramp errors recheck`")
    found = Report(findings=[lost], kept={"open": 1_200, "replayed": 3}, not_yet_kept=4)
    assert list(lines_of(found)) == [
        "REPLAY_LOST  events.a/0/17  it is not known; `onramp errors recheck`",
        "kept of what is parked: 1,200 open, 3 replayed; not yet kept: 4",
        "THE BOOKS DO NOT BALANCE: 1 violations (by the books alone).",
    ]


def test_without_a_control_database_nothing_is_said_of_it() -> None:
    assert list(lines_of(Report())) == ["The books balance (by the books alone)."]
    assert "kept of what is parked: nothing; not yet kept: 0" in lines_of(Report(kept={}))
