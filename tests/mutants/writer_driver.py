"""The protections of the driver: a Kafka and a gateway of their own."""

from typing import Final

from tests.mutants.machine import Mutant

RULES: Final = "tests/faults/test_settling_rules.py"
WAITING: Final = "tests/faults/test_waiting_rules.py"
TOPICS: Final = "tests/faults/test_topics.py"
_ONE_RULE: Final = f"{RULES}::test_"
_ONE_WAITING: Final = f"{WAITING}::test_"
_MARK: Final = """\
    order, reports = await _land(parts, ranges, routes)
    await mark(parts, order, reports)
"""
_COMMIT: Final = """\
    await _settle(parts, order, reports)
    failpoints.reach("writer.before_group_commit")
    await parts.cluster.commit({r.partition: r.end for r in ranges})
"""

_PLAN: Final = """    await _plan(parts, ranges, routes)
    try:
        await _write(parts, ranges, routes)
"""
_LATE_PLAN: Final = """    try:
        await _write(parts, ranges, routes)
        await _plan(parts, ranges, routes)
"""

DRIVER: Final = (
    Mutant(
        "group offsets after settling",
        "driver/batch.py",
        "    order, reports = await _land(parts, ranges, routes)\n",
        "    await parts.cluster.commit({r.partition: r.end for r in ranges})\n"
        "    order, reports = await _land(parts, ranges, routes)\n",
        f"{_ONE_RULE}group_offsets_move_only_over_what_is_settled",
    ),
    Mutant(
        "the plan before the first transaction",
        "driver/batch.py",
        _PLAN,
        _LATE_PLAN,
        f"{_ONE_RULE}a_plan_is_on_kafka_before_the_first_row",
    ),
    Mutant(
        "the pinned routes",
        "driver/partition_tracker.py",
        "if unfinished := self._unfinished.plan(self.positions, ends):",
        "if (unfinished := self._unfinished.plan(self.positions, ends)) and False:",
        f"{_ONE_RULE}a_range_is_finished_under_the_routes_that_it_began_with",
    ),
    Mutant(
        "seeing the newest writer after the plan",
        "driver/batch.py",
        "routes))\n    await check_fenced(parts)\n",
        "routes))\n",
        f"{_ONE_RULE}an_older_writer_finds_its_successor_before_it_parks_anything",
    ),
    Mutant(
        "claiming the ledgers",
        "recover/claims.py",
        "next_offsets = ledger.claim(conn, starts, self._epoch)",
        "next_offsets = ledger.claim(conn, starts, 0)",
        f"{_ONE_RULE}a_successor_puts_its_epoch_on_the_ledger_before_it_has_a_batch",
    ),
    Mutant(
        "totals without a destination before the group's offsets",
        "driver/batch.py",
        _COMMIT,
        "    await parts.cluster.commit({r.partition: r.end for r in ranges})\n"
        '    failpoints.reach("writer.before_group_commit")\n'
        "    await _settle(parts, order, reports)\n",
        f"{_ONE_RULE}events_without_a_destination_are_counted_before_the_group_passes_them",
    ),
    Mutant(
        "counting a repeated range once",
        "partitions/plan_log.py",
        "if before.next_offset >= range_.end or not",
        "if not",
        f"{_ONE_RULE}a_repeat_counts_events_without_a_destination_once",
    ),
    Mutant(
        "advancing ranges of which no record arrives",
        "driver/batch.py",
        "            failed = await _settle_unseen(parts, order, reports)\n",
        "            pass\n",
        f"{_ONE_RULE}a_range_without_a_single_record_is_advanced",
    ),
    Mutant(
        "the recorded baseline",
        "recover/claims.py",
        "incarnation: self._plan_log.baselines[incarnation.topic_id, incarnation.partition.number][name]\n",
        "incarnation: 0\n",
        f"{_ONE_RULE}a_database_that_first_appears_begins_where_its_baseline_says",
    ),
    Mutant(
        "claiming what waits of a topic that was made anew",
        "recover/claims.py",
        " | self._index.incarnations(database.name)",
        "",
        "tests/faults/test_topics.py::test_f14_what_waits_of_a_topic_lands_after_the_topic_was_made_anew",
    ),
    Mutant(
        "the marker after its records",
        "driver/batch.py",
        _MARK,
        "    landing, diverted = parts.databases.split()\n"
        "    early = parts.order(ranges, routes, landing=landing, diverted=diverted)\n"
        "    await mark(parts, early, [])\n"
        "    order, reports = await _land(parts, ranges, routes)\n",
        f"{_ONE_WAITING}a_range_is_closed_after_its_records_and_repeats_of_them_count_once",
    ),
    Mutant(
        "the count of a marker",
        "recover/drain.py",
        "if len(events) != marker.count:",
        "if False:",
        f"{_ONE_WAITING}a_marker_that_counts_more_than_is_there_halts_until_a_person_resolves_it",
    ),
    Mutant(
        "queueing behind what waits",
        "recover/database_states.py",
        "return self._is_available(name) and not self._index.has_waiting(name)\n",
        "return self._is_available(name)\n",
        f"{_ONE_WAITING}later_events_queue_behind_those_that_wait",
    ),
    Mutant(
        "a marker's events stand behind its first",
        "recover/drain.py",
        "return bool(marker.count) and position >= marker.first and marker",
        "return marker",
        "tests/unit/writer/test_drainer.py",
    ),
    Mutant(
        "none waits for those that a limit slows",
        "plan/row_rates.py",
        "fast = {p: s for p, s in backlog.items() if p not in slow}",
        "fast = fair_share.next(backlog, left)",
        "tests/unit/writer/test_rates.py",
    ),
    Mutant(
        "the marker's own routes",
        "recover/drain.py",
        "return routes[marker.digest]",
        "return list(routes.values())[-1]",
        f"{_ONE_WAITING}what_waits_lands_where_its_routes_said_when_it_was_diverted",
    ),
    Mutant(
        "markers of empty ranges",
        "driver/parts.py",
        "            markers.append(",
        "            if count: markers.append(",
        f"{_ONE_WAITING}a_range_that_has_nothing_for_a_database_that_is_out_is_closed_too",
    ),
    Mutant(
        "Kafka as the buffer while no database is up",
        "recover/database_states.py",
        "        return any(self._is_available(n) for n in self._databases)\n",
        "        return True\n",
        f"{_ONE_WAITING}with_no_database_up_nothing_is_diverted_and_nothing_moves",
    ),
    Mutant(
        "halting",
        "recover/databases.py",
        "            health.halted = error.detail\n",
        "",
        f"{_ONE_WAITING}a_ledger_that_went_back_halts_its_database_alone",
    ),
    Mutant(
        "comparing idle ledgers",
        "driver/reconcile.py",
        "        await self._parts.databases.compare()\n",
        "",
        f"{_ONE_WAITING}a_ledger_that_went_back_halts_its_database_alone",
    ),
    Mutant(
        "the topic's id before every plan",
        "driver/partition_tracker.py",
        "            await self.drop_recreated_topics()  # after",
        "            pass  # after",
        f"{TOPICS}::test_f14_a_topic_made_anew_is_never_read_from_the_offset_of_the_old",
    ),
    Mutant(
        "saying that a topic grew",
        "driver/partition_tracker.py",
        "        self._grown.update(existing)\n",
        "",
        f"{TOPICS}::test_f15_new_partitions_are_read_from_their_begin_and_said_aloud",
    ),
)
