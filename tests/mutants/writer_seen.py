"""The protections of what the writer shows of itself."""

from typing import Final

from tests.mutants.machine import Mutant

_COMMITTED: Final = "tests/unit/writer/test_committed.py::test_"

SEEN: Final = (
    Mutant(
        "totals that have what is reported later",
        "observe/committed.py",
        "if began.is_quiet() and began == self.moment():",
        "if began is not None:",
        f"{_COMMITTED}a_total_that_has_a_commit_before_its_report_is_counted_once",
    ),
    Mutant(
        "a reading that ends behind a commit",
        "observe/committed.py",
        " and began == self.moment():",
        ":",
        f"{_COMMITTED}a_total_that_has_a_commit_before_its_report_is_counted_once",
    ),
    Mutant(
        "nothing is known before the first reading",
        "observe/committed.py",
        "before = self._before.get(database)",
        "before = self._before.get(database, {})",
        f"{_COMMITTED}what_nobody_reports_is_read_and_a_restart_counts_nothing_twice",
    ),
    Mutant(
        "a reading that waits until nothing lands",
        "observe/committed.py",
        "self._quiet.clear()",
        "pass",
        f"{_COMMITTED}a_reading_waits_until_nothing_lands_and_not_for_ever",
    ),
    Mutant(
        "what waits is no total",
        "settle/outcome_counts.py",
        "if tally.outcome is not Outcome.WAITING:",
        "if tally:",
        f"{_COMMITTED}what_waits_is_no_total",
    ),
)
