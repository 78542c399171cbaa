"""Lists of `onramp errors` have column headers, and a job says which events it did not change."""

from typing import Any

import pytest

from services.cli.show.parked_groups import print_groups, print_jobs

GROUP: dict[str, Any] = {
    "id": 3,
    "events": 370,
    "state": "open",
    "last_seen": "2026-11-26T10:00:00.123+00:00",
    "would_land_now": {"would_land": 10, "of": 10, "at": "2026-11-26T10:00:01+00:00", "waits": None},
    "title": "amount is not a number",
}
JOB: dict[str, Any] = {
    "id": 17,
    "kind": "replay",
    "state": "done",
    "changed": 0,
    "counted": 370,
    "failed": 0,
    "created_at": "2026-11-26T10:00:00+00:00",
    "actor": "ann",
    "reason": "fixed",
}


def test_groups_and_jobs_have_column_headers(capsys: pytest.CaptureFixture[str]) -> None:
    print_groups([GROUP, GROUP], as_json=False)
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["GROUP", "EVENTS", "STATE", "LAST", "SEEN", "LANDS", "CAUSE"]
    assert len(lines) == 2
    for column, value in (("STATE", "open"), ("LAST SEEN", "2026-11-26T10:00:00"), ("CAUSE", "amount is")):
        assert lines[0].index(value) == header.index(column)
    print_jobs([JOB | {"changed": 370}], as_json=False)
    header, line = capsys.readouterr().out.splitlines()
    assert line.index("replay") == header.index("KIND")
    assert line.index("2026-11-26") == header.index("STARTED")


def test_an_empty_list_and_json_have_no_header(capsys: pytest.CaptureFixture[str]) -> None:
    print_groups([], as_json=False)
    print_jobs([JOB], as_json=True)
    assert capsys.readouterr().out.splitlines()[0].startswith("{")


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({}, "0 of 370 (370 were changed by other jobs)"),
        ({"changed": 300, "failed": 60}, "300 of 370 (10 were changed by other jobs)"),
        ({"changed": 310, "failed": 60}, "310 of 370  60 failed again"),
        ({"state": "running"}, "0 of 370  "),
    ],
)
def test_a_job_says_how_many_events_other_jobs_changed(
    capsys: pytest.CaptureFixture[str], job: dict[str, Any], said: str
) -> None:
    print_jobs([JOB | job], as_json=False)
    assert said in capsys.readouterr().out
