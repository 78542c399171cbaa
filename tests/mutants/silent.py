"""`python -m tests.mutants.silent`: what notices rows that change, or come back, and no event says so."""

from collections.abc import Sequence
from typing import Final

from tests.mutants.machine import Mutant, run

UNIT: Final = "tests/unit/elt/test_connector.py"
REREADS: Final = "tests/unit/elt/test_rereads.py"
SLOT: Final = "tests/unit/elt/test_slot.py"
_CAPTURE: Final = "tests/integration/capture/test_silent.py::test_"
CHANGES: Final = f"{_CAPTURE}what_changes_without_an_event_is_read_again"
EXCLUDED: Final = f"{_CAPTURE}what_was_excluded_comes_back_as_it_is_then"
UNPUBLISHED: Final = f"{_CAPTURE}what_changes_while_it_is_not_published_is_read_again"
REMOVED: Final = f"{_CAPTURE}what_a_source_has_that_was_removed_and_comes_back"
OUT: Final = f"{_CAPTURE}tables_whose_rows_cannot_be_captured_stay_out_and_say_why"
CATALOGUE: Final = "tests/integration/elt/test_catalogue.py"
EMPTIED: Final = "tests/integration/elt/test_emptied.py"
IDLE: Final = (
    "tests/integration/capture/test_wal.py::test_a_connector_that_starts_finds_its_place_where_nobody_writes"
)
ONE_ROW: Final = (
    "tests/integration/elt/test_merge.py::test_a_snapshot_of_one_row_is_not_the_tail_of_one_that_was_cut_off"
)
MERGE: Final = "tests/integration/elt/test_merge.py"
CUT_OFF: Final = (
    "tests/integration/elt/test_seen.py"
    "::test_what_was_cut_off_amid_its_rows_is_passed_over_once_another_has_come"
)


def _silent(protections: Sequence[tuple[str, str, str, str, str]]) -> tuple[Mutant, ...]:
    """Return mutants: what each removes, its file, the old text, the new one, and the tests."""
    return tuple(
        Mutant(f"silent: {removes}", file, old, new, tests=tests)
        for removes, file, old, new, tests in protections
    )


QUICK: Final = _silent(
    (
        (
            "a topic's name has a character for each that Java counts",
            "agent/names.py",
            ' * (len(c.encode("utf-16-le")) // 2)',
            "",
            f"{UNIT}::test_a_topic_has_the_name_that_debezium_gives_it",
        ),
        (
            "how many digits of a float a session shows",
            "../../shared/postgres/connect.py",
            '    "extra_float_digits=1",\n',
            "",
            f"{MERGE}::test_without_a_key_rows_that_differ_little_are_two",
        ),
        *(
            (what, f"snapshots/{file}", old, new, f"{CATALOGUE}::test_{test}")
            for what, file, old, new, test in (
                (
                    "an index's INCLUDE tells no row",
                    "identity_sql.py",
                    "WHERE k.place <= i.indnkeyatts",
                    "",
                    "a_row_is_told_by_what_is_unique_at_any_time",
                ),
                (
                    "nor does a key that is checked late",
                    "identity_sql.py",
                    "AND i.indimmediate ",
                    "",
                    "a_row_is_told_by_what_is_unique_at_any_time",
                ),
                (
                    "nor one that not all partitions have",
                    "identity_sql.py",
                    "AND i.indisvalid",
                    "",
                    "a_key_that_not_all_partitions_have_tells_no_row",
                ),
                (
                    "partitions whose rows are told otherwise",
                    "stamps_sql.py",
                    " OR {_TELLS_OTHERS}",
                    "",
                    "a_partition_whose_rows_are_told_otherwise_has_its_root_stay_out",
                ),
                (
                    "a partition's identity of a moment",
                    "stamps_sql.py",
                    " UNION ALL SELECT tree.oid FROM tree) AS its",
                    ") AS its",
                    "a_partition_whose_rows_are_told_otherwise_has_its_root_stay_out",
                ),
                (
                    "a default of a moment in partitions",
                    "stamps.py",
                    " or name in now.filled",
                    "",
                    "a_default_of_a_moment_in_the_rows_of_partitions",
                ),
                (
                    "a key that was away for a moment",
                    "stamps.py",
                    "before.told_by is not None and before.told_by != now.told_by",
                    "False",
                    "a_row_that_was_told_by_another_index_for_a_moment",
                ),
                *(
                    (
                        f"what a lasting change hides: {what}",
                        file,
                        old,
                        new,
                        "what_a_change_that_lasts_would_hide_is_noted_where_a_trigger_is",
                    )
                    for what, file, old, new in (
                        ("it is noted", "noted_sql.py", "  {_NOTE_NAMES}\n", ""),
                        ("in all sessions", "noted_sql.py", "ENABLE ALWAYS", "ENABLE"),
                        ("it is read", "stamps.py", "(now.moment or 0) > before.moment", "False"),
                        (
                            "of partitions too",
                            "../agent/source_sql.py",
                            '(oid, *(stamp.get("partitions") or ()))',
                            "(oid,)",
                        ),
                    )
                ),
                (
                    "REINDEX amid its work",
                    "stamps_sql.py",
                    "i.indisclustered, i.indisvalid,",
                    "i.indisclustered,",
                    "a_reindex_that_is_looked_at_amid_its_work",
                ),
            )
        ),
        (
            "another name of an enumeration's value",
            "snapshots/stamps.py",
            "if any(now.labels",
            "if False and any(now.labels",
            UNIT,
        ),
        (
            "a column that is not generated any more",
            "snapshots/stamps.py",
            "if int(number) in before.generated:",
            "if False:",
            UNIT,
        ),
        (
            "a partition that was truncated",
            "snapshots/stamps.py",
            "if any(now.files",
            "if False and any(now.files",
            UNIT,
        ),
        (
            "a column that was dropped and made again",
            "snapshots/stamps.py",
            "elif name in before.gone or name in had:",
            "elif name in had:",
            UNIT,
        ),
        (
            "a table that ALTER TABLE rewrites",
            "snapshots/stamps.py",
            "return before.toast != now.toast",
            "return False",
            UNIT,
        ),
        (
            "a narrow table that ALTER TABLE rewrites",
            "snapshots/stamps.py",
            "return bool(before.toast or now.toast) or not now.is_truncated",
            "return bool(before.toast or now.toast)",
            UNIT,
        ),
        (
            "a TRUNCATE, by the files that it makes",
            "snapshots/stamps_sql.py",
            "x.relfilenode::int8 = c.relfilenode::int8 + 1",
            "x.relfilenode <> 0",
            CATALOGUE,
        ),
        (
            "a table that had another name for a moment",
            "snapshots/stamps_sql.py",
            "'type', t.xmin::text",
            "'type', '0'",
            CATALOGUE,
        ),
        (
            "a publication that was changed for a moment",
            "snapshots/stamps_sql.py",
            "concat_ws('/', p.oid, p.xmin, s.oid, s.xmin)",
            "p.pubname::text",
            CATALOGUE,
        ),
        (
            "one agent for each source",
            "agent/look.py",
            "if not self._reach.kept.watch():",
            "if False:",
            "tests/integration/elt/test_watching.py",
        ),
        (
            "transactions that were open then",
            "agent/rereads.py",
            "and not each.open\n",
            "\n",
            REREADS,
        ),
        (
            "another key",
            "snapshots/stamps.py",
            "if before.key is not None and before.key != now.key:",
            "if False:",
            UNIT,
        ),
        (
            "another replica identity for a moment",
            "snapshots/stamps_sql.py",
            "i.xmin::text",
            "'0'",
            CATALOGUE,
        ),
        (
            "a schema that had another name for a moment",
            "snapshots/stamps.py",
            "if before.away is not None and (now.away or 0) > before.away:",
            "if False:",
            CATALOGUE,
        ),
        (
            "a column that had another name for a moment",
            "snapshots/stamps_sql.py",
            "a.xmin::text",
            "'0'",
            CATALOGUE,
        ),
        (
            "a value that had another name for a moment",
            "snapshots/stamps_sql.py",
            "e.xmin::text",
            "'0'",
            CATALOGUE,
        ),
        (
            "what an entry says, which a grant changes",
            "snapshots/stamps.py",
            "and now.entries[entry][1] == says",
            "",
            UNIT,
        ),
        (
            "names that Debezium takes for quoted",
            "agent/seen.py",
            "if any('\"' in (name[0], name[-1])",
            "if False and any('\"' in (name[0], name[-1])",
            UNIT,
        ),
        (
            "names in which a line ends",
            "agent/seen.py",
            "if _LINE_ENDS.search(table.full_name):",
            "if False:",
            UNIT,
        ),
        (
            "two tables that are told by one name",
            "agent/seen.py",
            "if count > 1",
            "if False",
            UNIT,
        ),
        (
            "tables without columns",
            "agent/seen.py",
            "if all(column.generated for column in table.columns):",
            "if False:",
            UNIT,
        ),
        (
            "a partition that came and went",
            "snapshots/stamps.py",
            "elif before.past is not None and (now.past or 0) > before.past:",
            "elif False:",
            CATALOGUE,
        ),
        (
            "who has attached a partition that was noted",
            "snapshots/noted_sql.py",
            "AND i.inhparent = a.parent AND concat(i.xmin, i.ctid) = a.attached",
            "AND i.inhparent = a.parent",
            CATALOGUE,
        ),
        (
            "a column that came and went",
            "snapshots/stamps.py",
            "if set(now.dropped or ()) - known:",
            "if False:",
            UNIT,
        ),
        (
            "a default that VACUUM FULL has written into the rows",
            "snapshots/stamps.py",
            "elif before.file != now.file and",
            "elif False and",
            UNIT,
        ),
        (
            "changes that are told as another table's",
            "snapshots/stamps_sql.py",
            "WHEN c.relispartition AND EXISTS",
            "WHEN false AND EXISTS",
            CATALOGUE,
        ),
        ("which topic is followed", "snapshots/followed_sql.py", "past_topics = others.ids, ", "", EMPTIED),
        (
            "what landed of a topic that is no more",
            "snapshots/followed_sql.py",
            "    if has_landed(cur, table):\n        cur.execute(_LEAVE",
            "    if False:\n        cur.execute(_LEAVE",
            EMPTIED,
        ),
        (
            "what snapshots of a topic that is no more have seen",
            "snapshots/followed_sql.py",
            "cur.execute(_FORGET, table)",
            "pass",
            EMPTIED,
        ),
        (
            "what was parked of a topic that is no more",
            "snapshots/followed_sql.py",
            "parked_known = 0, ",
            "",
            EMPTIED,
        ),
        (
            "what was parked of a topic that is no more, in a rebuild",
            "setup/asked_sql.py",
            "AND t.topic_id <> ALL (m.past_topics))",
            ")",
            EMPTIED,
        ),
        (
            "a table whose topic is no more",
            "merge/merge_sql.py",
            "if position.clear_at is not None and position.clear_at <= position.next_offset:",
            "if False:",
            EMPTIED,
        ),
        (
            "that a table whose topic is no more had rows",
            "agent/rereads.py",
            "n in kept.merged or ",
            "",
            REREADS,
        ),
        (
            "identities of two logs in one merge",
            "merge/stage_sql.py",
            "PARTITION BY at >= %s, commit, ord",
            "PARTITION BY at >= 0 * %s, commit, ord",
            MERGE,
        ),
        (
            "identities of two logs",
            "merge/stage_sql.py",
            "(log_begins_at, 0) if start <= log else (None, log)",
            "(None, 0)",
            MERGE,
        ),
        (
            "the topic that is followed before anything came of it",
            "merge/state_sql.py",
            "topic_id = coalesce(%s, topic_id)",
            "topic_id = %s",
            EMPTIED,
        ),
        (
            "the topic of today, before a table is asked for",
            "agent/rereads.py",
            "self._kept.follow(ends)",
            "dict(ends)",
            REREADS,
        ),
        (
            "a table that landed and that the modeler does not know yet",
            "snapshots/followed_sql.py",
            "    if has_landed(cur, table):\n        cur.execute(_KNOW",
            "    if False:\n        cur.execute(_KNOW",
            EMPTIED,
        ),
        (
            "a topic that is made again while a table is emptied",
            "agent/rereads.py",
            "[name].topic_id != asked.topic:",
            "[name].topic_id is None:",
            REREADS,
        ),
        (
            "a partition that was attached again",
            "snapshots/stamps_sql.py",
            "concat(k.relfilenode, '/', t.attached)",
            "k.relfilenode::text",
            CATALOGUE,
        ),
        (
            "partitions whose root is not captured",
            "agent/source_sql.py",
            "c.relispartition AND EXISTS (",
            "c.relispartition OR EXISTS (",
            CATALOGUE,
        ),
        ("the case of names", "agent/connector.py", 'f"(?-i:{pattern})"', "pattern", UNIT),
        (
            "that a rebuild knows what comes again",
            "setup/asked_sql.py",
            "last_commit = CASE WHEN begins_at > coalesce(log_begins_at, 0) THEN last_commit END,",
            "last_commit = NULL,",
            EMPTIED,
        ),
        (
            "that a rebuild knows what its snapshot has seen",
            "setup/asked_sql.py",
            "AND r.start = m.begins_at",
            "AND false",
            EMPTIED,
        ),
        (
            "a table that comes back without rows",
            "snapshots/stamps.py",
            "        if had_rows:\n",
            "        if False:\n",
            REREADS,
        ),
        (
            "who reads the slot and is about to be replaced",
            "agent/rereads.py",
            "if reader == self._replaced:",
            "if False:",
            REREADS,
        ),
        (
            "sessions that have had the same number",
            "health/slot.py",
            'f"{self.pid}@{self.since}"',
            'f"{self.pid}"',
            REREADS,
        ),
        (
            "that a table cannot be emptied whose changes are trimmed",
            "agent/rereads.py",
            "if not self._kept.empty(name, asked.start, asked.token):",
            "if self._kept.empty(name, asked.start, asked.token) is None:",
            REREADS,
        ),
        (
            "up to where landing was searched before it is known what was seen",
            "agent/rereads.py",
            "has_end, self._searched[at] = self._kept",
            "has_end, _ = self._kept",
            REREADS,
        ),
        (
            "a snapshot's end that landed before its message",
            "agent/rereads.py",
            "self._ended |= {at} if has_end else set()",
            "self._ended = {at} if has_end and not asked.token else set()",
            REREADS,
        ),
        (
            "that a connector is helped only while it sends nothing",
            "health/slot_watch.py",
            "or moved is None or now < moved + _LOST_SECONDS",
            "",
            SLOT,
        ),
        (
            "that a connector is helped now and then",
            "health/slot_watch.py",
            "max(self._reads_since + _LOST_SECONDS, self._helped_at + _HELP_SECONDS)",
            "self._reads_since + _LOST_SECONDS",
            SLOT,
        ),
        (
            "a snapshot of one row behind one that was cut off",
            "merge/stage_sql.py",
            "            OR is_going_on IS NOT TRUE))",
            "            OR is_going_on IS NULL AND false))",
            ONE_ROW,
        ),
        (
            "that a whole snapshot stands behind one that was cut off",
            "merge/merge_sql.py",
            "if self.topic_id is None or not superseded_sql.pass_over(",
            "if True or not superseded_sql.pass_over(",
            CUT_OFF,
        ),
        (
            "that what is passed over is not for another one that was cut off",
            "merge/superseded_sql.py",
            "if snapshot is not None and not table.key and not seen_sql.is_told(",
            "if False and not seen_sql.is_told(",
            CUT_OFF,
        ),
        (
            "that what came before a table was emptied may come again",
            "merge/state_sql.py",
            "position.next_offset, position.log_begins_at\n",
            "position.next_offset, position.clear_at\n",
            EMPTIED,
        ),
    )
)

SLOW: Final = _silent(
    (
        (
            "a landing table is asked for by its name in quotes",
            "snapshots/followed_sql.py",
            "(_landing(table).as_string(cur),)",
            """(f'{change_table.SCHEMA}."{change_table.name_of(*table)}"',)""",
            "tests/integration/capture/test_names.py",
        ),
        (
            "settings of the connector's sessions",
            "agent/connector.py",
            '        "driver.options": _SESSION,\n',
            "",
            "tests/integration/capture/test_types.py",
        ),
        (
            "a first snapshot that is taken once more",
            "agent/look.py",
            "if there is not None and self._rereads.has_forgotten(seen.slot, streams=kept.streams):",
            "if False:",
            f"{_CAPTURE}kafka_connect_has_forgotten_a_source_whose_slot_is_there",
        ),
        (
            "that what is excluded is kept before it is so",
            "agent/look.py",
            "self._rereads.leave(seen, kept)",
            "pass",
            EXCLUDED,
        ),
        (
            "values of enumerations",
            "snapshots/stamps_sql.py",
            "SELECT e.oid, e.enumlabel::text AS label",
            "SELECT e.oid, '' AS label",
            CHANGES,
        ),
        (
            "files of partitions",
            "snapshots/stamps_sql.py",
            "concat(k.relfilenode, ",
            "concat(",
            CHANGES,
        ),
        (
            "which columns are generated",
            "snapshots/stamps_sql.py",
            "'generated', (SELECT jsonb_agg(a.attnum)",
            "'generated', (SELECT jsonb_agg(a.attnum) FILTER (WHERE false)",
            CHANGES,
        ),
        (
            "rows of tables that were excluded",
            "agent/rereads.py",
            "had_rows = ends.get((table.schema, table.name), 0) > 0",
            "had_rows = False",
            EXCLUDED,
        ),
        (
            "rows of a source that was removed",
            "agent/look.py",
            "if kept.tables is None and not connect.offsets(connector):",
            "if False:",
            REMOVED,
        ),
        (
            "attributes of composites",
            "snapshots/stamps_sql.py",
            "WHERE t.typtype = 'c'",
            "WHERE false",
            CHANGES,
        ),
        (
            "a schema that has another name for a while",
            "agent/look.py",
            "if seen.lacks_schema and kept.tables:",
            "if False:",
            "tests/integration/capture/test_gaps.py::test_a_schema_that_has_another_name_for_a_while",
        ),
        (
            "a source that Kafka Connect has forgotten",
            "agent/look.py",
            "self._reach.kept.keep_tables({}, kept.rereads)",
            "pass",
            f"{_CAPTURE}kafka_connect_has_forgotten_a_source_whose_slot_is_there",
        ),
        (
            "what was not published",
            "snapshots/stamps.py",
            "if before.published and before.published != now.published:",
            "if False:",
            UNPUBLISHED,
        ),
        (
            "a Kafka Connect that starts and knows nothing yet",
            "agent/connect_api.py",
            '            self._send("GET", "/health")\n',
            "            return None\n",
            f"{_CAPTURE}a_kafka_connect_that_starts_has_forgotten_nothing",
        ),
        (
            "how strings are read at the source",
            "../../shared/postgres/connect.py",
            '    "standard_conforming_strings=on",\n',
            "",
            "tests/integration/capture/test_odd_databases.py",
        ),
        ("rows that policies hide", "snapshots/stamps_sql.py", "row_security_active(c.oid)", "false", OUT),
        (
            "tables that others inherit from",
            "snapshots/stamps_sql.py",
            "c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits",
            "false AND EXISTS (SELECT FROM pg_inherits",
            OUT,
        ),
        (
            "partitions of which the log has nothing",
            "snapshots/stamps_sql.py",
            "k.relkind = 'f' OR (k.relkind <> 'p' AND k.relpersistence <> 'p')",
            "false",
            OUT,
        ),
        (
            "a connector that looks for its place where nobody writes",
            "agent/look.py",
            "if self._slot.is_lost(seen.slot):",
            "if False:",
            IDLE,
        ),
    )
)

if __name__ == "__main__":
    run("services/elt", QUICK, SLOW)
