"""The audit's report for people: what is wrong with the command that puts it right, and what is kept."""

from services.cli.show.audit_report import lines_of
from services.ops.findings import Code, Finding, Line, Report, Source


def test_a_finding_ends_with_what_puts_it_right_and_what_is_kept_is_counted() -> None:
    lost = Finding(Code.REPLAY_LOST, Source("events.a", 0), 17, "it is not known", "`onramp errors recheck`")
    found = Report(findings=[lost], stored={"open": 1_200, "replayed": 3}, not_yet_stored=4)
    assert list(lines_of(found)) == [
        "NOT RECONCILED: 1 violations (by totals alone).",
        "REPLAY_LOST  events.a/0/17  it is not known; `onramp errors recheck`",
        "stored parked events: 1,200 open, 3 replayed; not yet stored: 4",
    ]


def test_without_a_control_database_nothing_is_said_of_it() -> None:
    assert list(lines_of(Report())) == ["Reconciled: 0 records of 0 partitions (by totals alone)."]
    assert "stored parked events: nothing; not yet stored: 0" in lines_of(Report(stored={}))


def test_a_retired_database_is_closed_with_its_counts_where_they_are_known() -> None:
    report = Report(closed={"lake": {"landed": 1_200, "parked": 3}, "old": None})
    assert list(lines_of(report))[1:] == [
        "closed: lake is retired, so nothing is compared with its totals (1,200 landed, 3 parked)",
        "closed: old is retired, so nothing is compared with its totals",
    ]
    assert report.as_dict()["closed"] == {"lake": {"landed": 1_200, "parked": 3}, "old": None}


def test_partitions_are_printed_on_request_or_when_their_totals_do_not_reconcile() -> None:
    line = Line("id", "events.a", 0, baseline=0, next_offset=3, outcomes={"landed": 3})
    reconciled, wrong = Report(lines=[line]), Report(lines=[line], unjudged=2)
    partition = "events.a/0: 3 read; 0 filtered, 0 unroutable, 0 refused, 3 landed, 0 waiting"
    assert list(lines_of(reconciled)) == ["Reconciled: 3 records of 1 partitions (by totals alone)."]
    assert list(lines_of(reconciled, verbose=True))[1:] == [partition]
    assert next(iter(lines_of(wrong))).startswith("NOT ALL CHECKED: no violation, but 2 events")
    assert partition in lines_of(wrong)
