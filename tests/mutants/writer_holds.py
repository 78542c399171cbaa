"""The protections of what waits in its own database, and of the way out of a halt."""

from typing import Final

from tests.mutants.machine import Mutant

_HOLDS: Final = "tests/integration/writer/test_holds.py::test_"
_GIVEN_UP: Final = "tests/integration/writer/test_given_up.py::test_"
_HALTED: Final = "tests/faults/test_halted_database.py::test_"

HOLDS: Final = (
    Mutant(
        "the removal of what is given up in the transaction that parks it",
        "recover/give_up.py",
        "                    settlement.flush()\n",
        "                    settlement.flush()\n                    conn.commit()\n",
        f"{_GIVEN_UP}one_that_dies_is_begun_again_and_parks_once_in_steps",
    ),
    Mutant(
        "that only what waits at the moment is given up",
        "settle/waiting_table.py",
        "AND kept_at <= %s AND",
        "AND kept_at <= %s + interval '1 day' AND",
        f"{_GIVEN_UP}what_waits_for_a_table_is_parked_while_it_is_locked_and_later_events_land",
    ),
    Mutant(
        "that a type's events alone are given up with it",
        "settle/waiting_table.py",
        "AND event_type = %s {_GIVEN_UP}",
        "AND (event_type = %s OR true) {_GIVEN_UP}",
        f"{_GIVEN_UP}what_waits_of_other_types_is_not_walked_over",
    ),
    Mutant(
        "that what cannot be given up stops no other",
        "recover/give_up.py",
        "        except Exception:\n            extra",
        "        except LookupError:\n            extra",
        f"{_GIVEN_UP}one_that_cannot_be_given_up_stops_no_other_and_no_release",
    ),
    Mutant(
        "the index by which a type's events are given up",
        "settle/waiting_table.py",
        "AND event_type = %s {_GIVEN_UP}",
        "AND coalesce(event_type = %s, true) {_GIVEN_UP}",
        f"{_GIVEN_UP}what_waits_of_other_types_is_not_walked_over",
    ),
    Mutant(
        "a line for what lands later",
        "settle/settlement.py",
        "        self._log(target, rows, result)\n        self._park(",
        "        self._park(",
        f"{_GIVEN_UP}every_event_that_lands_later_or_is_given_up_has_a_line",
    ),
    Mutant(
        "that who gives up more meanwhile is heard",
        "settle/holds.py",
        "AND name = %s AND given_up_at = %s\n",
        "AND name = %s AND %s IS NOT NULL\n",
        f"{_GIVEN_UP}who_gives_up_more_meanwhile_is_heard",
    ),
    Mutant(
        "that what is given up does not land before it is parked",
        "recover/release.py",
        "                continue  # somebody gave it up just now\n",
        "                pass\n",
        f"{_GIVEN_UP}who_gives_up_more_meanwhile_is_heard",
    ),
    Mutant(
        "that no hold comes back as one that is given up",
        "settle/settlement.py",
        "replace(hold, state=STATE_BLOCKED, sqlstate=e.sqlstate)",
        "replace(hold, sqlstate=e.sqlstate)",
        f"{_GIVEN_UP}a_hold_that_was_given_up_and_has_ended_comes_back_as_a_blocked_one",
    ),
    Mutant(
        "queueing behind a hold",
        "settle/holds.py",
        "        if hold := self.tables.get(str(target)):\n",
        "        if (hold := self.tables.get(str(target))) and hold.timeouts < 0:\n",
        f"{_HOLDS}later_events_queue_behind_those_that_wait",
    ),
    Mutant(
        "no hold ends while a task looks at it",
        "settle/holds.py",
        "({_HOLDING} FOR KEY SHARE)",
        "({_HOLDING})",
        f"{_HOLDS}a_hold_does_not_end_while_a_task_looks_at_it",
    ),
    Mutant(
        "what waits for two holds keeps one of them",
        "recover/release.py",
        "                        remaining.remove(hold)\n",
        "",
        f"{_HOLDS}a_paused_type_whose_table_is_blocked_waits_for_both",
    ),
    Mutant(
        "the removal of what waited in its landing's transaction",
        "recover/release.py",
        "        settlement.flush()\n        waiting_table.drop(conn, taken)\n",
        "        settlement.flush()\n        conn.commit()\n        waiting_table.drop(conn, taken)\n",
        f"{_HOLDS}a_release_that_dies_is_begun_again_and_lands_once",
    ),
    Mutant(
        "the pause in the ledger's transaction",
        "settle/settlement.py",
        "        self.holds.flush(self._context.conn)\n",
        "",
        f"{_HOLDS}a_type_pauses_past_its_share_and_the_others_go_on",
    ),
    Mutant(
        "waiting twice for a statement that runs out of time",
        "recover/release.py",
        "_TIMEOUTS_BEFORE_ONE_BY_ONE: Final = 2",
        "_TIMEOUTS_BEFORE_ONE_BY_ONE: Final = 1",
        f"{_HOLDS}a_row_that_runs_out_of_time_waits_twice_and_is_then_parked_alone",
    ),
    Mutant(
        "a row is at fault only if its neighbours land",
        "recover/release.py",
        "        if suspects and not landed and (",
        "        if suspects and landed and (",
        f"{_HOLDS}a_table_on_which_everything_runs_out_of_time_is_no_rows_fault",
    ),
)
#: They need a Kafka and a gateway.
HALTS: Final = (
    Mutant(
        "that a database's state is as old as it is",
        "observe/state_times.py",
        "if name not in self._known or self._known[name][0] != state:",
        "if True:",
        "tests/faults/test_what_waits.py::test_what_waits_is_told_with_why_since_when_and_what_ends_it",
    ),
    Mutant(
        "markers drain by their ranges",
        "recover/diverted_index.py",
        "for w in _in_order(ranges_of.waiting)]",
        "for w in ranges_of.waiting]",
        f"{_HALTED}what_a_restored_dump_misses_is_refilled_when_a_person_says_so",
    ),
    Mutant(
        "a skip gives up no more than is lost",
        "recover/drain.py",
        "incomplete[marker.range] = replace(marker, count=len(events))",
        "incomplete[marker.range] = replace(marker, count=0)",
        "tests/faults/test_waiting_rules.py::"
        "test_a_marker_that_counts_more_than_is_there_halts_until_a_person_resolves_it",
    ),
)
