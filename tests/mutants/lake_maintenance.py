"""Mutants: compaction, retention and the audit of the lake lose, double and overlook no row."""

from typing import Final

from tests.mutants.machine import Mutant

_RUNS: Final = "tests/integration/lake/test_compaction.py"
_REWRITE: Final = "tests/unit/lake/test_rewrite.py"
_MAINTAIN: Final = "tests/unit/lake/test_maintain.py"
_RETENTION: Final = "tests/unit/lake/test_retention.py"
_AUDIT: Final = "tests/unit/lake/test_audit.py"
_CLI: Final = "tests/unit/lake/test_cli.py"
_FOLDER: Final = "services/lake/compaction"

MUTANTS: Final = (
    Mutant(
        "a compaction that is never rebased",
        f"{_FOLDER}/delta_replace.py",
        "                    max_commit_retries=0,\n",
        "                    max_commit_retries=15,\n",
        f"{_RUNS}::test_a_second_rewrite_of_the_same_files_is_superseded",
    ),
    Mutant(
        "comparing the sources of a compaction",
        f"{_FOLDER}/delta_replace.py",
        "if all(file.path in active for file in each.sources)]",
        "if each.sources]",
        f"{_RUNS}::test_an_optimize_of_another_engine_supersedes_ours",
    ),
    Mutant(
        "counting the rows of a rewrite",
        f"{_FOLDER}/delta_rewrite.py",
        "    if all(file.rows is not None for file in files) and rows != ",
        "    if False and rows != ",
        f"{_REWRITE}::test_a_file_with_fewer_rows_than_the_log_says_is_not_replaced",
    ),
    Mutant(
        "statistics of the columns that a table names",
        f"{_FOLDER}/delta_rewrite.py",
        "    if named is not None:\n",
        "    if False:\n",
        f"{_REWRITE}::test_a_table_that_names_columns_has_statistics_of_them_alone",
    ),
    Mutant(
        "foreign files that vacuum leaves",
        f"{_FOLDER}/delta_maintain.py",
        '    own = [path for path in paths if _OWN_FILES.fullmatch(path.rsplit("/", 1)[-1])]\n',
        "    own = list(paths)\n",
        f"{_MAINTAIN}::test_vacuum_deletes_old_files_of_onramp_without_a_reference_and_no_foreign_file",
    ),
    Mutant(
        "two consistent observations of an expired date",
        f"{_FOLDER}/retention.py",
        "    return first.keep_days == second.keep_days and abs(step) <= _MAX_CLOCK_STEP\n",
        "    return True\n",
        f"{_RETENTION}::test_a_clock_that_was_set_starts_again",
    ),
    Mutant(
        "counting dropped rows in their commit",
        f"{_FOLDER}/delta_drop.py",
        ", transactions=dropped)",
        ")",
        f"{_RETENTION}::test_dropped_rows_are_counted_in_the_commit",
    ),
    Mutant(
        "rows that the audit of the lake misses",
        "services/ops/audit/lake_checks.py",
        "            self._report(Code.LOST, event.offset, ",
        "            str((Code.LOST, event.offset)) or self._report(Code.LOST, event.offset, ",
        f"{_AUDIT}::test_a_file_that_was_removed_by_hand_is_named_with_its_receipts",
    ),
    Mutant(
        "a query without access to files",
        "services/ops/lake/delta_query.py",
        '    "enable_external_access": False,\n',
        '    "enable_external_access": True,\n',
        f"{_CLI}::test_a_query_that_duckdb_refuses_is_a_sentence",
    ),
)
