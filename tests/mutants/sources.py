"""`python -m tests.mutants.sources`: what keeps captured changes whole, and the tests that hold each."""

from typing import Final

from tests.mutants.machine import Mutant, run

CAPTURE: Final = "tests/integration/capture/test_capture.py"
WAL: Final = "tests/integration/capture/test_wal.py"
EVERY_KIND: Final = f"{CAPTURE}::test_every_kind_of_change_reaches_the_topic_with_its_envelope_and_identity"
BUDGET: Final = f"{WAL}::test_at_the_budget_the_slot_goes_and_a_resync_brings_everything_back"
POLICED: Final = "tests/integration/capture/test_topics.py"
RESYNCED: Final = (
    "tests/integration/capture/test_published.py"
    "::test_after_the_budget_and_a_resync_public_tables_are_what_the_source_has"
)
KILLED: Final = (
    "tests/integration/capture/test_published.py"
    "::test_a_table_is_read_again_although_kafka_connect_is_killed_amid_it"
)
OLD_CHANGES: Final = (
    "tests/integration/capture/test_published.py::test_old_changes_do_not_undo_what_no_event_says"
)
AGAIN: Final = "tests/integration/capture/test_read_again.py::test_"
END: Final = "tests/integration/elt/test_snapshots_end.py"
SECURED: Final = "tests/integration/tls/test_sources.py::test_a_change_becomes_a_record_and_signals_arrive"
REFUSED: Final = "tests/integration/tls/test_sources.py::test_what_the_agent_may_not_set_on_a_topic_is_told"
OVERDUE: Final = "tests/unit/elt/test_overdue.py"
SLOT: Final = "tests/unit/elt/test_slot.py"
TAKEN: Final = "tests/integration/capture/test_slot.py"
REREADS: Final = "tests/unit/elt/test_rereads.py"
LEFT_ALONE: Final = "tests/integration/capture/test_left_alone.py::test_"
AMBIGUOUS: Final = (
    "tests/integration/capture/test_types.py"
    "::test_a_table_with_a_type_that_may_be_taken_for_another_one_stays_out"
)
TYPES: Final = "tests/unit/elt/test_column_types.py"
EACH_TYPE: Final = (
    "tests/integration/capture/test_types.py::test_each_type_comes_out_as_it_is_from_snapshot_and_stream"
)
REFUSED_TYPES: Final = (
    "tests/integration/capture/test_types.py::test_a_column_of_a_type_whose_changes_tell_too_little_is_named"
)
UNIT: Final = "tests/unit/elt/test_connector.py"

QUICK: Final = (
    Mutant(
        "partitions' own names",
        "connector.py",
        "for t in seen.tables if t.is_partition",
        "for t in ()",
        tests=UNIT,
    ),
    Mutant(
        "many topics: where a source's end is known in time",
        "kafka_topics.py",
        "            consumer.assign(asked)\n            ends",
        "            ends",
        "tests/integration/admin/test_many_topics.py::test_where_the_topics_of_a_source_of_many_tables_end",
    ),
    Mutant("commas in names", "connector.py", "c if c in _PLAIN else", "c if True else", tests=UNIT),
    Mutant(
        "topics that Kafka takes for the same",
        "seen.py",
        'topics[_topic(table).replace(".", "_")]',
        "topics[_topic(table)]",
        tests=UNIT,
    ),
    Mutant(
        "reading again: not before Kafka has what came before",
        "rereads.py",
        " and each.after <= slot.confirmed",
        "",
        tests=REREADS,
    ),
    Mutant(
        "reading again what another was asked for",
        "rereads.py",
        "if not (each.is_asked and each.reader == reader)",
        "if not each.is_asked",
        tests=REREADS,
    ),
    Mutant(
        "reading again: who listens already",
        "rereads.py",
        "if not offsets or lsn == self._moved_from[1]:",
        "if not offsets:",
        tests=REREADS,
    ),
    Mutant(
        "reading again one after the other",
        "rereads.py",
        "(snapshot == ASKED_FOR and not is_busy)",
        "snapshot == ASKED_FOR",
        tests=REREADS,
    ),
    Mutant(
        "a column with another name",
        "../snapshots/stamps.py",
        "elif old[0] != name:",
        "elif False:",
        tests=UNIT,
    ),
    Mutant(
        "what moved while our connector did not read",
        "../health/slot.py",
        "self.last is not Reader.OWN and slot.confirmed > self.own",
        "False",
        tests=SLOT,
    ),
    Mutant(
        "what our connector can have confirmed itself",
        "../health/slot.py",
        "if not own or reader is Reader.OWN or",
        "if False and",
        tests=SLOT,
    ),
    Mutant(
        "what Kafka Connect says that it sent",
        "../health/slot_watch.py",
        "        if upto >= slot.confirmed:",
        "        if False:",
        tests=SLOT,
    ),
    Mutant(
        "types: what is a text's bytes",
        "../merge/column_types.py",
        '_HEX_OF_TEXT if own["kind"] else _PLAIN',
        "_PLAIN",
        tests=TYPES,
    ),
    Mutant(
        "types: an enumeration's texts are no bytes",
        "../merge/column_types.py",
        '_HEX_OF_TEXT if own["kind"] else _PLAIN',
        "_HEX_OF_TEXT",
        tests=TYPES,
    ),
    Mutant(
        "types: arrays of which nothing is said",
        "../merge/column_types.py",
        'of.replace("(", " ").split(" ")[0] in _REFUSED_IN_ARRAYS',
        "False",
        tests=TYPES,
    ),
    Mutant(
        "types: that check warns of an array that says NULL when it is left alone",
        "../setup/check_sql.py",
        "        if is_silent(column.type):\n",
        "        if False:\n",
        tests="tests/unit/elt/test_check.py",
    ),
    Mutant(
        "reading again: that it is known what a snapshot without a key has seen",
        "rereads.py",
        "if had_rows is None or at not in self._ended:",
        "if at not in self._ended:",
        tests=REREADS,
    ),
    Mutant(
        "reading again: that a snapshot without a key tells what it has seen",
        "rereads.py",
        "for name in wanted if not captured[name].key}",
        "for name in ()}",
        tests=REREADS,
    ),
    Mutant(
        "reading again: that a table without rows has no last one",
        "rereads.py",
        "and not self._may_have_rows(table, asked, had_rows):",
        "and False:",
        tests=REREADS,
    ),
    Mutant(
        "reading again: that the snapshot itself had no rows where there is no key",
        "rereads.py",
        "return had_rows if asked.token else",
        "return had_rows if not had_rows else",
        tests=REREADS,
    ),
    Mutant(
        "reading again: what came since a table was emptied",
        "../snapshots/rereads_sql.py",
        "clear_at = %(start)s, next_offset = least(next_offset, %(start)s),",
        "clear_at = %(start)s,",
        tests="tests/integration/elt/test_emptied.py",
    ),
    Mutant(
        "reading again: that what came since is there to empty a table",
        "../snapshots/rereads_sql.py",
        "SELECT coalesce(trimmed_to, 0) > %(start)s",
        "SELECT false",
        tests="tests/integration/elt/test_emptied.py",
    ),
    Mutant(
        "reading again: messages of what was asked for before",
        "rereads.py",
        "messages = each.messages if each.token else end",
        "messages = end",
        tests=REREADS,
    ),
    Mutant(
        "reading again: names that are no regular expressions",
        "seen.py",
        "if not (table.key or takes(table.full_name)):",
        "if False:",
        tests="tests/unit/elt/test_connector.py",
    ),
    Mutant(
        "reading again: a snapshot that has failed",
        "rereads.py",
        "return self._unless_overdue(table, asked, seen)",
        "return asked",
        tests=REREADS,
    ),
    Mutant(
        "reading again: that one which is taken stands still in the log",
        "../snapshots/overdue.py",
        "        if confirmed < asked.log_end:\n",
        "        if False:\n",
        tests=REREADS,
    ),
    Mutant(
        "reading again: that all of what was sent has landed before it has failed",
        "../snapshots/overdue.py",
        "if landed < asked.topic_end or ",
        "if ",
        tests=REREADS,
    ),
    Mutant(
        "reading again: that one before it may be on its way",
        "../snapshots/overdue.py",
        " or self._clock() < asked.passed + wait",
        "",
        tests=OVERDUE,
    ),
    Mutant(
        "reading again: that others wait from the beginning when one has come",
        "../snapshots/overdue.py",
        "        self._asked = {other: _Asked(self._clock()) for other in self._asked}\n",
        "",
        tests=OVERDUE,
    ),
    Mutant(
        "reading again: that a table which cannot be asked keeps no other waiting",
        "rereads.py",
        "            except SourceError as error:\n",
        "            except ZeroDivisionError as error:\n",
        tests=REREADS,
    ),
    Mutant(
        "reading again: that a locked table is no empty one",
        "rereads.py",
        "        except SourceError:  # locked",
        "        except ZeroDivisionError:  # locked",
        tests=REREADS,
    ),
    Mutant(
        "reading again: what the snapshot of an empty table has seen",
        "../snapshots/rereads_sql.py",
        "            WHERE source = %(source)s AND token = %(token)s)\n",
        "            WHERE source = %(source)s AND token = %(token)s AND false)\n",
        tests="tests/integration/elt/test_emptied.py",
    ),
    Mutant(
        "reading again: that a rebuild does not bring back what was emptied",
        "../setup/asked_sql.py",
        "next_offset = begins_at, clear_at = begins_at",
        "next_offset = 0, clear_at = 0",
        tests="tests/integration/elt/test_emptied.py",
    ),
    Mutant(
        "reading again: that a resync forgets what was seen",
        "../snapshots/rereads_sql.py",
        "        seen = NULL, seen_before = NULL\n",
        "        drops = drops\n",
        tests="tests/integration/elt/test_emptied.py",
    ),
    Mutant(
        "reading again: messages of others",
        "../snapshots/telling.py",
        "except (ValueError, KeyError, TypeError, AttributeError):",
        "except ZeroDivisionError:",
        tests=REREADS,
    ),
    Mutant("a session that keeps ours out", "../health/slot.py", " and slot.pid != other", "", tests=SLOT),
    Mutant(
        "that amid a first snapshot no heartbeats come",
        "../health/slot_watch.py",
        "if self._moved_at is None or self._streams_since is None:",
        "if self._moved_at is None:",
        tests=SLOT,
    ),
    Mutant(
        "that no heartbeat came amid a first snapshot",
        "../health/slot_watch.py",
        "max(self._moved_at, self._streams_since)",
        "self._moved_at",
        tests=SLOT,
    ),
    Mutant(
        "that amid a first snapshot there is no age of before",
        "metrics.py",
        'self.heartbeat_age.remove_by_labels({"source": source})\n        else',
        "pass\n        else",
        tests="tests/unit/elt/test_watch.py",
    ),
    Mutant(
        "that what only grows is no news for the log",
        "seen.py",
        "_AMOUNT.sub('', self.reason)",
        "self.reason",
        tests="tests/unit/elt/test_watch.py",
    ),
    Mutant(
        "where to look when nothing comes",
        "../health/slot_watch.py",
        "if age is None or age <= _SILENT_SECONDS:",
        "if True:",
        tests=SLOT,
    ),
)
SLOW: Final = (
    Mutant(
        "reading again: columns whose rows had a default that is gone",
        "../snapshots/stamps_sql.py",
        "a.atthasdef OR a.atthasmissing OR a.attnotnull OR ",
        "a.atthasdef OR ",
        tests=f"{AGAIN}a_snapshot_whose_session_ends_amid_it_is_asked_for_again",
    ),
    Mutant(
        "reading again: one that fails",
        "rereads.py",
        "return self._unless_overdue(table, asked, seen)",
        "return asked",
        tests=f"{AGAIN}a_snapshot_whose_session_ends_amid_it_is_asked_for_again",
    ),
    Mutant(
        "reading again: what comes while a table without a key is read",
        "../merge/merge_sql.py",
        "        if not self.table.key:\n            seen =",
        "        if False:\n            seen =",
        tests="tests/integration/capture/test_read_again.py",
    ),
    Mutant(
        "what check says of generated columns",
        "../setup/check_sql.py",
        "            if conn.server_version >= _REFUSES_GENERATED:\n",
        "            if False:\n",
        tests=f"{CAPTURE}::test_check_tells_of_what_postgres_refuses_once_it_is_published",
    ),
    Mutant(
        "types: NULL in a column that has a default",
        "connector.py",
        '        "value.converter.replace.null.with.default": "false",\n',
        "",
        tests=f"{LEFT_ALONE}null_is_null_where_a_column_has_a_default",
    ),
    Mutant(
        "types: an array that says NULL when it is left alone",
        "../merge/column_types.py",
        'element.partition("(")[0] not in _TOLD_IN_ARRAYS',
        "False",
        tests=f"{LEFT_ALONE}a_large_value_that_an_update_leaves_alone_is_told_to_be_so_or_its_type_is_known_to_be_silent",
    ),
    Mutant(
        "types: an array that may not be NULL and says so",
        "seen.py",
        "if c.not_null and not c.generated and is_silent(c.type)]",
        "if False]",
        tests=f"{LEFT_ALONE}a_table_whose_update_would_fail_the_whole_source_stays_out",
    ),
    Mutant(
        "types: two of one name",
        "source_sql.py",
        "(o.typtype, o.typbasetype) <> (its.typtype, its.typbasetype)",
        "false",
        tests=AMBIGUOUS,
    ),
    Mutant(
        "types: names of extensions' types",
        "source_sql.py",
        "own.typname IN ({_OF_EXTENSIONS}) OR e.typname IN ({_OF_EXTENSIONS})",
        "false",
        tests=REFUSED_TYPES,
    ),
    Mutant(
        "another reader of the slot",
        "look.py",
        "        if taken := self._slot.taken(seen.slot):",
        '        if taken := "":',
        tests=f"{TAKEN}::test_a_slot_that_somebody_else_reads_is_told_and_what_he_took_is_a_gap",
    ),
    Mutant(
        "a slot whose WAL the server removed",
        "look.py",
        "        if slot.is_lost:",
        "        if False:",
        tests=f"{TAKEN}::test_a_slot_whose_wal_the_server_removed_is_told_and_a_resync_heals_it",
    ),
    Mutant(
        "few rows a fetch",
        "connector.py",
        '        "snapshot.fetch.size": str(_FETCHED_ROWS),\n',
        "",
        tests="tests/integration/capture/test_large_rows.py::test_a_snapshot_of_rows_of_a_megabyte_ends_no_worker",
    ),
    Mutant(
        "types: months of intervals",
        "connector.py",
        '"interval.handling.mode": "string"',
        '"interval.handling.mode": "numeric"',
        tests=EACH_TYPE,
    ),
    Mutant(
        "types: cursors",
        "seen.py",
        'if column.type == "refcursor"]',
        "if False]",
        tests=f"{CAPTURE}::test_tables_that_would_fail_the_source_stay_out_and_the_others_flow",
    ),
    Mutant(
        "types: NULL in arrays of enumerations",
        "../setup/check_sql.py",
        'if "." in type_ and',
        "if False and",
        tests=f"{CAPTURE}::test_check_tells_what_fails_the_application_and_what_comes_out_wrong",
    ),
    Mutant(
        "types: what a domain is over",
        "source_sql.py",
        "WHERE own.typtype = 'd'",
        "WHERE false",
        tests=EACH_TYPE,
    ),
    Mutant(
        "types: those of extensions",
        "source_sql.py",
        "ELSE ' (opaque)' END",
        "ELSE '' END",
        tests=REFUSED_TYPES,
    ),
    Mutant(
        "TRUNCATE",
        "connector.py",
        '"skipped.operations": "none"',
        '"skipped.operations": "t"',
        tests=EVERY_KIND,
    ),
    Mutant(
        "generated columns",
        "connector.py",
        '**_listed("column.exclude.list", _generated(seen.tables)),',
        "",
        tests=EVERY_KIND,
    ),
    Mutant("the context header", "connector.py", '"transforms": "context",', "", tests=EVERY_KIND),
    Mutant(
        "changes' identity",
        "connector.py",
        '"provide.transaction.metadata": "true"',
        '"provide.transaction.metadata": "false"',
        tests=EVERY_KIND,
    ),
    Mutant(
        "the delimiter",
        "names.py",
        'DELIMITER: Final = "-"',
        'DELIMITER: Final = "."',
        tests=f"{CAPTURE}::test_names_that_collide_when_dots_part_them_are_two_topics",
    ),
    Mutant(
        "heartbeats that write",
        "connector.py",
        '"heartbeat.action.query":',
        '"heartbeat.action.unknown":',
        tests=f"{WAL}::test_heartbeats_free_what_other_databases_write",
    ),
    Mutant(
        "the mark",
        "look.py",
        "if kept.out_of_sync_at is None and (why := self._why_out_of_sync(seen)):",
        "if why := '':",
        tests=BUDGET,
    ),
    Mutant(
        "freeing WAL while Connect is away",
        "look.py",
        "except ConnectError as error:\n            trouble",
        "except KeyError as error:\n            trouble",
        tests=BUDGET,
    ),
    Mutant(
        "a worker that comes back is stopped",
        "look.py",
        "self._reach.connect.stop(connector)\n        return status",
        "pass\n        return status",
        tests=BUDGET,
    ),
    Mutant(
        "a snapshot at a resync",
        "look.py",
        "self._reach.connect.delete_offsets(names.connector(self._name))",
        "pass",
        tests=BUDGET,
    ),
    Mutant(
        "a slot that is gone",
        "look.py",
        'return "its slot is gone" if lost else ""',
        'return ""',
        tests=f"{WAL}::test_a_slot_that_somebody_dropped_is_no_silent_gap",
    ),
    Mutant(
        "reading again",
        "rereads.py",
        "self._topics.read_again(self._name, signals)",
        "pass",
        tests=f"{CAPTURE}::test_rows_that_changed_without_an_event_are_read_again",
    ),
    Mutant(
        "reading again: not before Kafka has old changes",
        "rereads.py",
        " and each.after <= slot.confirmed",
        "",
        tests=OLD_CHANGES,
    ),
    Mutant(
        "reading again what was cut off",
        "rereads.py",
        "if not (each.is_asked and each.reader == reader)",
        "if not each.is_asked",
        tests=KILLED,
    ),
    Mutant(
        "reading again what was asked for until its end has landed",
        "rereads.py",
        "if name in captured and (left := self._left(captured[name], each, seen)) is not None",
        "if name in captured and (left := each) is not None and not each.is_asked",
        tests=KILLED,
    ),
    Mutant(
        "signals that Debezium says at once it has taken",
        "connector.py",
        '"signal.consumer.enable.auto.commit": "true"',
        '"signal.consumer.enable.auto.commit": "false"',
        tests=KILLED,
    ),
    Mutant(
        "reading again: the end that has landed",
        "../snapshots/rereads_sql.py",
        "return bool(is_there), ",
        "return False, ",
        tests=END,
    ),
    Mutant(
        "reading again: a row of the snapshot itself",
        "../snapshots/rereads_sql.py",
        "bool_or(change ->> 'op' = 'r'",
        "bool_or(change ->> 'op' <> 'x'",
        tests=END,
    ),
    Mutant(
        "signals from Kafka behind TLS",
        "connector.py",
        '**{f"signal.consumer.{key}": value for key, value in self.brokers.security.connect().items()},',
        "",
        tests=SECURED,
    ),
    Mutant(
        "telling of a source that is out",
        "look.py",
        "self._show_if_possible(shown, error)",
        "pass",
        tests="tests/integration/capture/test_agent.py::test_a_source_that_is_out_is_told_and_the_others_flow",
    ),
    Mutant(
        "the alarm while Kafka Connect is away",
        "look.py",
        "if slot is not None and slot.retained_bytes >= self._source.wal_alarm_bytes:",
        "if slot is not None and slot.active and slot.retained_bytes >= self._source.wal_alarm_bytes:",
        tests=RESYNCED,
    ),
    Mutant(
        "public tables that begin empty at a resync",
        "../snapshots/rereads_sql.py",
        "cur.execute(_CLEAR, {",
        "_ = (_CLEAR, {",
        tests=RESYNCED,
    ),
    Mutant(
        "offsets that outlive a connector",
        "look.py",
        "            connect.delete_offsets(connector)\n",
        "",
        tests=f"{CAPTURE}::test_a_removed_source_leaves_no_slot_no_connector_and_no_offsets",
    ),
    Mutant(
        "policing what topics keep",
        "kafka_topics.py",
        "for done in await admin.alter_configs([resource]):",
        "for done in ():",
        tests=POLICED,
    ),
    Mutant(
        "policing of partitions",
        "kafka_topics.py",
        "if topics[name] != 1",
        "if topics[name] < 1",
        tests=POLICED,
    ),
    Mutant(
        "policing that a longer retention passes",
        "kafka_topics.py",
        "and (kept == -1 or 0 <= must <= kept)",
        "and must == kept",
        tests=POLICED,
    ),
    Mutant(
        "policing: what Kafka refuses to set",
        "kafka_topics.py",
        "if refused:",
        "if False:",
        tests=REFUSED,
    ),
    Mutant(
        "policing: what Kafka refuses to tell",
        "kafka_topics.py",
        "if code:\n                    yield",
        "if False:\n                    yield",
        tests=REFUSED,
    ),
)

if __name__ == "__main__":
    run("services/elt/agent", QUICK, SLOW)
