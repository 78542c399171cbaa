"""Mutants: an event is in its table of the lake once, and no table takes what it must not."""

from typing import Final

from tests.mutants.machine import Mutant

_LAND: Final = "tests/unit/lake/test_land.py"
_TABLES: Final = "tests/unit/lake/test_lake_tables.py"
_LANDING: Final = "tests/integration/lake/test_landing.py"
_KILLS: Final = "tests/integration/lake/test_kills.py"
_COMMIT: Final = "services/lake/task/delta_commit.py"

MUTANTS: Final = (
    Mutant(
        "leaving out the rows that a table has",
        _COMMIT,
        "        first = max(position.next_offset if position else 0, order.starts.get(key, 0))\n",
        "        first = order.starts.get(key, 0)\n",
        f"{_LAND}::test_a_repeated_batch_lands_nothing_again",
    ),
    Mutant(
        "leaving out the rows before the start of a table",
        _COMMIT,
        "        first = max(position.next_offset if position else 0, order.starts.get(key, 0))\n",
        "        first = position.next_offset if position else 0\n",
        f"{_LAND}::test_rows_before_the_start_of_a_new_table_are_left_out",
    ),
    Mutant(
        "repeating a refused commit of the lake",
        _COMMIT,
        "        except CommitFailedError:\n            return False\n        failpoints",
        "        except CommitFailedError:\n            return True\n        failpoints",
        f"{_LAND}::test_two_tasks_create_one_table_and_add_different_columns_at_once",
    ),
    Mutant(
        "transaction identifiers in the commits of the lake",
        _COMMIT,
        "        commit_properties=CommitProperties(app_transactions=transactions),\n",
        "        commit_properties=CommitProperties(),\n",
        f"{_LAND}::test_two_commits_from_one_version_land_once",
    ),
    Mutant(
        "halting a restored table of the lake",
        _COMMIT,
        "        if before is not None and (position is None or position",
        "        if False and (position is None or position",
        f"{_LAND}::test_a_restored_table_is_halted_and_continues_when_it_is_whole_again",
    ),
    Mutant(
        "halting a removed table of the lake",
        _COMMIT,
        "    if any(key.table == table.name for key in order.positions):\n",
        "    if False:\n",
        f"{_LAND}::test_a_removed_table_is_halted_instead_of_created_anew",
    ),
    Mutant(
        "halting the table of another Onramp",
        _COMMIT,
        "    if owner != order.owner:\n",
        "    if False:\n",
        f"{_LAND}::test_the_table_of_another_onramp_or_program_is_halted",
    ),
    Mutant(
        "leaving foreign files of the lake alone",
        _COMMIT,
        "    if files:\n",
        "    if False:\n",
        f"{_LAND}::test_a_folder_with_foreign_files_is_left_alone",
    ),
    Mutant(
        "a column of the lake that keeps its type",
        _COMMIT,
        "        kind = kind_of(existing.field(column).type) if column in existing.names else each.kind\n",
        "        kind = each.kind\n",
        f"{_LAND}::test_a_changed_type_keeps_the_column_and_rescues_the_value",
    ),
    Mutant(
        "a bounded number of dates in a commit",
        "services/lake/task/dates.py",
        "    if len(counts) <= MAX_PARTITIONS:\n",
        "    if True:\n",
        f"{_LAND}::test_impossible_and_too_many_dates_are_null",
    ),
    Mutant(
        "columns of the lake that differ by more than case",
        "shared/lake/lake_tables.py",
        "        if holder != plain or not _SAFE_NAME.fullmatch(name):\n",
        "        if not _SAFE_NAME.fullmatch(name):\n",
        f"{_TABLES}::test_hostile_names_get_distinct_safe_columns",
    ),
    Mutant(
        "finishing a planned range of the lake under its routes",
        "services/lake/driver/loop.py",
        "        routes = self._parts.lake_log.routes.get(digest)\n",
        "        routes = self._routes[1] if self._routes else None\n",
        f"{_KILLS}::test_a_range_is_finished_under_the_routes_of_its_plan",
    ),
    Mutant(
        "settling ranges of the lake whose tables have all rows",
        "services/lake/driver/loop.py",
        "each.partition for each in every if not each.failed_table and not each.unreadable",
        "each.partition for each in every if not each.unreadable",
        f"{_LANDING}::test_a_halted_table_waits_with_its_topic_while_another_lands",
    ),
    Mutant(
        "fencing an older driver of the lake",
        "services/lake/driver/kafka_producer.py",
        "            transactional_id=TRANSACTIONAL_ID,\n",
        '            transactional_id=f"{TRANSACTIONAL_ID}-{id(self)}",\n',
        f"{_KILLS}::test_two_drivers_leave_one_driver_fenced_and_the_other_driver_lands_every_event",
    ),
    Mutant(
        "older events for a new table of the lake",
        "services/lake/driver/partitions.py",
        "                position.next_offset = wanted[p]\n",
        "                pass\n",
        f"{_LANDING}::test_a_new_destination_takes_older_events_and_the_other_table_none_twice",
    ),
    Mutant(
        "the start of tables after the loss of onramp.lake",
        "services/lake/driver/partitions.py",
        "        self._continued = dict(group) if lake_log == LakeLog() else {}\n",
        "        self._continued: dict[Partition, Committed] = {}\n",
        "tests/unit/lake/test_partitions.py::test_a_table_continues_after_the_loss_of_the_log",
    ),
)
