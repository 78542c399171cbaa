"""The protections of what landed of sources, and of its merge into public tables."""

from typing import Final

from tests.mutants.machine import Mutant, run

_MERGE: Final = "tests/integration/elt/test_merge.py::test_"
_MODELER: Final = "tests/integration/elt/test_modeler.py::test_"
_PUBLISHED: Final = "tests/integration/elt/test_published_table.py::test_"
_FROZEN: Final = "tests/integration/elt/test_frozen.py::test_"
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
        "        cursor.execute(_REPEATS_HERE)\n",
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
        "        high, suspects = start, _one(conn, sql.SQL(_SUSPECTS), *mark)\n",
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
        "        new = [stage_sql.last_snapshot(conn, landing, start)]\n",
        "        new = []\n",
        f"{_MERGE}a_snapshot_begins_the_table_empty",
    ),
    Mutant(
        "identities beyond a snapshot",
        "merge/merge_sql.py",
        "None if is_new else position.mark",
        "None if cut is not None else position.mark",
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
        "(stage_sql.last_snapshot(conn, landing, start), cleared)",
        "(stage_sql.last_snapshot(conn, landing, start), None)",
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
