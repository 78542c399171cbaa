"""Mutants: an event lands as it was sent, waits or is parked alone, and reaches no table that it may not."""

from typing import Final

from tests.mutants.machine import Mutant

MUTANTS: Final = (
    Mutant(
        "parking the unroutable before their offset settles",
        "services/writer/settle/task.py",
        "        task.park_unroutable()\n",
        "",
        "tests/integration/writer/test_outbox.py",
    ),
    Mutant(
        "counting what COPY took",
        "services/writer/persist/copy.py",
        "require_all(complete=copy() == rows)",
        "require_all(complete=copy() >= 0)",
        "tests/integration/writer/test_persist.py",
    ),
    Mutant(
        "what COPY refused goes the other way: it is taken for landed",
        "services/writer/persist/copy_new_rows.py",
        "return new if sqlstate is None else np.zeros(rows.num_rows, dtype=bool)",
        "return new",
        "tests/integration/writer/test_copy_first.py tests/integration/writer/test_persist.py",
    ),
    Mutant(
        "what the table has is left out of COPY, and judged: it is taken for a repeat",
        "services/writer/persist/copy_new_rows.py",
        "    left = np.flatnonzero(~out.landed)\n    if left.size:\n",
        "    left = np.flatnonzero(~out.landed)\n    if left.size == rows.num_rows:\n",
        (
            "tests/integration/writer/test_copy_first.py tests/integration/writer/test_persist.py "
            "tests/integration/writer_tables/test_tables.py"
        ),
    ),
    Mutant(
        "counting a piece while isolating",
        "services/writer/persist/isolate_rows.py",
        "IF onramp_got <> (SELECT count(*) FROM {stage} s {in_piece}) THEN",
        "IF false THEN",
        "tests/integration/writer/test_persist.py tests/integration/writer_tables/test_tables.py",
    ),
    Mutant(
        "counting a row while isolating",
        "services/writer/persist/isolate_rows.py",
        "                    IF onramp_got = 0 THEN\n",
        "                    IF false THEN\n",
        "tests/integration/writer/test_persist.py tests/integration/writer_tables/test_tables.py",
    ),
    Mutant(
        "telling an outage from bad rows while isolating",
        "services/writer/persist/isolate_rows.py",
        "of_the_rows=_OF_THE_ROWS",
        'of_the_rows=sql.SQL("true")',
        "tests/integration/writer/test_persist.py tests/integration/writer_tables/test_tables.py",
    ),
    Mutant(
        "the same id with another body",
        "services/writer/persist/repeats.py",
        "    return dict.fromkeys(others, error)",
        "    return {}",
        "tests/integration/writer_tables/test_tables.py",
    ),
    Mutant(
        "the text that Postgres cannot hold",
        "services/writer/persist/insert.py",
        "    rows = _without_nul(database, spec, rows, out)\n",
        "",
        "tests/integration/writer/test_persist.py tests/integration/writer_tables/test_values.py",
    ),
    Mutant(
        "the frozen contract",
        "services/writer/persist/typed_rows.py",
        "if self.unknown() and",
        "if False and",
        "tests/integration/writer_tables/test_tables.py",
    ),
    Mutant(
        "the modifier of an array's elements",
        "services/writer/columns/catalog.py",
        "modifier if row.category == _ARRAY else -1",
        "-1",
        ("tests/integration/writer_tables/test_values.py::test_types_within_types_are_checked_to_the_end"),
    ),
    Mutant(
        "the modifier of a column that Onramp fills",
        "services/writer/persist/typed_rows.py",
        "column.type.base_name, column.type.modifier)",
        "column.type.base_name, -1)",
        (
            "tests/integration/writer_tables/"
            "test_destinations.py::test_a_column_of_onramps_that_would_change_its_values_is_named"
        ),
    ),
    Mutant(
        "columns with defaults keep groups apart",
        "services/writer/persist/merged_groups.py",
        "if table.columns[f.name].has_default)",
        "if False)",
        (
            "tests/integration/writer_tables/test_omitted_fields.py::"
            "test_column_with_a_default_has_it_only_where_an_event_omits_the_field"
        ),
    ),
    Mutant(
        "a repeat is compared by its own columns only",
        "services/writer/persist/merged_groups.py",
        "lacks = omitted_fields(i for i, name in enumerate(names) if name not in own)",
        'lacks = ""',
        (
            "tests/integration/writer_tables/test_omitted_fields.py::"
            "test_field_that_a_repeat_omits_is_not_compared"
        ),
    ),
    Mutant(
        "a right that one row lacks is its own error",
        "services/writer/persist/merged_groups.py",
        "if len(self.parts) == 1:",
        "if self.parts:",
        (
            "tests/integration/writer_tables/test_omitted_fields.py::"
            "test_right_that_one_row_lacks_is_no_other_rows_error"
        ),
    ),
    Mutant(
        "the pinned search_path",
        "services/writer/postgres/database.py",
        '"pg_catalog,pg_temp"',
        '"public"',
        "tests/integration/writer/test_postgres.py",
    ),
    Mutant(
        "the unknown waits",
        "services/writer/postgres/sqlstates.py",
        "        return Verdict.PARK\n    return Verdict.WAIT\n",
        "        return Verdict.PARK\n    return Verdict.PARK\n",
        "tests/unit/writer tests/unit/writer_sort",
    ),
    Mutant(
        "grants of packets",
        "services/writer/sort/packets.py",
        "if not routing.allows(topic, target):",
        "if False:",
        "tests/unit/writer tests/unit/writer_sort",
    ),
    Mutant(
        "schemas that are never writable",
        "services/writer/sort/packets.py",
        "if is_closed(destination.schema):",
        "if False:",
        "tests/unit/writer tests/unit/writer_sort",
    ),
    Mutant(
        "schemas that a database opens",
        "services/writer/sort/packets.py",
        "or destination.schema not in configured.schemas:",
        "or False:",
        "tests/unit/writer tests/unit/writer_sort",
    ),
    Mutant(
        "whole names",
        "shared/postgres/names.py",
        "0 < len(text.encode()) <= MAX_NAME_BYTES and ",
        "",
        "tests/unit/writer tests/unit/writer_sort",
    ),
    Mutant(
        "what waited and is sorted to its database no more, parked",
        "services/writer/databases/drain.py",
        "        task.collect_no_longer_routed(database)\n",
        "",
        (
            "tests/faults/"
            "test_stricter_rules.py::test_an_event_that_is_refused_when_it_drains_is_parked_f"
            "or_its_database"
        ),
    ),
    Mutant(
        "what waited and reads as no event any more, parked",
        "services/writer/waiting/release.py",
        "            settlement.park_all(target, table, error)\n",
        "            raise error\n",
        (
            "tests/faults/"
            "test_stricter_rules.py::test_an_event_that_is_refused_when_it_is_released_is_par"
            "ked_and_the_others_land"
        ),
    ),
    Mutant(
        "an event that cannot be sorted, alone",
        "services/writer/settle/task.py",
        "        for part, events in sort_one_by_one(self.filter_and_sort, read):",
        "        for part, events in self.filter_and_sort(read) or ():",
        "tests/faults/test_unexpected_task_errors.py::test_record_that_makes_a_step_raise_does_not_stop_other_records[sort]",
    ),
    Mutant(
        "an event that cannot be persisted, alone",
        "services/writer/settle/task.py",
        "one_by_one.add(e.target)",
        "blocked[e.target] = None",
        (
            "tests/faults/"
            "test_unexpected_task_errors.py::test_record_that_makes_a_step_raise_does_not_stop_other_records[persist]"
        ),
    ),
    Mutant(
        "an event that cannot be released, alone",
        "services/writer/settle/settlement.py",
        "result = self._persist(target, rows, one_by_one=True)",
        "result = self._persist(target, rows, one_by_one=False)",
        (
            "tests/faults/"
            "test_unexpected_task_errors.py::test_record_that_makes_a_step_raise_does_not_stop_other_records["
            "release-persist]"
        ),
    ),
    Mutant(
        "the others of a batch that fails",
        "services/writer/driver/batch.py",
        "        await _write_apart(parts, ranges, routes)\n",
        "        raise\n",
        "tests/faults/test_unexpected_task_errors.py::test_record_that_makes_a_step_raise_does_not_stop_other_records[keep]",
    ),
    Mutant(
        "the routes of a range that is set aside",
        "services/writer/driver/batch.py",
        "in parts.plan_log.set_aside_entries(parts.epoch, f.range, routes)\n",
        "in ()\n",
        (
            "tests/faults/test_quarantine.py::test_quarantined_range_is_finished_by_a_"
            "successor_under_its_original_routes"
        ),
    ),
    Mutant(
        "setting aside what fails alone",
        "services/writer/driver/batch.py",
        "if not passed and not settle_again:",
        "if not passed:",
        (
            "tests/faults/test_quarantine.py::test_partition_that_fails_alone_is_quarantined_"
            "after_the_loop_restarts"
        ),
    ),
    Mutant(
        "a refusal of one record, told from an outage",
        "services/writer/kafka/producer.py",
        "    except _TOO_LARGE:\n",
        "    except ():\n",
        (
            "tests/faults/"
            "test_too_large.py::test_parked_events_that_are_too_large_stay_in_the_out"
            "box_and_the_others_leave_it "
            "tests/faults/"
            "test_too_large.py::test_an_unroutable_event_that_is_too_large_is_kept_in"
            "_a_database_and_the_others_land "
            "tests/faults/"
            "test_too_large.py::test_a_diverted_event_that_is_too_large_holds_its_par"
            "tition_and_no_other"
        ),
    ),
    Mutant(
        "what is too large for a diversion, set aside",
        "services/writer/kafka/producer.py",
        " and not is_too_large(error)",
        "",
        (
            "tests/faults/"
            "test_too_large.py::test_a_diverted_event_that_is_too_large_holds_its_par"
            "tition_and_no_other"
        ),
    ),
    Mutant(
        "what goes nowhere and is too large, kept in a database",
        "services/writer/settle/task.py",
        "                outbox.add(",
        "                _ = (",
        (
            "tests/faults/"
            "test_too_large.py::test_an_unroutable_event_that_is_too_large_is_kept_in"
            "_a_database_and_the_others_land"
        ),
    ),
    Mutant(
        "one encoding for every connection",
        "shared/postgres/connect.py",
        '        client_encoding="UTF8",\n',
        "",
        "tests/integration/writer_tables/test_encodings.py",
    ),
    Mutant(
        "texts that the database's encoding does not have are found before they are staged",
        "services/writer/persist/insert.py",
        "    rows = _without_unstorable(conn, database, spec, rows, out)\n",
        "",
        "tests/integration/writer_tables/test_encodings.py",
    ),
    Mutant(
        "floats that a column gives back",
        "services/writer/columns/json_to_text.py",
        "if not value_changes.keeps_number(of, text):",
        "if False:",
        "tests/integration/writer_tables/test_lossless.py",
    ),
    Mutant(
        "floats spelled with all of their digits",
        "services/writer/columns/value_changes.py",
        "return _equals_text(float(stored), text, _DIGITS[of.float_name])",
        "return False",
        "tests/unit/writer/test_floats.py",
    ),
    Mutant(
        "intervals keep their digits",
        "services/writer/columns/json_to_text.py",
        "if lost := value_changes.interval_loss(of, value):",
        "if lost := None:",
        "tests/integration/writer_tables/test_lossless.py",
    ),
    Mutant(
        "what a function raises is told from the server's own word",
        "services/writer/settle/settlement.py",
        "            own = is_a_functions_own(e)\n",
        "            own = False\n",
        "tests/integration/writer/test_function_errors.py",
    ),
    Mutant(
        "events wait for a column, nobody is parked for it",
        "services/writer/persist/landing_tables.py",
        "        raise _logged(database, statement, e) from None\n",
        "        raise\n",
        "tests/integration/writer_tables/test_later_columns.py",
    ),
    Mutant(
        "strings that a column does not take as they are",
        "services/writer/columns/values_to_text.py",
        "    if of.kind in _ONE_BY_ONE:\n",
        "    if False:\n",
        "tests/unit/writer_columns/test_same_fields.py",
    ),
    Mutant(
        "floats that a column gives back, of many at once",
        "services/writer/columns/values_to_text.py",
        "        certain &= ~exponents & (sizes <= SAFE_LENGTH[of.float_name])\n",
        "",
        "tests/unit/writer_columns/test_same_fields.py",
    ),
    Mutant(
        "rows in columns and rows one by one stand in their order",
        "services/writer/persist/typed_rows.py",
        '    order = np.argsort(indices, kind="stable")\n',
        "    order = np.arange(len(indices))\n",
        "tests/unit/writer_columns/test_same_fields.py",
    ),
    Mutant(
        "rows that a trigger swallowed, among small tables",
        "services/writer/persist/small_tables.py",
        "    IF onramp_landed <> {rows} THEN\n",
        "    IF onramp_landed > {rows} THEN\n",
        (
            "tests/integration/writer/"
            "test_small_tables.py::test_a_row_that_a_trigger_swallows_is_parked_and_all_others_land"
        ),
    ),
    Mutant(
        "the bound of a batch's tasks",
        "services/writer/model/connection_budget.py",
        ", *(max_tasks(b) for b in bounds if b is not None))",
        ")",
        "tests/integration/writer/test_connections.py::test_a_batch_has_as_many_tasks_as_the_bound_takes",
    ),
    Mutant(
        "rows per second",
        "services/writer/batching/row_rates.py",
        "max(min([limit, *budgets]), 0)",
        "limit",
        "tests/unit/writer/test_rates.py",
    ),
    Mutant(
        "the removal of what is given up in the transaction that parks it",
        "services/writer/waiting/dead_letter.py",
        "                    settlement.flush()\n",
        "                    settlement.flush()\n                    conn.commit()\n",
        (
            "tests/integration/writer/"
            "test_dead_letter.py::test_dead_lettering_killed_midway_resumes_and_parks_each_event_once"
        ),
    ),
    Mutant(
        "that only what waits at the moment is given up",
        "services/writer/settle/waiting_table.py",
        "AND added_at <= %s AND",
        "AND added_at <= %s + interval '1 day' AND",
        (
            "tests/integration/writer/test_dead_letter.py::test_waiting_events_of_a_locked_"
            "table_are_dead_lettered_and_later_events_land"
        ),
    ),
    Mutant(
        "that what is given up does not land before it is parked",
        "services/writer/waiting/release.py",
        "                continue  # an operator dead-lettered it just now\n",
        "                pass\n",
        "tests/integration/writer/test_dead_letter.py::test_dead_letter_request_during_a_release_parks_its_events_too",
    ),
    Mutant(
        "queueing behind a hold",
        "services/writer/settle/holds.py",
        "        if hold := self.tables.get(str(target)):\n",
        "        if (hold := self.tables.get(str(target))) and hold.timeouts < 0:\n",
        "tests/integration/writer/test_holds.py::test_later_events_queue_behind_those_that_wait",
    ),
    Mutant(
        "no hold ends while a task looks at it",
        "services/writer/settle/holds.py",
        "({_HOLDING} FOR KEY SHARE)",
        "({_HOLDING})",
        "tests/integration/writer/test_holds.py::test_a_hold_does_not_end_while_a_task_looks_at_it",
    ),
    Mutant(
        "what waits for two holds keeps one of them",
        "services/writer/waiting/release.py",
        "                        remaining.remove(hold)\n",
        "",
        "tests/integration/writer/test_holds.py::test_a_paused_type_whose_table_is_blocked_waits_for_both",
    ),
    Mutant(
        "the removal of what waited in its landing's transaction",
        "services/writer/waiting/release.py",
        "        settlement.flush()\n        waiting_table.drop(conn, taken)\n",
        "        settlement.flush()\n        conn.commit()\n        waiting_table.drop(conn, taken)\n",
        "tests/integration/writer/test_holds.py::test_a_release_that_dies_is_begun_again_and_lands_once",
    ),
    Mutant(
        "the pause in the ledger's transaction",
        "services/writer/settle/settlement.py",
        "        self.holds.flush(self._context.conn)\n",
        "",
        "tests/integration/writer/test_holds.py::test_a_type_pauses_past_its_share_and_the_others_go_on",
    ),
    Mutant(
        "a row is at fault only if its neighbours land",
        "services/writer/waiting/release.py",
        "        if suspects and not landed and (",
        "        if suspects and landed and (",
        (
            "tests/integration/writer/"
            "test_holds.py::test_a_table_on_which_everything_runs_out_of_time_is_no_rows_fault"
        ),
    ),
    Mutant(
        "what an undrained marker needs",
        "services/writer/databases/trim.py",
        "min(upto, needed.get(p, upto))",
        "upto",
        "tests/faults/test_trimming.py",
    ),
    Mutant(
        "what another writer may still close",
        "services/writer/databases/trim.py",
        "time.time() - self._keep",
        "time.time()",
        "tests/faults/test_trimming.py",
    ),
    Mutant(
        "silence about what is rolled back",
        "services/writer/settle/event_log.py",
        "    yield pieces\n    write(per_second, pieces)\n",
        "    try:\n        yield pieces\n    finally:\n        write(per_second, pieces)\n",
        "tests/unit/writer/test_event_log.py::test_rolled_back_commit_logs_no_line",
    ),
    Mutant(
        "the values of a row",
        "services/writer/settle/event_log.py",
        '_COLUMNS: Final = ("_id", ',
        '_COLUMNS: Final = ("payload", ',
        "tests/unit/writer/test_event_log.py::test_each_event_has_its_line_without_a_value",
    ),
)
