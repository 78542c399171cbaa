"""Mutants: a statement adds up only if it is so, and a tracer's result is what happened."""

from typing import Final

from tests.mutants.machine import Mutant

_STATEMENT: Final = "tests/integration/admin/test_statement.py"
_RESULTS: Final = "tests/unit/tracer/test_results.py"
_JOURNAL: Final = "tests/unit/tracer/test_journal.py"

MUTANTS: Final = (
    Mutant(
        "comparing routed events with their outcomes",
        "services/ops/statement/balance.py",
        "            if each.records != each.accounted:\n",
        "            if False:\n",
        _STATEMENT,
    ),
    Mutant(
        "comparing offsets on Kafka with routed events",
        "services/ops/statement/balance.py",
        "total + line.skipped < expected",
        "False",
        _STATEMENT,
    ),
    Mutant(
        "counting routed events",
        "services/writer/settle/settlement.py",
        "        ledger.add_routed(self._context.conn, self._routed)\n",
        "",
        _STATEMENT,
    ),
    Mutant(
        "naming a database that went back",
        "services/ops/statement/balance.py",
        "any(0 <= upto < begin for _, _, begin, upto in line.offsets)",
        "False",
        _STATEMENT,
    ),
    Mutant(
        "counting offsets without a record",
        "services/writer/driver/batch.py",
        "                len(order.ranges[p]) - report.read,\n",
        "                0,\n",
        "tests/faults/test_statement.py",
    ),
    Mutant(
        "waiting for a database that is not available",
        "services/tracer/results.py",
        "    if destination.place in unavailable:\n",
        "    if False:\n",
        f"{_RESULTS} tests/integration/tracer/test_rounds.py",
    ),
    Mutant(
        "rows of the lake compared with the landing table",
        "services/ops/statement/lake_comparison.py",
        "    if not low <= table.landed <= high:\n",
        "    if False:\n",
        "tests/unit/ops/test_lake_statement.py",
    ),
    Mutant(
        "offsets of the lake compared before its rows",
        "services/ops/statement/lake_comparison.py",
        " or offsets != _offsets_of(line):",
        ":",
        "tests/unit/ops/test_lake_statement.py",
    ),
    Mutant(
        "a limit of its own for tracers in the lake",
        "services/tracer/results.py",
        "            limit = Limits(lake_seconds, lake_seconds)\n",
        "            limit = limits\n",
        "tests/unit/tracer/test_lake.py",
    ),
    Mutant(
        "a time limit for the storage of the lake in journeys",
        "services/admin/api/lake_journeys.py",
        "self._patience.call(lambda: with_lake(journey, lake), self._seconds)",
        "with_lake(journey, lake)",
        "tests/unit/lake/test_journey.py",
    ),
    Mutant(
        "a tracer that no entrance has accepted is not lost",
        "services/tracer/results.py",
        "        if tracer.accepted_at is None:",
        "        if False:",
        _RESULTS,
    ),
    Mutant(
        "one process for one file",
        "services/tracer/journal.py",
        "            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "            pass\n",
        _JOURNAL,
    ),
    Mutant(
        "writing a tracer to disk before it is sent",
        "services/tracer/journal.py",
        '            self._file.write(_encode(_first_line(tracer)) + b"\\n")\n',
        "            pass\n",
        f"{_JOURNAL} tests/integration/tracer/test_rounds.py",
    ),
    Mutant(
        "reading each entry of onramp.settled once",
        "services/ops/settled/reader.py",
        "max(first, self._next.get(source, 0))",
        "first",
        "tests/integration/admin/test_settled_reader.py",
    ),
    Mutant(
        "finding a duplicate envelope in the totals",
        "services/tracer/rounds.py",
        "                self._add_duplicates(Destination(rows.name, LANDING), events - before, now)\n",
        "                pass\n",
        "tests/integration/tracer/test_rounds.py",
    ),
    Mutant(
        "judging all tracers of a day",
        "services/cli/verbs/completeness/tracer.py",
        ' or _BAD & each["day"].keys()',
        "",
        "tests/unit/cli/test_completeness.py",
    ),
    Mutant(
        "exit code 4 for a statement with a missing part",
        "services/cli/verbs/completeness/statement.py",
        "else Exit.UNCHECKED",
        "else Exit.OK",
        "tests/unit/cli/test_completeness.py",
    ),
    Mutant(
        "stating the generations of a topic as one",
        "services/ops/statement/balance.py",
        "_sum(known, line) if known else line",
        "line",
        "tests/integration/admin/test_statement.py",
    ),
    Mutant(
        "comparing the age of a topic's partitions",
        "services/ops/operate/newest_records.py",
        "and (source not in oldest or records.admits(oldest[source]))",
        "",
        "tests/integration/admin/test_newest_records.py",
    ),
)
