"""Mutants: the agent re-snapshots a table whose rows changed unseen, and bounds the WAL."""

from typing import Final

from tests.mutants.machine import Mutant

MUTANTS: Final = (
    Mutant(
        "re-snapshot: not before Kafka has what came before",
        "services/cdc/agent/resnapshots.py",
        " and each.after <= slot.confirmed",
        "",
        "tests/unit/cdc/test_resnapshots.py",
    ),
    Mutant(
        "re-snapshot: that it is known what a snapshot without a key has seen",
        "services/cdc/agent/resnapshots.py",
        "if had_rows is None or at not in self._ended:",
        "if at not in self._ended:",
        "tests/unit/cdc/test_resnapshots.py",
    ),
    Mutant(
        "re-snapshot: a snapshot that has failed",
        "services/cdc/agent/resnapshots.py",
        "return self._unless_timed_out(table, pending, source_state)",
        "return pending",
        "tests/unit/cdc/test_resnapshots.py",
    ),
    Mutant(
        "re-snapshot: that a locked table is no empty one",
        "services/cdc/agent/resnapshots.py",
        "        except SourceError:  # locked",
        "        except ZeroDivisionError:  # locked",
        "tests/unit/cdc/test_resnapshots.py",
    ),
    Mutant(
        "re-snapshot: that a resync forgets what was seen",
        "services/cdc/change_detection/resnapshots_sql.py",
        "        snapshot = NULL, snapshot_before = NULL\n",
        "        drops = drops\n",
        "tests/integration/cdc/test_emptied.py",
    ),
    Mutant(
        "re-snapshot: what comes while a table without a key is read",
        "services/cdc/merge/table_merge.py",
        "        if not self.table.key:\n            visibility =",
        "        if False:\n            visibility =",
        "tests/integration/capture/test_resnapshots.py",
    ),
    Mutant(
        "another reader of the slot",
        "services/cdc/agent/reconcile.py",
        "        if program := self._slot.other_program(source_state.slot):",
        '        if program := "":',
        (
            "tests/integration/capture/"
            "test_slot.py::test_slot_read_by_another_client_is_reported_and_the_consumed_changes_are_a_gap"
        ),
    ),
    Mutant(
        "a slot whose WAL the server removed",
        "services/cdc/health/out_of_sync.py",
        "        if slot.is_lost:",
        "        if False:",
        "tests/unit/cdc/test_reconcile.py",
    ),
    Mutant(
        "TRUNCATE",
        "services/cdc/agent/connector.py",
        '"skipped.operations": "none"',
        '"skipped.operations": "t"',
        (
            "tests/integration/capture/"
            "test_capture.py::test_every_kind_of_change_reaches_the_topic_with_its_envelope_a"
            "nd_identity"
        ),
    ),
    Mutant(
        "the context header",
        "services/cdc/agent/connector.py",
        '"transforms": "context",',
        "",
        (
            "tests/integration/capture/"
            "test_capture.py::test_every_kind_of_change_reaches_the_topic_with_its_envelope_a"
            "nd_identity"
        ),
    ),
    Mutant(
        "changes' identity",
        "services/cdc/agent/connector.py",
        '"provide.transaction.metadata": "true"',
        '"provide.transaction.metadata": "false"',
        (
            "tests/integration/capture/"
            "test_capture.py::test_every_kind_of_change_reaches_the_topic_with_its_envelope_a"
            "nd_identity"
        ),
    ),
    Mutant(
        "heartbeats that write",
        "services/cdc/agent/connector.py",
        '"heartbeat.action.query":',
        '"heartbeat.action.unknown":',
        "tests/integration/capture/test_wal.py::test_heartbeats_free_what_other_databases_write",
    ),
    Mutant(
        "the mark",
        "services/cdc/agent/reconcile.py",
        "stored_state = self._mark(gap)",
        "pass",
        (
            "tests/integration/capture/"
            "test_wal.py::test_at_the_budget_the_slot_goes_and_a_resync_brings_everything_back"
        ),
    ),
    Mutant(
        "freeing WAL while Connect is away",
        "services/cdc/agent/reconcile.py",
        "except ConnectError as error:\n            trouble",
        "except KeyError as error:\n            trouble",
        (
            "tests/integration/capture/"
            "test_wal.py::test_at_the_budget_the_slot_goes_and_a_resync_brings_everything_back"
        ),
    ),
    Mutant(
        "a snapshot at a resync",
        "services/cdc/agent/reconcile.py",
        "self._reach.connect.delete_offsets(names.connector(self._name))",
        "pass",
        (
            "tests/integration/capture/"
            "test_wal.py::test_at_the_budget_the_slot_goes_and_a_resync_brings_everything_back"
        ),
    ),
    Mutant(
        "a slot that is gone",
        "services/cdc/health/out_of_sync.py",
        "return Gap(why, starts_again=in_first_snapshot)",
        "return None",
        "tests/unit/cdc/test_reconcile.py",
    ),
    Mutant(
        "a slot that is made between two readings",
        "services/cdc/health/out_of_sync.py",
        "is_gone = self._readings.slot() is None",
        "is_gone = True",
        "tests/unit/cdc/test_reconcile.py",
    ),
    Mutant(
        "a slot that is wrong in two readings",
        "services/cdc/health/out_of_sync.py",
        "again = self._readings.slot()",
        "again = slot",
        "tests/unit/cdc/test_reconcile.py",
    ),
    Mutant(
        "a source that a lost registry does not name",
        "services/cdc/agent/watch.py",
        '        if self._registry.has_removed("sources", name):',
        "        if name:",
        "tests/unit/cdc/test_watch.py",
    ),
    Mutant(
        "the indicator of the catalogue",
        "services/cdc/agent/source_sql.py",
        "known.indicator == indicator",
        "known.indicator",
        "tests/integration/cdc/test_indicator.py",
    ),
    Mutant(
        "re-snapshot",
        "services/cdc/agent/resnapshots.py",
        "self._topics.read_again(self._name, signals)",
        "pass",
        "tests/integration/capture/test_capture.py::test_rows_that_changed_without_an_event_are_read_again",
    ),
    Mutant(
        "re-snapshot: not before Kafka has old changes",
        "services/cdc/agent/resnapshots.py",
        " and each.after <= slot.confirmed",
        "",
        "tests/integration/capture/test_published.py::test_old_changes_do_not_undo_what_no_event_says",
    ),
    Mutant(
        "re-snapshot what was cut off",
        "services/cdc/agent/resnapshots.py",
        "if not (each.is_requested and each.reader == reader)",
        "if not each.is_requested",
        (
            "tests/integration/capture/"
            "test_published.py::test_a_table_is_read_again_although_kafka_connect_is_killed_amid_it"
        ),
    ),
    Mutant(
        "re-snapshot: a row of the snapshot itself",
        "services/cdc/change_detection/resnapshots_sql.py",
        "bool_or(change ->> 'op' = 'r'",
        "bool_or(change ->> 'op' <> 'x'",
        "tests/integration/cdc/test_snapshots_end.py",
    ),
    Mutant(
        "public tables that begin empty at a resync",
        "services/cdc/change_detection/resnapshots_sql.py",
        "cur.execute(_CLEAR, {",
        "_ = (_CLEAR, {",
        (
            "tests/integration/capture/"
            "test_published.py::test_after_the_budget_and_a_resync_public_tables_are_what_the"
            "_source_has"
        ),
    ),
    Mutant(
        "offsets that outlive a connector",
        "services/cdc/agent/reconcile.py",
        "            connect.delete_offsets(connector)\n",
        "",
        (
            "tests/integration/capture/"
            "test_capture.py::test_a_removed_source_leaves_no_slot_no_connector_and_no_offsets"
        ),
    ),
    Mutant(
        "an index's INCLUDE tells no row",
        "services/cdc/change_detection/identity_sql.py",
        "WHERE k.place <= i.indnkeyatts",
        "",
        "tests/integration/cdc/test_catalogue.py::test_table_key_is_an_immediately_unique_index_or_absent",
    ),
    Mutant(
        "a partition that was truncated",
        "services/cdc/change_detection/table_fingerprint.py",
        "if any(now.files",
        "if False and any(now.files",
        "tests/unit/cdc/test_connector.py",
    ),
    Mutant(
        "a table that ALTER TABLE rewrites",
        "services/cdc/change_detection/table_fingerprint.py",
        "return before.toast != now.toast",
        "return False",
        "tests/unit/cdc/test_connector.py",
    ),
    Mutant(
        "a TRUNCATE, by the files that it makes",
        "services/cdc/change_detection/table_fingerprint_sql.py",
        "x.relfilenode::int8 = c.relfilenode::int8 + 1",
        "x.relfilenode <> 0",
        "tests/integration/cdc/test_catalogue.py",
    ),
    Mutant(
        "one agent for each source",
        "services/cdc/agent/reconcile.py",
        "if not self._reach.store.watch():",
        "if False:",
        "tests/integration/cdc/test_agent_lock.py",
    ),
    Mutant(
        "transactions that were open then",
        "services/cdc/agent/resnapshots.py",
        "and not each.open\n",
        "\n",
        "tests/unit/cdc/test_resnapshots.py",
    ),
    Mutant(
        "another key",
        "services/cdc/change_detection/table_fingerprint.py",
        "if before.key is not None and before.key != now.key:",
        "if False:",
        "tests/unit/cdc/test_connector.py",
    ),
    Mutant(
        "what landed of a topic that is no more",
        "services/cdc/change_detection/topic_generation_sql.py",
        "if cur.rowcount and has_landed(cur, table):",
        "if False:",
        "tests/integration/cdc/test_emptied.py",
    ),
    Mutant(
        "identities of two logs in one merge",
        "services/cdc/merge/stage_sql.py",
        "PARTITION BY at >= %s, commit, ord",
        "PARTITION BY at >= 0 * %s, commit, ord",
        "tests/integration/cdc/test_merge.py",
    ),
    Mutant(
        "a table that comes back without rows",
        "services/cdc/change_detection/table_fingerprint.py",
        "        if had_rows:\n",
        "        if False:\n",
        "tests/unit/cdc/test_resnapshots.py",
    ),
    Mutant(
        "a snapshot's end that landed before its message",
        "services/cdc/agent/resnapshots.py",
        "self._ended |= {at} if has_end else set()",
        "self._ended = {at} if has_end and not asked.token else set()",
        "tests/unit/cdc/test_resnapshots.py",
    ),
    Mutant(
        "a first snapshot that is taken once more",
        "services/cdc/agent/reconcile.py",
        "if there is not None and self._resnapshots.has_forgotten(",
        "if False and self._resnapshots.has_forgotten(",
        (
            "tests/integration/capture/"
            "test_changes_without_events.py::test_kafka_connect_has_forgotten_a_source_whose_slot_is_there"
        ),
    ),
    Mutant(
        "a source that Kafka Connect has forgotten",
        "services/cdc/agent/reconcile.py",
        "self._reach.store.save_tables({}, stored_state.resnapshots)",
        "pass",
        (
            "tests/integration/capture/"
            "test_changes_without_events.py::test_kafka_connect_has_forgotten_a_source_whose_slot_is_there"
        ),
    ),
)
