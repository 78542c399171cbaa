"""Mutants: the audit calls nothing reconciled that is not."""

from typing import Final

from tests.mutants.machine import Mutant

MUTANTS: Final = (
    Mutant(
        "that a journey calls nothing landed whose database does not answer",
        "services/ops/journey/steps.py",
        "elif database in evidence.failures:",
        "elif False:",
        "tests/integration/admin/test_journey.py::test_an_event_of_a_database_that_hangs_is_not_called_landed",
    ),
    Mutant(
        "that a journey tells a duplicate from the event that landed",
        "services/ops/journey/steps.py",
        "own = next((row for row in rows if row.receipt == self._receipt), None)",
        "own = next(iter(rows), None)",
        "tests/integration/admin/test_journey.py::test_each_outcome_has_its_sentence",
    ),
    Mutant(
        "END records: what is on its way",
        "services/ops/transactions/transactions_sql.py",
        "t.lsn <= edges.passed",
        "true",
        "tests/integration/cdc/test_transaction_ends.py::test_a_change_that_did_not_land_is_missed_by_its_transaction",
    ),
    Mutant(
        "END records: what waits is not lost",
        "services/ops/transactions/check.py",
        "return parked + sum(row.destination == destination for row in self._snapshot.waiting)",
        "return parked",
        "tests/integration/cdc/test_audit_of_transactions.py::test_changes_that_wait_in_the_database_are_not_lost",
    ),
    Mutant(
        "that what is in a table which may not be read is not lost",
        "services/ops/audit/lost_events.py",
        "routed.table not in of.unreadable",
        "True",
        (
            "tests/integration/admin/test_audit.py::test_table_unreadable_for_the_audit_role_"
            "is_named_and_its_events_are_not_reported_lost"
        ),
    ),
    Mutant(
        "what a batch has not brought to a database yet: it is not lost there",
        "services/ops/audit/concurrent_writer.py",
        "return range(first, data.next_offset(generation))",
        "return range(0)",
        "tests/integration/admin/test_concurrent_writer.py",
    ),
    Mutant(
        "where the group stood before the databases were read",
        "services/ops/audit/run.py",
        "data.committed = committed",
        "data.committed = data.group",
        "tests/integration/admin/test_concurrent_writer.py",
    ),
    Mutant(
        "sums of several moments are never balanced",
        "services/ops/findings.py",
        "self.unjudged or self.in_motion",
        "self.unjudged",
        "tests/integration/admin/test_concurrent_writer.py",
    ),
    Mutant(
        "judging a range by its own routes: all that ever were may explain a missing row",
        "services/ops/audit/settled_routes.py",
        "if not digests or not digests <= log.routes.keys():",
        "if True:",
        "tests/integration/admin/test_route_history.py",
    ),
    Mutant(
        "unjudged is never balanced",
        "services/ops/findings.py",
        "self.unjudged or self.in_motion",
        "self.in_motion",
        "tests/integration/admin/test_route_history.py",
    ),
    Mutant(
        "an event that is in no place is lost",
        "services/ops/audit/lost_events.py",
        "            if row is None:\n",
        "            if False:\n",
        "tests/integration/admin/test_audit.py",
    ),
    Mutant(
        "two places of one event",
        "services/ops/audit/lost_events.py",
        "if len(outcomes) > 1:",
        "if False:",
        "tests/integration/admin/test_audit.py",
    ),
    Mutant(
        "that of equal ids the first lands",
        "services/ops/audit/lost_events.py",
        "row.offset > max(\n                event.offset, self._readable.shared - 1\n            )",
        "False",
        "tests/integration/admin/test_audit.py",
    ),
    Mutant(
        "what was settled above a cut, or of a topic that is gone, is unjudged",
        "services/ops/audit/topic_generations.py",
        "                report.unjudged += n\n",
        "                pass\n",
        "tests/integration/admin/test_generations.py",
    ),
    Mutant(
        "that below another generation's end a row may be the other's",
        "services/ops/audit/topic_generations.py",
        "        shared=max(others, default=0),\n",
        "        shared=0,\n",
        "tests/integration/admin/test_generations.py",
    ),
    Mutant(
        "an event in shared offsets must be somewhere",
        "services/ops/audit/lost_events.py",
        "            self._judge_shared(event, rows)\n",
        "            pass\n",
        "tests/integration/admin/test_generations.py",
    ),
    Mutant(
        "what Kafka deleted before it was settled is lost",
        "services/ops/audit/run.py",
        "[*deleted(data), *dead_lettered(data)]",
        "[*dead_lettered(data)]",
        "tests/faults/test_audit_of_generations.py",
    ),
    Mutant(
        "it stays lost when a person accepts it",
        "services/ops/audit/run.py",
        "[*deleted(data), *dead_lettered(data)]",
        "[*deleted(data)]",
        "tests/faults/test_audit_of_generations.py",
    ),
    Mutant(
        "asking the neighbours where a ledger was moved",
        "services/ops/audit/settled_routes.py",
        "if history.began_before(offset) or offset >= self._covered[database]:",
        "if False:",
        "tests/faults/test_route_history.py",
    ),
    Mutant(
        "missing a destination that never landed, whatever the routes were before and after",
        "services/ops/audit/settled_routes.py",
        "if not digests or not digests <= log.routes.keys():",
        "if True:",
        "tests/faults/test_route_history.py",
    ),
    Mutant(
        "rows of replayed events that are gone",
        "services/ops/audit/replays.py",
        "    if not rows:\n",
        "    if False:\n",
        "tests/faults/test_replays.py::test_audit_reports_replayed_rows_and_replay_records_lost_by_a_restored_dump",
    ),
    Mutant(
        "comparing what was edited by hand",
        "services/ops/audit/replays.py",
        "return None if payload is None else payloads.edited(value, payload)",
        "return None",
        "tests/integration/admin/test_audit_of_parked_store.py::test_a_row_that_is_not_what_was_sent_back_is_named",
    ),
    Mutant(
        "that everything below the ingester's offset is kept",
        "services/ops/audit/parked_store.py",
        "                if is_due:\n",
        "                if False:\n",
        (
            "tests/integration/admin/"
            "test_audit_of_parked_store.py::test_fault_planted_in_the_control_database_is_reported"
        ),
    ),
    Mutant(
        "that what is kept are the bytes that were parked",
        "services/ops/audit/parked_store.py",
        "is_due and found[place].sha256 != digest",
        "False",
        (
            "tests/integration/admin/"
            "test_audit_of_parked_store.py::test_fault_planted_in_the_control_database_is_reported"
        ),
    ),
    Mutant(
        "the sum of an event's states",
        "services/ops/audit/parked_store.py",
        "if total != found.total() + missing:",
        "if False:",
        (
            "tests/integration/admin/"
            "test_audit_of_parked_store.py::test_fault_planted_in_the_control_database_is_reported"
        ),
    ),
    Mutant(
        "the digest of bytes in the control database",
        "services/ops/parked_store_sql.py",
        "sha256(b.value) <> e.sha256",
        "false",
        (
            "tests/integration/admin/"
            "test_audit_of_parked_store.py::test_fault_planted_in_the_control_database_is_reported"
        ),
    ),
    Mutant(
        "that an edited row is what the edit made",
        "services/ops/audit/lost_events.py",
        "return as_landed is None or ",
        "return replayed.sha256 is not None or ",
        (
            "tests/integration/admin/"
            "test_audit_of_parked_store.py::test_an_edited_row_is_what_the_edit_made_of_the_event"
        ),
    ),
    Mutant(
        "that the audit drops the values of what is parked",
        "services/ops/audit/collect.py",
        "event.key, ParkedEvent(event.source, event.offset, intern(event.destination))",
        "event.key, event",
        (
            "tests/integration/admin/test_audit_of_parked_store.py::test_collected_audit_"
            "data_has_offsets_of_parked_events_and_no_values"
        ),
    ),
)
