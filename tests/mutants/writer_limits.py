"""The protections of a database's limits, of what is counted beside outcomes, and of what is trimmed."""

from typing import Final

from tests.mutants.machine import Mutant

CONNECTIONS: Final = "tests/integration/writer/test_connections.py"
RATES: Final = "tests/unit/writer/test_rates.py"
RETURN: Final = "tests/faults/test_limited_return.py"
ROUTES: Final = "tests/unit/writer/test_registry_routes.py"
METRICS: Final = "tests/unit/writer/test_metrics.py"
_REFUSED: Final = "a_refused_destination_of_an_event_that_lands_elsewhere_has_its_place"

LIMITS: Final = (
    Mutant(
        "the bound of a batch's tasks",
        "model/connection_budget.py",
        ", *(most_tasks(b) for b in bounds if b is not None))",
        ")",
        f"{CONNECTIONS}::test_a_batch_has_as_many_tasks_as_the_bound_takes",
    ),
    Mutant("waiting at a process's bound", "postgres/pool.py", "with self._room, ", "with ", CONNECTIONS),
    Mutant("leaving no connection behind", "postgres/pool.py", "if database.keep:", "if True:", CONNECTIONS),
    Mutant(
        "a plan that knew of no limit",
        "driver/batch.py",
        "split(overrun)",
        "split()",
        f"{RETURN}::test_a_plan_of_a_time_when_it_was_out_lands_in_pieces",
    ),
    Mutant(
        "asking all databases before the first plan",
        "driver/loop.py",
        "        await self._parts.databases.wait_first_tries(_FIRST_TRIES_SECONDS)\n",
        "",
        f"{RETURN}::test_a_database_that_answers_a_moment_later_takes_the_first_batch",
    ),
    Mutant("rows per second", "plan/row_rates.py", "max(min([limit, *budgets]), 0)", "limit", RATES),
    Mutant(
        "cutting a drained range",
        "recover/drain.py",
        "offsets[max_events::max_events] if max_events else ()",
        "()",
        RATES,
    ),
    Mutant(
        "schemas that a registry may name",
        "driver/routes_from_registry.py",
        "if destination.db_schema not in database.schemas:",
        "if False:",
        ROUTES,
    ),
    Mutant(
        "databases that a grant may name",
        "driver/routes_from_registry.py",
        "if not any(fnmatchcase(name, pattern) for name in known):",
        "if False:",
        ROUTES,
    ),
    Mutant(
        "the bound of series",
        "observe/series.py",
        "if len(shown) < (self._most if most is None else most):",
        "if True:",
        METRICS,
    ),
    Mutant(
        "step, database and outcome above the bound",
        "observe/series.py",
        "if name in _MADE_BY_ANYBODY and label",
        "if True",
        METRICS,
    ),
    Mutant("a page on which a new series is at 0", "observe/series.py", "if is_new or", "if", METRICS),
    Mutant(
        "what was counted before the process is no increase",
        "observe/series.py",
        "not in self._totals and not is_first",
        "not in self._totals",
        METRICS,
    ),
    Mutant(
        "what is worth a look",
        "settle/settlement.py",
        "ledger.add_warnings(self._context.conn, self._warning_counts)",
        "pass",
        "tests/integration/writer/test_task.py::test_what_is_worth_a_look_is_counted_in_the_rows_own_transaction",
    ),
    Mutant(
        "once for what comes late",
        "model/every.py",
        "self._due = monotonic() + self._seconds",
        "self._due += self._seconds",
        "tests/unit/writer/test_timers.py",
    ),
)

#: With a Kafka of their own.
SLOW: Final = (
    Mutant(
        "counting refused destinations",
        "settle/task.py",
        "report.refused += len(events.unroutable)",
        "pass",
        f"tests/integration/admin/test_audit.py::test_{_REFUSED}",
    ),
    Mutant(
        "what an undrained marker needs",
        "recover/trim.py",
        "min(upto, needed.get(p, upto))",
        "upto",
        "tests/faults/test_trimming.py",
    ),
    Mutant(
        "what another writer may still close",
        "recover/trim.py",
        "time.time() - self._keep",
        "time.time()",
        "tests/faults/test_trimming.py",
    ),
)
