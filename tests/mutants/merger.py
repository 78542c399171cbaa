"""Mutants: changes of a source reach its public tables in the source's order, once, and nothing else."""

from typing import Final

from tests.mutants.machine import Mutant

MUTANTS: Final = (
    Mutant(
        "order by the topic's offset, not by LSN",
        "services/cdc/merge/merge_keyed_sql.py",
        "b JOIN (\n        SELECT max(at) AS at FROM pg_temp.onramp_batch",
        "b JOIN (\n        SELECT (array_agg(at ORDER BY lsn DESC))[1] AS at FROM pg_temp.onramp_batch",
        "tests/integration/cdc/test_merge.py::test_order_is_the_topics_and_not_the_lsns",
    ),
    Mutant(
        "the fold over a key's changes",
        "services/cdc/merge/merge_keyed_sql.py",
        "ORDER BY span.key, c.key, c.value = ANY ({all}), span.at DESC",
        "ORDER BY span.key, c.key, span.at DESC",
        (
            "tests/integration/cdc/"
            "test_merge.py::test_a_value_that_was_left_out_is_that_of_the_change_before_or_the_old_rows"
        ),
    ),
    Mutant(
        "what the old row has",
        "services/cdc/merge/merge_keyed_sql.py",
        "CASE WHEN f.row -> {} = ANY ({}) THEN p.{} ELSE {} END",
        "CASE WHEN f.row -> {} = ANY ({}) THEN NULL ELSE {3} END",
        (
            "tests/integration/cdc/"
            "test_merge.py::test_a_value_that_was_left_out_is_that_of_the_change_before_or_the_old_rows"
        ),
    ),
    Mutant(
        "identity among the changes of a merge",
        "services/cdc/merge/stage_sql.py",
        "        cursor.execute(_REPEATS_HERE, (log,))\n",
        '        cursor.execute("UPDATE pg_temp.onramp_batch SET op = op WHERE false")\n',
        "tests/integration/cdc/test_merge.py::test_changes_resent_by_a_killed_connector_count_once",
    ),
    Mutant(
        "identity among those that landed before",
        "services/cdc/merge/stage_sql.py",
        "        if mark is None:\n",
        "        if True:\n",
        "tests/integration/cdc/test_merge.py::test_a_repeat_that_lands_later_counts_once",
    ),
    Mutant(
        "the position in the merge's own transaction",
        "services/cdc/merge/table_merge.py",
        (
            "                    state_sql.advance(conn, self.source.name, to)\n"
            '                    failpoints.reach("merger.before_commit")\n'
        ),
        (
            "                    conn.commit()\n"
            '                    failpoints.reach("merger.before_commit")\n'
            "                    state_sql.advance(conn, self.source.name, to)\n"
        ),
        "tests/integration/cdc/test_merge.py::test_a_merge_that_ends_before_its_commit_did_nothing",
    ),
    Mutant(
        "the deleted row until the next change",
        "services/cdc/merge/table_merge.py",
        "        if carried:\n",
        "        if False:\n",
        (
            "tests/integration/cdc/"
            "test_merge.py::test_a_new_key_whose_halves_land_apart_with_a_repeat_between_them"
        ),
    ),
    Mutant(
        "TRUNCATE",
        "services/cdc/merge/table_merge.py",
        "(batch.begins_at, stage_sql.last_truncate(conn))",
        "(batch.begins_at,)",
        "tests/integration/cdc/test_merge.py::test_truncate_empties_the_table_and_what_follows_counts",
    ),
    Mutant(
        "that a snapshot begins the table",
        "services/cdc/merge/replacement_sql.py",
        "        begins_at = _last(first, clear, behind_drop)\n",
        "        begins_at = _last(clear, behind_drop)\n",
        "tests/integration/cdc/test_merge.py::test_a_snapshot_begins_the_table_empty",
    ),
    Mutant(
        "that rows stay until their replacement has landed: a snapshot",
        "services/cdc/merge/replacement_sql.py",
        "    if not has_rows(conn, landed.table):\n",
        "    if True:\n",
        "tests/integration/cdc/test_replaced.py",
    ),
    Mutant(
        "that rows stay until their replacement has landed: a resync",
        "services/cdc/merge/state_sql.py",
        "        return is_known and self.replaced_until <= stop\n",
        "        return self.clear_at is not None and self.clear_at <= stop\n",
        "tests/integration/cdc/test_replaced.py",
    ),
    Mutant(
        "that rows stay until their replacement has landed: a rename",
        "services/cdc/merge/replacement_sql.py",
        "    if behind_drop is not None and behind_drop < until and not is_replaced:\n",
        "    if False:\n",
        "tests/integration/cdc/test_replaced.py",
    ),
    Mutant(
        "NOT NULL of a column that left the key",
        "services/cdc/merge/shape_sql.py",
        "            for name in set(found[1]) - set(table.key):\n",
        "            for name in ():\n",
        "tests/integration/cdc/test_replaced.py",
    ),
    Mutant(
        "that one delete takes one of equal rows",
        "services/cdc/merge/merge_keyless_sql.py",
        " AND p.nth <= leaving.n",
        "",
        "tests/integration/cdc/test_merge.py::test_without_a_key_one_delete_takes_one_of_equal_rows",
    ),
    Mutant(
        "a table of somebody else",
        "services/cdc/merge/shape_sql.py",
        "    if now.oid is not None and not is_ours and not",
        "    if False and not",
        "tests/integration/cdc/test_merge.py::test_a_table_of_somebody_else_is_not_touched",
    ),
    Mutant(
        "the public table as it was left",
        "services/cdc/merge/shape_sql.py",
        "        public_table_drift_sql.require_as_left(table, position.stored_shape, now)\n",
        "        pass\n",
        (
            "tests/integration/cdc/"
            "test_published_table.py::test_manual_change_to_a_public_table_suspends_it_until_a_rebuild"
        ),
    ),
    Mutant(
        "the merger's poll",
        "services/cdc/merger/merger.py",
        "        deadline = time.monotonic() + self._settings.poll_seconds\n",
        "        deadline = time.monotonic() + 3600\n",
        (
            "tests/integration/cdc/"
            "test_merger.py::test_landed_change_is_published_by_polling_without_a_notification"
        ),
    ),
    Mutant(
        "a hold of one table alone",
        "services/cdc/merger/merger.py",
        "            self._hold(conn, table.name, str(e))\n",
        "            raise\n",
        (
            "tests/integration/cdc/"
            "test_merger.py::test_a_table_that_fails_is_held_alone_and_goes_on_when_it_is_fixed"
        ),
    ),
    Mutant(
        "NULL for an array that was left alone: the row is held",
        "services/cdc/merge/table_merge.py",
        "        placeholders.require_known_values(conn, self.table)\n        last =",
        "        last =",
        (
            "tests/integration/cdc/"
            "test_unchanged_arrays.py::test_where_there_was_a_value_the_table_is_held_until_it_is_read_again"
        ),
    ),
    Mutant(
        "NULL for an array that was left alone: what was NULL before",
        "services/cdc/merge/placeholders.py",
        "coalesce(f.earlier -> f.name, 'null') <> 'null'",
        "true",
        "tests/integration/cdc/test_unchanged_arrays.py::test_where_it_was_null_it_is_null",
    ),
    Mutant(
        "what a snapshot has seen: it is passed over",
        "services/cdc/merge/table_merge.py",
        "        if not self.table.key:\n            visibility =",
        "        if False:\n            visibility =",
        "tests/integration/cdc/test_snapshot_visibility.py::test_changes_visible_to_the_snapshot_are_not_applied_twice",
    ),
    Mutant(
        "what a snapshot has seen: also in the merges that follow",
        "services/cdc/merge/table_merge.py",
        "            visibility=visibility,\n",
        "",
        "tests/integration/cdc/test_snapshot_visibility.py::test_changes_visible_to_the_snapshot_are_not_applied_twice",
    ),
    Mutant(
        "what a snapshot has seen: nothing is merged before it is known",
        "services/cdc/merge/snapshot_visibility_sql.py",
        "    return stop if at is None else int(at)\n",
        "    return stop\n",
        "tests/integration/cdc/test_snapshot_visibility.py::test_merge_waits_until_the_agent_has_recorded_the_snapshots_visibility",
    ),
    Mutant(
        "what a snapshot has seen: what was cut off holds nothing up",
        "services/cdc/merge/snapshot_visibility_sql.py",
        "lead(start, 1, %(stop)s) OVER (ORDER BY start, id)",
        "%(stop)s",
        "tests/integration/cdc/test_snapshot_visibility.py::test_snapshot_cut_off_before_its_first_row_does_not_hold_up_the_merge",
    ),
    Mutant(
        "what a snapshot has seen: what is sent again is known by its identity",
        "services/cdc/merge/table_merge.py",
        "mark = state_sql.mark(conn, position, stop)",
        "mark = None",
        "tests/integration/cdc/test_snapshot_visibility.py::test_changes_resent_after_a_snapshot_are_not_applied_twice",
    ),
    Mutant(
        "what a snapshot has seen: TRUNCATE",
        "services/cdc/merge/snapshot_visibility_sql.py",
        "b.op <> 'r' AND b.lsn <",
        "b.op NOT IN ('r', 't') AND b.lsn <",
        "tests/integration/cdc/test_snapshot_visibility.py::test_a_truncate_that_was_seen_empties_nothing",
    ),
    Mutant(
        "what a snapshot has seen: only until the log is past it",
        "services/cdc/merge/snapshot_visibility_sql.py",
        " AND b.lsn < %(before)s::pg_lsn - '0/0'",
        "",
        (
            "tests/integration/cdc/"
            "test_snapshot_visibility.py::test_transaction_id_reused_long_after_a_snapshot_is_not_taken_as_visible_to_it"
        ),
    ),
)
