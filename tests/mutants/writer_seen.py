"""The protections of what the writer shows of itself."""

from typing import Final

from tests.mutants.machine import Mutant

_MANY: Final = "tests/unit/writer/test_many_series.py::test_"
_COLLECTED: Final = "tests/unit/writer/test_collector.py::test_"
_SPARK: Final = "tests/unit/writer/test_spark_metrics.py::test_"
_COMMITTED: Final = "tests/unit/writer/test_committed.py::test_"

SEEN: Final = (
    Mutant(
        "sizes in a reading of their own",
        "driver/collector.py",
        "self._sizings[name] = asyncio.create_task(_attempt(partial(self._read_sizes, database)))",
        "await self._read_sizes(database)",
        f"{_COLLECTED}sizes_that_take_long_or_fail_hold_up_no_totals_and_doubt_no_database",
    ),
    Mutant(
        "a pause after sizes that took long",
        "driver/collector.py",
        "= began + took * _SIZING_PAUSE",
        "= began",
        f"{_COLLECTED}what_took_long_is_not_read_again_at_once",
    ),
    Mutant(
        "silence of a look at Spark that ends with it",
        "driver/spark_watch.py",
        "                if self._stopped.is_set():\n                    return",
        "                if not self._stopped:\n                    return",
        f"{_SPARK}a_reading_that_fails_because_spark_was_stopped_is_no_error",
    ),
    Mutant(
        "processes that two threads show",
        "../../shared/process_metrics.py",
        "        with self._lock:\n            self._show",
        "        if self._lock:\n            self._show",
        "tests/unit/shared/test_process_metrics.py::"
        "test_two_threads_that_show_two_kinds_count_each_process_once",
    ),
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
    Mutant(
        "an upper end of delays",
        "model/commit_delays.py",
        "np.clip(delays, 0.0, LONGEST, out=delays)",
        "np.maximum(delays, 0.0, out=delays)",
        f"{_MANY}records_of_1970_and_of_2100_are_late_by_what_can_be_and_by_nothing",
    ),
    Mutant(
        "a cancellation that comes as a wait ends",
        "driver/loop.py",
        "async with asyncio.timeout(seconds):  # `wait_for` of Python 3.11 loses a cancellation at its end\n"
        "            await stop.wait()",
        "await asyncio.wait_for(stop.wait(), seconds)",
        "tests/unit/writer/test_timers.py::test_a_wait_that_ends_while_it_is_cancelled_is_cancelled",
    ),
    Mutant(
        "a reading of its own for each database",
        "driver/collector.py",
        "self._readings[name] = asyncio.create_task(_attempt(read))",
        "await _attempt(read)",
        f"{_COLLECTED}a_database_that_hangs_holds_up_no_other_ones_totals",
    ),
    Mutant(
        "one reading at a time of a database that hangs",
        "driver/collector.py",
        "for name in up.keys() - silent:",
        "for name in up:",
        f"{_COLLECTED}a_database_that_hangs_holds_up_no_other_ones_totals",
    ),
    Mutant(
        "sessions of a database that hangs",
        "driver/collector.py",
        "if n in up.keys() - silent}",
        "if n in up}",
        f"{_COLLECTED}sessions_of_a_database_that_begins_to_hang_are_not_known",
    ),
    Mutant(
        "ages as of their reading",
        "observe/lag.py",
        "else min(read, now)",
        "else now",
        "tests/unit/writer/test_metrics.py::test_an_age_is_the_readings_own_until_the_next_one_is_overdue",
    ),
    Mutant(
        "ages of a reading that is overdue",
        "observe/lag.py",
        "if now - read > _OVERDUE_SECONDS",
        "if False",
        "tests/unit/writer/test_metrics.py::test_an_age_is_the_readings_own_until_the_next_one_is_overdue",
    ),
    Mutant(
        "an age when the clock was set back",
        "observe/lag.py",
        "max(now - self.since, 0.0)",
        "now - self.since",
        "tests/unit/writer/test_metrics.py::test_a_clock_that_was_set_back_makes_no_age_and_no_count_less_than_0",
    ),
    Mutant(
        "collections that were counted",
        "observe/spark_metrics.py",
        "self._counted |= used.collections",
        "pass",
        f"{_SPARK}heap_slots_and_collections_are_shown_as_they_are",
    ),
    Mutant(
        "a reading after one that failed",
        "driver/spark_watch.py",
        "except Exception:",
        "except OSError:",
        f"{_SPARK}a_reading_that_fails_is_not_the_last",
    ),
    Mutant(
        "a JVM that is gone",
        "driver/spark.py",
        "except (Py4JError, OSError):\n            return None",
        "except Py4JError:\n            return None",
        f"{_SPARK}a_jvm_that_is_gone_uses_nothing",
    ),
    Mutant(
        "the time for which a task had its slot",
        "settle/task.py",
        "slot_seconds=time.monotonic() - began",
        "slot_seconds=0.0",
        f"{_SPARK}the_time_for_which_tasks_had_slots_is_summed",
    ),
    Mutant(
        "a page of bounded size",
        "observe/metrics.py",
        "MOST_SERIES: Final = 700",
        "MOST_SERIES: Final = 1000",
        f"{_MANY}500_types_of_6_partitions_have_a_bounded_page_on_which_nothing_is_missing",
    ),
)

SEEN_ON_KAFKA: Final = (
    Mutant(
        "a bounded wait for the registry",
        "driver/routes_from_registry.py",
        "            await asyncio.wait({self._looking}, timeout=seconds)\n",
        "            await asyncio.wait({self._looking})\n",
        "tests/faults/test_registry_away.py",
    ),
    Mutant(
        "a look at a database that did not answer a reading",
        "driver/reconcile.py",
        "        await self._parts.databases.look_again()\n",
        "",
        "tests/faults/test_lag.py::test_an_idle_writer_notices_a_database_that_is_gone_by_the_next_reading",
    ),
)
