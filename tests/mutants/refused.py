"""The protections of replays of what was refused: of the writer, and of the admin service."""

from typing import Final

from tests.mutants.machine import Mutant

_WRITER: Final = "tests/integration/writer/test_replays_of_refused.py::test_"
_ALONE: Final = (
    f"{_WRITER}of_what_was_refused_one_that_fails_alone_stays_parked_and_the_others_land_or_are_sorted"
)
_ADMIN: Final = "tests/integration/admin/test_replays_of_refused.py::test_"

_KILLED: Final = (
    "tests/faults/test_f42_refused.py::test_f42_what_was_refused_lands_once_though_both_are_killed_on_the_way"
)
_KILLED_WRITER: Final = (
    "tests/faults/test_f42_refused.py::"
    "test_f42_a_writer_that_is_killed_at_each_place_sorts_and_lands_what_was_refused_once"
)

REFUSED_WRITER: Final = (
    Mutant(
        "that the default database alone says where it belongs",
        "replay/place.py",
        "elif error is None and not is_default and targets[0].database != self._database:",
        "elif False:",
        f"{_WRITER}routes_that_changed_since_it_was_sorted_bring_it_nowhere",
    ),
    Mutant(
        "the pointer to the destination that was refused",
        "replay/place.py",
        "targets = [target for target in targets if target == named.get(offset)]",
        "targets = targets[:1]",
        f"{_WRITER}of_a_packet_the_destination_that_was_refused_is_replayed_and_no_other",
    ),
    Mutant(
        "that one attempt is one row",
        "replay/place.py",
        "if error is None and len(targets) != 1:",
        "if error is None and not targets:",
        f"{_WRITER}what_was_refused_whole_and_has_several_tables_today_names_one",
    ),
    Mutant(
        "that what was refused waits for its table",
        "replay/replay.py",
        "return _WAITS if str(target) in held else None",
        "return None",
        f"{_WRITER}what_was_refused_waits_for_a_table_that_takes_no_rows_and_the_others_land",
    ),
    Mutant(
        "that it stays staged as long as it waits",
        "replay/replay.py",
        "staged.remove(conn, [s for s in self._page if s not in waiting])",
        "staged.remove(conn, self._page)",
        f"{_WRITER}what_was_refused_waits_for_a_table_that_takes_no_rows_and_the_others_land",
    ),
    Mutant(
        "that each is tried alone where one of them fails",
        "replay/replay.py",
        "after)\n            self._land_one_by_one(self._page)",
        "after)",
        _ALONE,
    ),
    Mutant(
        "that what was refused is for a table of its own until it is sorted",
        "replay/suspects.py",
        "if row.event.is_sorted_again:",
        "if False:",
        _ALONE,
    ),
    Mutant(
        "the table that it landed in, in its count",
        "replay/land.py",
        "self._parked_for = str(target) if refused else",
        "self._parked_for = '' if refused else",
        f"{_WRITER}what_belongs_to_the_default_database_lands_there_at_once",
    ),
    Mutant(
        "the table that it landed in, beside its attempt",
        "replay/staged.py",
        'coalesce(r."to", v."to")',
        'r."to"',
        f"{_WRITER}what_belongs_to_the_default_database_lands_there_at_once",
    ),
)
_LANDS: Final = f"{_ADMIN}what_was_refused_lands_where_it_belongs_today_or_fails_again_with_its_cause"
_BOOKS: Final = f"{_ADMIN}the_books_balance_and_what_a_dump_has_lost_is_named_and_lands_once_more"
#: Under a whole writer, which is killed.
REFUSED_KILLED: Final = (
    Mutant(
        "that a row and what is said of its attempt are one transaction",
        "replay/replay.py",
        "            staged.record(conn, ((s, verdicts[s.event.key]) for s in fresh))\n",
        "            conn.commit()\n"
        "            staged.record(conn, ((s, verdicts[s.event.key]) for s in fresh))\n",
        _KILLED_WRITER,
    ),
)
REFUSED_ADMIN: Final = (
    Mutant(
        "that a job takes what was refused",
        "store/sets_sql.py",
        "OR e.destination = '' OR starts_with(e.destination, '/'))",
        ")",
        _LANDS,
    ),
    Mutant(
        "that what was sorted is staged where it belongs",
        "attempts.py",
        "        todo.extend(belonging.items())\n",
        "",
        _LANDS,
    ),
    Mutant(
        "that what another one has had sorted is staged on",
        "attempts.py",
        "        todo.extend(belonging.items())\n",
        "",
        _KILLED,
    ),
    Mutant(
        "that its rehearsal leaves nothing where it asked next",
        "store/rehearse_sql.py",
        "{each.database for each in asked})",
        "[each.database for each in asked][:1])",
        f"{_ADMIN}a_rehearsal_says_of_what_was_refused_whether_it_would_land_and_why_not",
    ),
    Mutant(
        "that any database may know what was refused, to a recheck",
        "store/recheck_sql.py",
        "for name in databases if refused else ():",
        "for name in [*databases][:1] if refused else ():",
        _BOOKS,
    ),
    Mutant(
        "that what was sorted has not landed",
        "books_sql.py",
        "FROM onramp.replayed WHERE outcome IN ('landed', 'duplicate')",
        "FROM onramp.replayed WHERE outcome <> 'parked'",
        _BOOKS,
    ),
    Mutant(
        "that it is counted under the table that it landed in",
        "audit/replays.py",
        'if r.to and r.outcome == "landed" and not wire.is_refused(r.destination):',
        'if r.to and r.outcome == "landed":',
        _BOOKS,
    ),
)
