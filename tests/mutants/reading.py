"""Mutants: each committed record is read once, and a log that was cut is noticed."""

from typing import Final

from tests.mutants.machine import Mutant

MUTANTS: Final = (
    Mutant(
        "a range's start",
        "shared/kafka_read/record_columns.py",
        "(offsets >= first[of_batch]) & ",
        "",
        "tests/unit/kafka_read/test_record_columns.py",
    ),
    Mutant(
        "a range's end",
        "shared/kafka_read/record_columns.py",
        " & (offsets < end[of_batch])",
        "",
        "tests/unit/kafka_read/test_record_columns.py",
    ),
    Mutant(
        "fields within their record",
        "shared/kafka_read/record_columns.py",
        "if np.any(field_ends >= ends) or np.any(field_ends < starts):",
        "if False:",
        "tests/unit/kafka_read/test_record_columns.py",
    ),
    Mutant(
        "what a stream unfolds to",
        "shared/kafka_read/decompress.py",
        "            if left < 0:\n",
        "            if False:\n",
        "tests/unit/kafka_read/test_log_batches.py",
    ),
    Mutant(
        "the checksum",
        "shared/kafka_read/log_batches.py",
        "if calc_crc32c(view[at + _CRC_COVERS_FROM : following]) != head[4]:",
        "if False:",
        "tests/unit/kafka_read/test_log_batches.py",
    ),
    Mutant(
        "leaving out what was aborted",
        "shared/kafka_read/log_batches.py",
        "not (attributes & _TRANSACTIONAL and producer in transactions.running) and count > 0",
        "count > 0",
        "tests/unit/kafka_read/test_log_batches.py",
    ),
    Mutant(
        "what compaction removed at the end of a batch",
        "shared/kafka_read/log_batches.py",
        "next_offset = base + last_delta + 1",
        "next_offset = base + count",
        "tests/unit/kafka_read/test_log_batches.py",
    ),
    Mutant(
        "a hole only where the leader has nothing at all",
        "shared/kafka_read/fetch.py",
        "part.nothing_came and part.committed_end",
        "not part.data and part.committed_end",
        "tests/unit/kafka_read/test_fetch.py",
    ),
    Mutant(
        "a hole only below the committed end",
        "shared/kafka_read/fetch.py",
        "is_hole = part.nothing_came and part.committed_end >= self.range.end",
        "is_hole = part.nothing_came",
        "tests/unit/kafka_read/test_fetch.py",
    ),
    Mutant(
        "what Kafka has deleted is not passed over",
        "shared/kafka_read/fetch.py",
        "        if part.error == _OFFSET_OUT_OF_RANGE:\n",
        (
            "        if part.error == _OFFSET_OUT_OF_RANGE:\n"
            "            return Fetched([], reading.range.end)\n"
        ),
        "tests/unit/kafka_read/test_fetch.py",
    ),
    Mutant(
        "only what transactions have committed",
        "shared/kafka_read/fetch.py",
        "_READ_COMMITTED: Final = 1",
        "_READ_COMMITTED: Final = 0",
        (
            "tests/contract/"
            "test_reading.py::test_aborted_transactions_are_left_out_and_the_end_is_found_behind_them"
        ),
    ),
    Mutant(
        "each life of a topic released by itself",
        "services/writer/settle/waiting_table.py",
        "    return [list(group.values()) for group in groups]",
        "    return [list(batches)]",
        (
            "tests/integration/writer/"
            "test_releases.py::test_the_events_of_a_topic_that_was_made_anew_are_released"
            "_beside_the_old_ones"
        ),
    ),
    Mutant(
        "a release's look for what came meanwhile",
        "services/writer/waiting/release.py",
        "            elif after == waiting_table.START:\n",
        "            elif after:\n",
        (
            "tests/integration/writer/"
            "test_releases.py::test_events_that_come_during_a_release_are_released_by_it"
        ),
    ),
    Mutant(
        "halves of what writers died of",
        "services/writer/batching/unfinished_ranges.py",
        "newest = range_to_repeat(next_offset, [r for r, _ in covering])",
        "pass",
        (
            "tests/faults/"
            "test_batches_of_bytes.py::test_a_plan_that_two_writers_died_of_is_begun_agai"
            "n_in_halves"
        ),
    ),
    Mutant(
        "a marker's last word",
        "services/writer/databases/diverted_index.py",
        "yield replace(marker, range=replace(marker.range, end=first))",
        "yield marker",
        "tests/unit/writer/test_waiting.py",
    ),
    Mutant(
        "all that a task was given",
        "services/writer/settle/task.py",
        "part.size",
        'part.rows.column("value").nbytes',
        "tests/unit/writer/test_task.py",
    ),
    Mutant(
        "moving on before what has events",
        "services/writer/databases/drain.py",
        "            await self._advance_empty(database, [marker.range.generation])\n",
        "",
        "tests/faults/test_long_outages.py::test_events_land_in_order_between_ranges_that_have_none",
    ),
    Mutant(
        "a leader that is new is doubted",
        "services/writer/partitions/log_cuts.py",
        "self._intact.get(p) != last_stable.epoch or last_stable.offset < position.next_offset",
        "last_stable.offset < position.next_offset",
        "tests/unit/writer/test_truncated_logs.py",
    ),
    Mutant(
        "an end below what is settled is doubted",
        "services/writer/partitions/log_cuts.py",
        "self._intact.get(p) != last_stable.epoch or last_stable.offset < position.next_offset",
        "self._plan_log.leaders.get(_key(p, position), last_stable.epoch) != last_stable.epoch",
        "tests/unit/writer/test_truncated_logs.py",
    ),
    Mutant(
        "the furthest that anything says is settled",
        "services/writer/partitions/log_cuts.py",
        "reached[p] < self._highest_known(p, position)",
        "reached[p] < position.next_offset",
        "tests/unit/writer/test_truncated_logs.py",
    ),
    Mutant(
        "no plan while a cut cannot be told",
        "services/writer/partitions/log_cuts.py",
        "                del last_stable[p]\n",
        "                pass\n",
        "tests/unit/writer/test_truncated_logs.py",
    ),
    Mutant(
        "an epoch that no leader knows puts nothing back",
        "services/writer/partitions/log_cuts.py",
        "cuts[p] = min(last_stable[p].offset, position.next_offset)",
        "cuts[p] = max(reached[p], 0)",
        "tests/unit/writer/test_truncated_logs.py tests/unit/writer/test_resume_offset.py",
    ),
    Mutant(
        "the end of an own topic with what is not committed",
        "shared/kafka_read/leaders.py",
        "isolation=READ_UNCOMMITTED",
        "isolation=1",
        "tests/unit/writer/test_leaders.py",
    ),
    Mutant(
        "halting what was cut",
        "services/writer/driver/partition_tracker.py",
        "            if cut <= position.next_offset:  # else",
        "            if False:  # else",
        ("tests/faults/test_cut_logs.py::test_truncated_and_refilled_log_is_detected_by_its_leader_epoch"),
    ),
    Mutant(
        "the leader's epoch on onramp.settled",
        "services/writer/driver/partition_tracker.py",
        "            await self.record(self._plan_log.leader_entries(epochs))\n",
        "            pass\n",
        ("tests/faults/test_cut_logs.py::test_truncated_and_refilled_log_is_detected_by_its_leader_epoch"),
    ),
    Mutant(
        "the ledgers' word where the group's is lost",
        "services/writer/databases/diverted_index.py",
        "return max([self._ledgers.get(generation, 0), *ends])",
        "return max([0, *ends])",
        "tests/faults/test_cut_logs.py::test_with_the_groups_offsets_lost_the_ledger_tells",
    ),
    Mutant(
        "relaying what a release parked",
        "services/writer/waiting/release_scheduler.py",
        "        outbox.relay(self._databases[name], self._brokers)\n",
        "",
        "tests/faults/test_reconcile_interval.py::test_event_parked_by_a_release_is_relayed_at_once",
    ),
    Mutant(
        "refusing own topics that lose what they keep",
        "shared/kafka_own_topics.py",
        "        if wrong := await self.wrong():\n",
        "        if wrong := []:\n",
        (
            "tests/faults/"
            "test_own_topics.py::test_a_topic_that_would_lose_what_it_keeps_is_refused_un"
            "til_it_is_mended"
        ),
    ),
    Mutant(
        "another life for what a person accepts",
        "services/writer/driver/partition_tracker.py",
        "*halts.accept_entries(ids[p.topic], p.number, accepted), ",
        "",
        ("tests/faults/test_cut_logs.py::test_a_person_lets_it_go_on_from_the_cut_and_what_is_there_lands"),
    ),
    Mutant(
        "the baseline of an accepted life",
        "services/writer/driver/partition_tracker.py",
        "[*baselines, *halts.accept_entries",
        "[*halts.accept_entries",
        "tests/faults/test_topics.py::test_a_person_lets_a_partition_go_on_behind_what_kafka_deleted",
    ),
    Mutant(
        "a batch of its own for what three processes were killed in",
        "services/writer/batching/unfinished_ranges.py",
        "        if len(crashed) >= _CRASHES_BEFORE_ISOLATION:\n",
        "        if False:\n",
        (
            "tests/faults/"
            "test_lethal_records.py::test_a_record_that_kills_its_writers_is_halted_alone_and"
            "_all_before_it_lands"
        ),
    ),
    Mutant(
        "the others' turn before what kills",
        "services/writer/batching/unfinished_ranges.py",
        "if others and not self._others_had_a_turn:",
        "if False:",
        (
            "tests/faults/"
            "test_lethal_records.py::test_a_record_that_kills_its_writers_is_halted_alone_and"
            "_all_before_it_lands"
        ),
    ),
    Mutant(
        "a word that the process survived what it set aside",
        "services/writer/driver/batch.py",
        "    await parts.partitions.record(parts.plan_log.survived_entries(parts.epoch))\n",
        "",
        "tests/faults/test_lethal_records.py::test_a_process_that_survives_its_failure_did_not_crash",
    ),
)
