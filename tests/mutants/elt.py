"""The protections of what landed of sources, and of its merge into public tables."""

from typing import Final

from tests.mutants.machine import Mutant, run

_MERGE: Final = "tests/integration/elt/test_merge.py::test_"
_MODELER: Final = "tests/integration/elt/test_modeler.py::test_"
_PUBLISHED: Final = "tests/integration/elt/test_published_table.py::test_"
_FROZEN: Final = "tests/integration/elt/test_frozen.py::test_"
_LEFT_ALONE: Final = "tests/integration/elt/test_left_alone.py::test_"
_SEEN: Final = "tests/integration/elt/test_seen.py::test_"
_STREAMS: Final = "tests/integration/elt/test_streams.py"

MERGE: Final = (
    Mutant(
        "order by the topic's offset, not by LSN",
        "merge/keyed_sql.py",
        "b JOIN (\n        SELECT max(at) AS at FROM pg_temp.onramp_batch",
        "b JOIN (\n        SELECT (array_agg(at ORDER BY lsn DESC))[1] AS at FROM pg_temp.onramp_batch",
        f"{_MERGE}order_is_the_topics_and_not_the_lsns",
    ),
    Mutant(
        "the fold over a key's changes",
        "merge/keyed_sql.py",
        "ORDER BY span.key, c.key, c.value = ANY ({all}), span.at DESC",
        "ORDER BY span.key, c.key, span.at DESC",
        f"{_MERGE}a_value_that_was_left_out_is_that_of_the_change_before_or_the_old_rows",
    ),
    Mutant(
        "what the old row has",
        "merge/keyed_sql.py",
        "CASE WHEN f.row -> {} = ANY ({}) THEN p.{} ELSE {} END",
        "CASE WHEN f.row -> {} = ANY ({}) THEN NULL ELSE {3} END",
        f"{_MERGE}a_value_that_was_left_out_is_that_of_the_change_before_or_the_old_rows",
    ),
    Mutant(
        "identity among the changes of a merge",
        "merge/stage_sql.py",
        "        cursor.execute(_REPEATS_HERE, (log,))\n",
        '        cursor.execute("UPDATE pg_temp.onramp_batch SET op = op WHERE false")\n',
        f"{_MERGE}what_a_killed_connector_sends_again_counts_once",
    ),
    Mutant(
        "identity among those that landed before",
        "merge/stage_sql.py",
        "        if mark is None:\n",
        "        if True:\n",
        f"{_MERGE}a_repeat_that_lands_later_counts_once",
    ),
    Mutant(
        "that a lower identity is looked for before it is dropped",
        "merge/stage_sql.py",
        "        high, (suspects,) = start, cursor.fetchone() or (0,)\n",
        '        cursor.execute("DELETE FROM pg_temp.onramp_batch WHERE (commit, ord) <= (%s, %s)", mark)\n'
        "        high, suspects = start, 0\n",
        f"{_MERGE}a_change_whose_commit_is_lower_and_that_is_no_repeat_counts",
    ),
    Mutant(
        "the position in the merge's own transaction",
        "merge/merge_sql.py",
        "                state_sql.advance(conn, self.source.name, to)\n"
        '                failpoints.reach("modeler.before_commit")\n',
        "            with conn:\n"
        '                failpoints.reach("modeler.before_commit")\n'
        "                state_sql.advance(conn, self.source.name, to)\n",
        f"{_MERGE}a_merge_that_ends_before_its_commit_did_nothing",
    ),
    Mutant(
        "that a new key takes what was left out from the old one",
        "merge/keyed_sql.py",
        "    pairs = _pairs(conn, table) if is_left_out and _one(conn, _LEFT_OUT) else []\n",
        "    pairs = []\n",
        f"{_MERGE}a_new_key_keeps_what_was_left_out_from_the_old_one",
    ),
    Mutant(
        "the deleted row until the next change",
        "merge/merge_sql.py",
        "        if carried:\n",
        "        if False:\n",
        f"{_MERGE}a_new_key_whose_halves_land_apart_with_a_repeat_between_them",
    ),
    Mutant(
        "TRUNCATE",
        "merge/merge_sql.py",
        "        new.append(stage_sql.last_truncate(conn))\n",
        "",
        f"{_MERGE}truncate_empties_the_table_and_what_follows_counts",
    ),
    Mutant(
        "that a snapshot begins the table",
        "merge/merge_sql.py",
        "        new = [read_from]\n",
        "        new = []\n",
        f"{_MERGE}a_snapshot_begins_the_table_empty",
    ),
    Mutant(
        "identities beyond a snapshot",
        "merge/state_sql.py",
        "marks = (stage_sql.mark(conn, start), position.mark)",
        "marks = (stage_sql.mark(conn, start),)",
        f"{_MERGE}what_is_sent_again_after_a_snapshot_is_of_before_it",
    ),
    Mutant(
        "that one delete takes one of equal rows",
        "merge/keyless_sql.py",
        " AND p.nth <= leaving.n",
        "",
        f"{_MERGE}without_a_key_one_delete_takes_one_of_equal_rows",
    ),
    Mutant(
        "generated columns",
        "merge/history_sql.py",
        'for c in latest if not c.get("generated"))',
        "for c in latest)",
        f"{_MERGE}generated_columns_are_never_taken",
    ),
    Mutant(
        "a table of somebody else",
        "merge/shape_sql.py",
        "    if now.oid is not None and not is_ours and not",
        "    if False and not",
        f"{_MERGE}a_table_of_somebody_else_is_not_touched",
    ),
    Mutant(
        "the public table as it was left",
        "merge/shape_sql.py",
        "        made_sql.require_as_left(table, position.made, now)\n",
        "        pass\n",
        f"{_PUBLISHED}what_somebody_changed_holds_the_table_until_a_rebuild",
    ),
    Mutant(
        "the memory of values that were cut",
        "merge/merge_sql.py",
        "                if isinstance(e, made_sql.DamagedError):\n",
        "                if False:\n",
        f"{_PUBLISHED}a_name_that_is_put_back_is_enough_and_a_type_is_not",
    ),
    Mutant(
        "that a resync begins a table without rows",
        "merge/superseded_sql.py",
        "begins = (snapshot, cleared)",
        "begins = (snapshot, None)",
        f"{_PUBLISHED}a_resync_heals_it_also_when_no_row_is_left",
    ),
    Mutant(
        "columns by their numbers",
        "merge/made_sql.py",
        "(is_here and found.number != was.number)",
        "False",
        f"{_PUBLISHED}what_somebody_changed_holds_the_table_until_a_rebuild",
    ),
    Mutant(
        "a source that is known later than its tables",
        "modeler/modeler.py",
        "self._added.clear()",
        "self._added = {*self._history[1]}",
        f"{_MODELER}a_source_that_is_known_here_after_its_tables_are_told_is_published",
    ),
    Mutant(
        "a hold for what nobody foresaw",
        "modeler/modeler.py",
        "            self._hold(conn, table.name, _UNFORESEEN.format(type(e).__name__))\n",
        "",
        f"{_MODELER}a_table_that_fails_as_nobody_foresaw_is_held_and_says_so",
    ),
    Mutant(
        "a hold of one table alone",
        "modeler/modeler.py",
        "            self._hold(conn, table.name, str(e))\n",
        "            raise\n",
        f"{_MODELER}a_table_that_fails_is_held_alone_and_goes_on_when_it_is_fixed",
    ),
    Mutant(
        "what waits behind a lock",
        "merge/state_sql.py",
        "next_offset if waiting is None else min(next_offset, waiting)",
        "next_offset",
        f"{_MODELER}changes_that_wait_behind_a_lock_are_not_passed_over",
    ),
    Mutant(
        "what is parked",
        "modeler/modeler.py",
        "    if fed[0].parked > model.parked_known:\n",
        "    if False:\n",
        f"{_MODELER}a_parked_change_holds_the_table",
    ),
    *(
        Mutant(f"NULL for an array that was left alone: {what}", file, old, new, f"{_LEFT_ALONE}{test}")
        for what, file, old, new, test in (
            (
                "the row is held",
                "merge/merge_sql.py",
                "        placeholders.require_told(conn, self.table)\n        last =",
                "        last =",
                "where_there_was_a_value_the_table_is_held_until_it_is_read_again",
            ),
            (
                "a key that changes",
                "merge/placeholders.py",
                "(op = 'u' OR op = 'c' AND is_moved)",
                "op = 'u'",
                "where_there_was_a_value_the_table_is_held_until_it_is_read_again",
            ),
            (
                "a key that changes between two merges",
                "merge/merge_sql.py",
                "or not (toast or self.table.silent)",
                "or not toast",
                "where_there_was_a_value_the_table_is_held_until_it_is_read_again",
            ),
            (
                "what was NULL before",
                "merge/placeholders.py",
                "coalesce(f.earlier -> f.name, 'null') <> 'null'",
                "true",
                "where_it_was_null_it_is_null",
            ),
            (
                "what was NULL in the public row",
                "merge/placeholders.py",
                "to_jsonb(p) -> f.name <> 'null'",
                "true",
                "where_it_was_null_it_is_null",
            ),
            (
                "rows that nobody published",
                "merge/placeholders.py",
                "ELSE (SELECT {where} FROM (SELECT f.after AS after) AS cleaned) IS TRUE END",
                "ELSE true END",
                "a_row_that_nobody_published_holds_nothing_while_it_stays_out",
            ),
            (
                "without a key",
                "merge/merge_sql.py",
                "            placeholders.require_told(conn, self.table)\n            keyless",
                "            keyless",
                "without_a_key_the_whole_row_before_tells",
            ),
            (
                "of a domain",
                "merge/column_types.py",
                "(of != declared or ",
                "(",
                "what_says_that_it_was_left_alone_may_become_null",
            ),
        )
    ),
    *(
        Mutant(f"what a snapshot has seen: {what}", file, old, new, f"{_SEEN}{test}")
        for what, file, old, new, test in (
            (
                "it is passed over",
                "merge/merge_sql.py",
                "        if not self.table.key:\n            seen =",
                "        if False:\n            seen =",
                "what_the_snapshot_has_seen_is_not_there_twice",
            ),
            (
                "also in the merges that follow",
                "merge/merge_sql.py",
                "drops, staged, repeats, seen)\n",
                "drops, staged, repeats)\n",
                "what_the_snapshot_has_seen_is_not_there_twice",
            ),
            (
                "nothing is merged before it is known",
                "merge/seen_sql.py",
                "    if at == start:\n",
                "    if False:\n",
                "it_waits_until_the_agent_has_told_what_was_seen",
            ),
            (
                "what came before it does not wait",
                "merge/seen_sql.py",
                "    return stop if at is None else int(at)\n",
                "    return stop\n",
                "it_waits_until_the_agent_has_told_what_was_seen",
            ),
            (
                "what was cut off holds nothing up",
                "merge/seen_sql.py",
                "lead(start, 1, %(stop)s) OVER (ORDER BY start, id)",
                "%(stop)s",
                "what_was_cut_off_before_its_first_row_holds_nothing_up",
            ),
            (
                "what was asked for last counts",
                "merge/seen_sql.py",
                "ORDER BY start DESC, id DESC",
                "ORDER BY start, id",
                "it_waits_until_the_agent_has_told_what_was_seen",
            ),
            (
                "from where it was asked for",
                "merge/seen_sql.py",
                " AND start <= %s\n",
                " AND %s IS NOT NULL\n",
                "of_the_first_snapshot_nobody_tells",
            ),
            (
                "what is sent again is known by its identity",
                "merge/merge_sql.py",
                "mark = state_sql.mark(conn, position, stop)",
                "mark = None",
                "what_is_sent_again_is_not_there_twice_either",
            ),
            (
                "TRUNCATE",
                "merge/seen_sql.py",
                "b.op <> 'r' AND b.lsn <",
                "b.op NOT IN ('r', 't') AND b.lsn <",
                "a_truncate_that_was_seen_empties_nothing",
            ),
            (
                "ids without their upper half",
                "merge/seen_sql.py",
                "greatest(s.xmax + ((b.xid - s.xmax) %% {all} + {all} + {half}) %% {all} - {half}, 0)",
                "b.xid",
                "a_change_has_the_lower_half_of_its_transactions_id",
            ),
            (
                "only until the log is past it",
                "merge/seen_sql.py",
                " AND b.lsn < %(before)s::pg_lsn - '0/0'",
                "",
                "long_after_it_an_id_that_comes_again_is_not_taken_for_one_that_was_seen",
            ),
        )
    ),
    Mutant(
        "that a table is read by the columns that it has",
        "snapshots/telling.py",
        "SELECT 1 / (",
        "SELECT 1 / (true OR ",
        "tests/integration/elt/test_telling.py",
    ),
    Mutant(
        "pairs outside of the part that is merged",
        "merge/keyed_sql.py",
        "[p for p in pairs if start <= p.old and p.new < stop]",
        "pairs",
        _STREAMS,
    ),
    Mutant(
        "that nobody waits for a source, or a database that it is published to, that freezes",
        "../../shared/postgres/answering.py",
        "own_watch().used(self._dsn, self._patience_s)",
        "own_watch().used(self._dsn, 3600.0)",
        f"{_FROZEN}f47_a_source_that_freezes_is_unreachable_and_so_it_is_listed "
        f"{_FROZEN}f47_a_modeler_says_that_its_database_is_frozen_goes_on_with_it_and_ends",
    ),
    Mutant(
        "that a database which is out is asked later for sources that nobody names any more",
        "agent/watch.py",
        "                self._unasked[database] = str(error)\n                continue\n",
        "                del self._unasked[database]\n                continue\n",
        "tests/unit/elt/test_watch.py",
    ),
)

if __name__ == "__main__":
    run("services/elt", MERGE, ())
