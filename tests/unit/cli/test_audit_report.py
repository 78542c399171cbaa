"""The audit's report for people: violations with the command that fixes them, and stored events."""

from collections.abc import Callable

import pytest

from services.cli.show.audit_report import parts_of
from services.cli.show.tables import show
from services.ops.findings import Code, Finding, LakeLine, Line, Report, Source

Printed = Callable[..., list[str]]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Return a function that prints a report and returns its lines."""

    def lines(report: Report, *, verbose: bool = False) -> list[str]:
        show(*parts_of(report, verbose=verbose))
        return capsys.readouterr().out.splitlines()

    return lines


def test_a_finding_ends_with_what_puts_it_right_and_what_is_kept_is_counted(printed: Printed) -> None:
    lost = Finding(Code.REPLAY_LOST, Source("events.a", 0), 17, "it is not known", "`onramp errors recheck`")
    found = Report(findings=[lost], stored={"open": 1_200, "replayed": 3}, not_yet_stored=4)
    assert printed(found) == [
        "NOT RECONCILED: 1 violations (by totals only).",
        "FINDING      RECEIPT        DETAIL",
        "REPLAY_LOST  events.a/0/17  it is not known; `onramp errors recheck`",
        "stored parked events: 1,200 open, 3 replayed; not yet stored: 4",
    ]


def test_report_without_a_control_database_omits_stored_events(printed: Printed) -> None:
    assert printed(Report()) == ["Reconciled: 0 records of 0 partitions (by totals only)."]
    assert "stored parked events: nothing; not yet stored: 0" in printed(Report(stored={}))


def test_a_retired_database_is_closed_with_its_counts_where_they_are_known(printed: Printed) -> None:
    report = Report(closed={"lake": {"landed": 1_200, "parked": 3}, "old": None})
    assert printed(report)[1:] == [
        "closed: lake is retired, so nothing is compared with its totals (1,200 landed, 3 parked)",
        "closed: old is retired, so nothing is compared with its totals",
    ]
    assert report.as_dict()["closed"] == {"lake": {"landed": 1_200, "parked": 3}, "old": None}


def test_partitions_are_printed_on_request_or_when_their_totals_do_not_reconcile(printed: Printed) -> None:
    line = Line("id", "events.a", 0, baseline=0, next_offset=3, outcomes={"landed": 3})
    reconciled, wrong = Report(lines=[line]), Report(lines=[line], unjudged=2)
    table = [
        "PARTITION   READ  FILTERED  UNROUTABLE  REFUSED  LANDED  WAITING",
        "events.a/0     3         0           0        0       3        0",
    ]
    assert printed(reconciled) == ["Reconciled: 3 records of 1 partitions (by totals only)."]
    assert printed(reconciled, verbose=True)[1:] == table
    first, *rest = printed(wrong)
    assert first.startswith("NOT ALL CHECKED: no violation, but 2 events")
    assert rest == table


def test_tables_of_the_lake_are_counted_and_printed_on_request(printed: Printed) -> None:
    line = LakeLine("flights", "events.a", 0, next_offset=1_300, landed=1_200, dropped=200, rows=1_000)
    report = Report(lake=[line])
    assert printed(report)[1:] == ["lake: 1,000 rows of 1 tables"]
    assert printed(report, verbose=True)[2:] == [
        "LAKE TABLE  PARTITION   NEXT OFFSET  LANDED  DROPPED   ROWS",
        "flights     events.a/0        1,300   1,200      200  1,000",
    ]
