"""The protections of the lines about single events."""

from functools import partial
from typing import Final

from tests.mutants.machine import Mutant

_LINES: Final = "tests/unit/shared/test_event_lines.py::test_"
_LOG: Final = "tests/unit/writer/test_event_log.py::test_"
_SHARED: Final = partial(Mutant, file="../../shared/event_lines.py")
_WRITER: Final = partial(Mutant, file="settle/event_log.py")

EVENT_LINES: Final = (
    _SHARED(
        "a limit of lines",
        old="min(others, int(level)) if level >= 1 else 0",
        new="others",
        tests=f"{_LINES}the_limit_holds_and_failures_borrow_no_more_than_a_second",
    ),
    _SHARED(
        "a limit of what failures borrow",
        old="min(failures, int(level + self._per_second)) if failures else 0",
        new="failures",
        tests=f"{_LINES}the_limit_holds_and_failures_borrow_no_more_than_a_second",
    ),
    _SHARED(
        "lines for failures after others took a second's",
        old="int(level + self._per_second)",
        new="int(level)",
        tests=f"{_LINES}failures_win_over_what_landed_before_them_in_the_same_second",
    ),
    _SHARED(
        "one line for all that a second left out",
        old="is_told = bool(self._left_out)",
        new="is_told = False",
        tests=f"{_LINES}a_second_that_left_lines_out_has_one_line_that_says_how_many",
    ),
    _SHARED(
        "what is left out without a thread",
        old="            self.tell_left_out(is_last=True)\n",
        new="            return\n",
        tests=f"{_LINES}without_a_thread_it_is_told_at_once",
    ),
    _SHARED(
        "what was left out before the end",
        old="        atexit.register(self.tell_left_out, is_last=True)\n",
        new="",
        tests=f"{_LINES}lines_of_threads_and_processes_stay_whole_in_a_pipe_and_the_end_tells_what_was_left_out",
    ),
    Mutant(
        "pieces that a pipe takes whole",
        "../../shared/logs.py",
        "if piece and size + len(each) > select.PIPE_BUF:",
        "if False:",
        f"{_LINES}lines_of_threads_and_processes_stay_whole_in_a_pipe_and_the_end_tells_what_was_left_out",
    ),
    Mutant(
        "a log that nobody reads",
        "../../shared/logs.py",
        "            if not _takes_more(file):\n                return left\n",
        "",
        f"{_LINES}who_reads_the_log_no_more_stops_nobody_and_is_told_later_what_was_left_out",
    ),
    Mutant(
        "a standard error that is closed",
        "../../shared/logs.py",
        "if stream is None:",
        "if False:",
        f"{_LINES}a_closed_standard_error_is_not_a_connection_that_got_its_number",
    ),
    _WRITER(
        "what is parked before what waits",
        old="parked = min(int(wanted[_PARKED]), failures)",
        new="parked = failures - min(int(wanted[_WAITING]), failures)",
        tests=f"{_LOG}what_is_parked_has_its_lines_before_what_waits",
    ),
    _WRITER(
        "each table's fair share",
        old="most // (len(order) - before)",
        new="most",
        tests=f"{_LOG}a_table_of_few_rows_is_not_lost_among_one_of_many",
    ),
    _WRITER(
        "the order of the rows",
        old="return sorted(place for",
        new="return list(place for",
        tests=f"{_LOG}lines_and_what_is_left_out_are_all_events_and_failures_won",
    ),
    _WRITER(
        "a probe's silence",
        old="p.target.table == wire.PROBE_EVENT",
        new="p.target.table is None",
        tests=f"{_LOG}no_lines_are_wanted_and_a_probe_has_none",
    ),
    _WRITER(
        "silence about what is rolled back",
        old="    yield pieces\n    write(per_second, pieces)\n",
        new="    try:\n        yield pieces\n    finally:\n        write(per_second, pieces)\n",
        tests=f"{_LOG}what_is_rolled_back_has_no_line",
    ),
    _WRITER(
        "the values of a row",
        old='_COLUMNS: Final = ("_id", ',
        new='_COLUMNS: Final = ("payload", ',
        tests=f"{_LOG}each_event_has_its_line_without_a_value",
    ),
)
