"""Mutants: exactly once in effect: ledger, plan, routes, halts, owners, one writer at a time."""

from typing import Final

from tests.mutants.machine import Mutant

MUTANTS: Final = (
    Mutant(
        "the ledger in the rows' transaction: it moves after",
        "services/writer/settle/task.py",
        (
            "            settlement.flush()\n"
            "            unsettled = [r for r in ranges if next_offsets[r.partition] < r.end]\n"
            "            ledger.advance(conn, unsettled, self._order.epoch, "
            "self._order.routes.digest)\n"
            '            failpoints.reach("writer.before_commit")\n'
            '        failpoints.reach("writer.after_commit")\n'
        ),
        (
            "            settlement.flush()\n"
            '            failpoints.reach("writer.before_commit")\n'
            '        failpoints.reach("writer.after_commit")\n'
            '        with transaction(database, "land") as conn:\n'
            "            unsettled = [r for r in ranges if next_offsets[r.partition] < r.end]\n"
            "            ledger.advance(conn, unsettled, self._order.epoch, "
            "self._order.routes.digest)\n"
        ),
        "tests/integration/writer/test_task.py",
    ),
    Mutant(
        "the ledger in the rows' transaction: it moves before",
        "services/writer/settle/task.py",
        "            for target, pieces in tables.items():\n",
        (
            "            unsettled = [r for r in ranges if next_offsets[r.partition] < r.end]\n"
            "            ledger.advance(conn, unsettled, self._order.epoch, "
            "self._order.routes.digest)\n"
            "            conn.commit()\n"
            "            for target, pieces in tables.items():\n"
        ),
        "tests/integration/writer/test_task.py",
    ),
    Mutant(
        "totals and outbox in the rows' transaction",
        "services/writer/settle/task.py",
        (
            "            settlement.flush()\n"
            "            unsettled = [r for r in ranges if next_offsets[r.partition] < r.end]\n"
            "            ledger.advance(conn, unsettled, self._order.epoch, "
            "self._order.routes.digest)\n"
            '            failpoints.reach("writer.before_commit")\n'
            '        failpoints.reach("writer.after_commit")\n'
        ),
        (
            "            unsettled = [r for r in ranges if next_offsets[r.partition] < r.end]\n"
            "            ledger.advance(conn, unsettled, self._order.epoch, "
            "self._order.routes.digest)\n"
            '            failpoints.reach("writer.before_commit")\n'
            '        failpoints.reach("writer.after_commit")\n'
            '        with transaction(database, "land") as conn:\n'
            "            settlement._context = SettlementContext(\n"
            "                conn, database, topic_ids, work.records, work.pause_policy)\n"
            "            settlement.flush()\n"
        ),
        "tests/integration/writer/test_task.py",
    ),
    Mutant(
        "the compare: a gap",
        "services/writer/settle/ledger.py",
        "if next_offset is None or next_offset < r.start:",
        "if next_offset is None:",
        "tests/integration/writer/test_ledger.py",
    ),
    Mutant(
        "the compare: a missing row",
        "services/writer/settle/ledger.py",
        "if next_offset is None or next_offset < r.start:",
        "if next_offset is not None and next_offset < r.start:",
        "tests/integration/writer/test_ledger.py",
    ),
    Mutant(
        "the lock of the ledger row",
        "services/writer/settle/ledger.py",
        "    FOR UPDATE OF l\n",
        "",
        "tests/integration/writer/test_ledger.py",
    ),
    Mutant(
        "the topic's id",
        "services/writer/settle/ledger.py",
        "ON l.topic_id = wanted.topic_id::uuid AND",
        "ON",
        "tests/integration/writer/test_ledger.py",
    ),
    Mutant(
        "the settled prefix",
        "services/writer/settle/task.py",
        "[_since(rows, next_offsets[p]) for p, rows in at]",
        "[rows for _, rows in at]",
        "tests/integration/writer/test_task.py",
    ),
    Mutant(
        "never moving a ledger back",
        "services/writer/settle/task.py",
        "unsettled = [r for r in ranges if next_offsets[r.partition] < r.end]",
        "unsettled = ranges",
        "tests/integration/writer/test_task.py",
    ),
    Mutant(
        "knowing a ledger that was moved by hand",
        "services/writer/settle/ledger.py",
        "AND l.digest = %(digest)s AND l.upto = l.next_offset",
        "AND l.digest = %(digest)s",
        "tests/integration/writer/test_ledger.py",
    ),
    Mutant(
        "keeping what was settled before a hand moved the ledger",
        "services/writer/settle/ledger.py",
        "FROM begun WHERE since < least(upto, next_offset)",
        "FROM begun WHERE since < upto AND upto = next_offset",
        "tests/integration/writer/test_ledger.py",
    ),
    Mutant(
        "the epoch's fence",
        "services/writer/settle/ledger.py",
        "if claimed > epoch:",
        "if False:",
        "tests/integration/writer/test_ledger.py tests/integration/writer/test_task.py",
    ),
    Mutant(
        "the epoch's claim",
        "services/writer/settle/ledger.py",
        "greatest(ledger.epoch, excluded.epoch)",
        "ledger.epoch",
        "tests/integration/writer/test_ledger.py tests/integration/writer/test_task.py",
    ),
    Mutant(
        "the claim that never takes back",
        "services/writer/settle/ledger.py",
        "greatest(ledger.epoch, excluded.epoch)",
        "excluded.epoch",
        "tests/integration/writer/test_ledger.py",
    ),
    Mutant(
        "ON CONFLICT's target",
        "services/writer/persist/insert_spec.py",
        'sql.SQL("ON CONFLICT ({}) DO NOTHING")',
        'sql.SQL("ON CONFLICT DO NOTHING /* {} */")',
        "tests/integration/writer/test_persist.py tests/integration/writer_tables/test_tables.py",
    ),
    Mutant(
        "the outbox in the rows' transaction",
        "services/writer/park/outbox.py",
        "execute_values(cursor, _ADD, self._rows, page_size=len(self._rows))\n",
        "execute_values(cursor, _ADD, self._rows, page_size=len(self._rows)); self._conn.commit()\n",
        "tests/integration/writer/test_task.py",
    ),
    Mutant(
        "removing from the outbox after the topic has it",
        "services/writer/park/outbox.py",
        "        rows = cursor.fetchall()\n",
        (
            "        rows = cursor.fetchall()\n"
            "        cursor.execute(_REMOVE, ([row[0] for row in rows],))\n"
            "        conn.commit()\n"
        ),
        "tests/integration/writer/test_outbox.py",
    ),
    Mutant(
        "group offsets after settling",
        "services/writer/driver/batch.py",
        "    order, reports = await _land(parts, ranges, routes)\n",
        (
            "    await parts.cluster.commit({r.partition: r.end for r in ranges})\n"
            "    order, reports = await _land(parts, ranges, routes)\n"
        ),
        "tests/faults/test_settling_rules.py::test_group_offsets_move_only_over_what_is_settled",
    ),
    Mutant(
        "the plan before the first transaction",
        "services/writer/driver/batch.py",
        "    await _plan(parts, ranges, routes)\n    try:\n        await _write(parts, ranges, routes)\n",
        (
            "    try:\n"
            "        await _write(parts, ranges, routes)\n"
            "        await _plan(parts, ranges, routes)\n"
        ),
        "tests/faults/test_settling_rules.py::test_a_plan_is_on_kafka_before_the_first_row",
    ),
    Mutant(
        "the pinned routes",
        "services/writer/driver/partition_tracker.py",
        "if unfinished := self._unfinished.plan(self.positions, ends):",
        "if (unfinished := self._unfinished.plan(self.positions, ends)) and False:",
        "tests/faults/test_settling_rules.py::test_a_range_is_finished_under_the_routes_that_it_began_with",
    ),
    Mutant(
        "seeing the newest writer after the plan",
        "services/writer/driver/batch.py",
        "routes))\n    await check_fenced(parts)\n",
        "routes))\n",
        (
            "tests/faults/"
            "test_settling_rules.py::test_an_older_writer_finds_its_successor_before_it_parks_anything"
        ),
    ),
    Mutant(
        "claiming the ledgers",
        "services/writer/databases/claims.py",
        "next_offsets = ledger.claim(conn, starts, self._epoch)",
        "next_offsets = ledger.claim(conn, starts, 0)",
        (
            "tests/faults/"
            "test_settling_rules.py::test_a_successor_puts_its_epoch_on_the_ledger_before_it_"
            "has_a_batch"
        ),
    ),
    Mutant(
        "totals without a destination before the group's offsets",
        "services/writer/driver/batch.py",
        (
            "    await _settle(parts, order, reports)\n"
            '    failpoints.reach("writer.before_group_commit")\n'
            "    await parts.cluster.commit({r.partition: r.end for r in ranges})\n"
        ),
        (
            "    await parts.cluster.commit({r.partition: r.end for r in ranges})\n"
            '    failpoints.reach("writer.before_group_commit")\n'
            "    await _settle(parts, order, reports)\n"
        ),
        (
            "tests/faults/"
            "test_settling_rules.py::test_events_without_a_destination_are_counted_before_the"
            "_group_passes_them"
        ),
    ),
    Mutant(
        "advancing ranges of which no record arrives",
        "services/writer/driver/batch.py",
        "            failed = await _settle_empty(parts, order, reports)\n",
        "            pass\n",
        "tests/faults/test_settling_rules.py::test_a_range_without_a_single_record_is_advanced",
    ),
    Mutant(
        "the recorded baseline",
        "services/writer/databases/claims.py",
        "generation: self._plan_log.baselines[generation.topic_id, generation.partition.number][name]\n",
        "generation: 0\n",
        (
            "tests/faults/"
            "test_settling_rules.py::test_a_database_that_first_appears_begins_where_its_baseline_says"
        ),
    ),
    Mutant(
        "the marker after its records",
        "services/writer/driver/batch.py",
        "    order, reports = await _land(parts, ranges, routes)\n    await mark(parts, order, reports)\n",
        (
            "    landing, diverted = parts.databases.split()\n"
            "    early = parts.order(ranges, routes, landing=landing, diverted=diverted)\n"
            "    await mark(parts, early, [])\n"
            "    order, reports = await _land(parts, ranges, routes)\n"
        ),
        (
            "tests/faults/"
            "test_waiting_rules.py::test_a_range_is_closed_after_its_records_and_repeats_of_t"
            "hem_count_once"
        ),
    ),
    Mutant(
        "the count of a marker",
        "services/writer/databases/drain.py",
        "if len(events) != marker.count:",
        "if False:",
        (
            "tests/faults/"
            "test_waiting_rules.py::test_a_marker_that_counts_more_than_is_there_halts_until_"
            "a_person_resolves_it"
        ),
    ),
    Mutant(
        "queueing behind what waits",
        "services/writer/databases/database_states.py",
        "return self._is_available(name) and not self._index.has_waiting(name)\n",
        "return self._is_available(name)\n",
        "tests/faults/test_waiting_rules.py::test_later_events_queue_behind_those_that_wait",
    ),
    Mutant(
        "a marker's events stand behind its first",
        "services/writer/databases/drain.py",
        "return bool(marker.count) and position >= marker.first and marker",
        "return marker",
        "tests/unit/writer/test_drainer.py",
    ),
    Mutant(
        "the marker's own routes",
        "services/writer/databases/drain.py",
        "return routes[marker.digest]",
        "return list(routes.values())[-1]",
        (
            "tests/faults/"
            "test_waiting_rules.py::test_waiting_events_land_under_the_routes_in_force_when_they_were_diverted"
        ),
    ),
    Mutant(
        "Kafka as the buffer while no database is up",
        "services/writer/databases/database_states.py",
        "        return any(self._is_available(n) for n in self._databases)\n",
        "        return True\n",
        "tests/faults/test_waiting_rules.py::test_with_no_database_up_nothing_is_diverted_and_nothing_moves",
    ),
    Mutant(
        "halting",
        "services/writer/databases/database_states.py",
        "            health.halted = error.detail\n",
        "",
        "tests/faults/test_waiting_rules.py::test_a_ledger_that_went_back_halts_its_database_alone",
    ),
    Mutant(
        "the topic's id before every plan",
        "services/writer/driver/partition_tracker.py",
        "            await self.drop_recreated_topics()  # after",
        "            pass  # after",
        "tests/faults/test_topics.py::test_a_topic_made_anew_is_never_read_from_the_offset_of_the_old",
    ),
    Mutant(
        "the owner of a database",
        "services/writer/databases/owner.py",
        "        if row is None or Owner(*row) == owner:\n",
        "        if True:\n",
        (
            "tests/faults/"
            "test_owners.py::test_a_second_name_for_a_database_is_halted_and_its_events_wait "
            "tests/faults/test_owners.py::test_database_claimed_under_several_names_at_once_has_a_single_owner"
        ),
    ),
    Mutant(
        "looking at the owner before anything is changed",
        "services/writer/databases/database_states.py",
        "                await in_own_thread(owner.check, database, self._owner(name))\n",
        "",
        ("tests/faults/test_owners.py::test_a_database_of_another_kafka_is_halted_until_it_is_handed_over"),
    ),
    Mutant(
        "rows that this writer never claimed fence nobody",
        "services/writer/settle/ledger.py",
        (
            "      ON l.topic_id = wanted.topic_id::uuid AND l.partition = wanted.partition\n"
            "    WHERE l.epoch >= %s\n"
        ),
        "      ON true\n    WHERE l.epoch >= %s\n",
        "tests/faults/test_owners.py::test_later_epoch_on_ledger_rows_of_another_kafka_does_not_fence_the_writer",
    ),
    Mutant(
        "the cut of a silent database",
        "shared/postgres/deadlines.py",
        "                self.own.shutdown(socket.SHUT_RDWR)\n",
        "                pass\n",
        "tests/integration/writer/test_liveness_timeout.py::test_a_statement_of_a_stopped_server_ends",
    ),
    Mutant(
        "the end of a retired database's markers",
        "services/writer/driver/take_over.py",
        (
            " and not plan_log.retirements.is_over(\n"
            "            header.database, record.partition, record.offset\n"
            "        )"
        ),
        "",
        (
            "tests/faults/"
            "test_retired.py::test_events_waiting_for_a_retired_database_are_parked_and_the_totals_reconcile"
        ),
    ),
    Mutant(
        "parking before it is said that a database is retired",
        "services/writer/databases/retire.py",
        '        failpoints.reach("writer.before_retired")\n',
        (
            "        await self._record(self._plan_log.retirements.done_entries(name, request, upto))\n"
            '        failpoints.reach("writer.before_retired")\n'
        ),
        "tests/faults/test_retired.py::test_writer_killed_before_it_records_a_retirement_parks_the_same_events_again",
    ),
    Mutant(
        "standing by",
        "services/writer/driver/standby.py",
        "if not request.done() or request.result():",
        "if True:",
        "tests/faults/test_standby.py",
    ),
    Mutant(
        "having the lock",
        "services/writer/driver/standby.py",
        "SELECT pg_try_advisory_lock(%s)",
        "SELECT %s IS NOT NULL",
        "tests/faults/test_standby.py",
    ),
    Mutant(
        "giving up the lock",
        "services/writer/driver/standby.py",
        "stack.push_async_callback(in_own_thread, lock.close)",
        "pass",
        "tests/faults/test_standby.py",
    ),
    Mutant(
        "ending before a newer schema",
        "services/writer/databases/database_states.py",
        "if ends(error):",
        "if False:",
        "tests/faults/test_rights.py::test_a_database_of_a_newer_onramp_ends_the_writer_whichever_it_is",
    ),
)
