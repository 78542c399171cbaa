"""Mutants: an event has one outcome of a transform, however often and wherever its lane runs."""

from typing import Final

from tests.mutants.machine import Mutant

_LANE: Final = "tests/integration/transform/test_lane.py"
_KILLS: Final = "tests/integration/transform/test_kills.py"
_POSITIONS: Final = "tests/integration/transform/test_positions.py"
_AUDIT: Final = "tests/integration/transform/test_audit.py"
_REPLAYS: Final = "tests/integration/transform/test_replays.py"
_JOURNEY: Final = "tests/integration/transform/test_journey_of_outputs.py"
_DRIVER: Final = "tests/integration/transform/test_driver.py"
_LOOKUPS: Final = "tests/integration/transform/test_lookups.py"

MUTANTS: Final = (
    Mutant(
        "refusing a run of an older epoch",
        "services/transform/lane/kafka_positions.py",
        "        if end > self._order.epoch + 1:\n",
        "        if False:\n",
        f"{_KILLS}::test_a_run_of_an_older_epoch_is_refused",
    ),
    Mutant(
        "fencing the lanes of the last epoch",
        "services/transform/driver/kafka_epochs.py",
        "{name: max(last.get(name, 0), lanes.get(name, 0)) for name in {*last, *lanes}}",
        "dict(lanes)",
        f"{_KILLS}::test_a_zombie_of_an_epoch_with_more_lanes_is_fenced",
    ),
    Mutant(
        "one transactional id for each lane",
        "services/transform/lane/order.py",
        '    return f"{wire.TRANSFORM_GROUP}{name}-{lane}"\n',
        "    return f\"{wire.TRANSFORM_GROUP}{name}-{lane}-{__import__('os').getpid()}\"\n",
        f"{_KILLS}::test_a_frozen_run_beside_its_retry_is_fenced",
    ),
    Mutant(
        "committing positions with the records",
        "services/transform/lane/kafka_transaction.py",
        '            failpoints.reach("transform.sent")\n',
        (
            "            await self._producer.commit_transaction()\n"
            "            await self._producer.begin_transaction()\n"
            '            failpoints.reach("transform.sent")\n'
        ),
        f"{_KILLS}::test_a_run_that_is_killed_leaves_no_trace_of_its_transaction[before_commit]",
    ),
    Mutant(
        "reading a recreated topic from its beginning",
        "services/transform/lane/kafka_positions.py",
        "has_begun = found.has_begun or any(p.topic == self._order.source_topic for p, _ in totals)",
        "has_begun = found.has_begun",
        f"{_POSITIONS}::test_a_recreated_topic_is_read_from_its_beginning",
    ),
    Mutant(
        "restoring lost offsets from the totals",
        "services/transform/lane/kafka_positions.py",
        "        totals = await self._stored_totals()\n",
        "        totals = dict[tuple[Partition, str], Position]()\n",
        f"{_POSITIONS}::test_offsets_without_totals_are_restored_from_the_totals",
    ),
    Mutant(
        "committing the first positions of all lanes at once",
        "services/transform/lane/task.py",
        "        if found.missing and self._order.lane == 0:\n",
        "        if found.missing:\n",
        f"{_POSITIONS}::test_start_now_skips_earlier_events_of_all_lanes",
    ),
    Mutant(
        "failing a run whose output topic refuses",
        "services/transform/lane/kafka_transaction.py",
        "            await asyncio.gather(*acknowledged)\n",
        "            await asyncio.gather(*acknowledged, return_exceptions=True)\n",
        f"{_POSITIONS}::test_an_output_topic_that_refuses_parks_nothing",
    ),
    Mutant(
        "checking outputs as the gateway does",
        "services/transform/function/output_checks.py",
        "        if event_type.key is None and not self._schemas.has(name):\n",
        "        if True:\n",
        f"{_LANE}::test_an_output_that_the_gateway_would_reject_parks_the_event",
    ),
    Mutant(
        "cutting a batch after five deaths",
        "services/transform/lane/source.py",
        "        first = Batch(self.events[:count], unfit, Counter(self.filtered), self.next | cuts)\n",
        "        first = Batch(self.events[:count], unfit, Counter(self.filtered), dict(self.next))\n",
        f"{_LANE}::test_a_batch_is_cut_after_five_deaths_and_the_next_run_continues",
    ),
    Mutant(
        "fencing another process that stages replays",
        "services/admin/jobs/kafka_transform_replays.py",
        "            transactional_id=TRANSACTIONAL_ID,\n",
        "            transactional_id=f\"{TRANSACTIONAL_ID}-{__import__('os').getpid()}\",\n",
        f"{_REPLAYS}::test_a_frozen_admin_service_beside_the_next_one_is_fenced",
    ),
    Mutant(
        "reading the staged replays before staging more",
        "services/admin/jobs/kafka_transform_replays.py",
        "                followed.staged.add((replay.event, replay.attempt))\n",
        "                pass\n",
        f"{_REPLAYS}::test_an_admin_service_that_is_killed_in_a_step_stages_nothing_twice",
    ),
    Mutant(
        "the outcome of a replayed event",
        "services/transform/lane/outcomes.py",
        "                self._end_replay(source, len(records))\n",
        "",
        f"{_REPLAYS}::test_each_replayed_event_gets_one_end_state_of_its_outcome",
    ),
    Mutant(
        "that a rehearsal of a parked event writes no output",
        "services/transform/lane/outcomes.py",
        " if r.topic == wire.TRANSFORM_REPLAYED]",
        "]",
        f"{_REPLAYS}::test_a_rehearsal_has_the_outcomes_and_writes_no_output",
    ),
    Mutant(
        "that a rehearsal of a parked event is in no total of a transform",
        "services/ops/audit/transform_replays.py",
        "        if outcome is None or outcome.replay.is_rehearsal:\n",
        "        if outcome is None:\n",
        f"{_AUDIT}::test_rehearsals_count_as_filtered",
    ),
    Mutant(
        "that the audit counts outputs of replays with the replays",
        "services/ops/audit/transform_outputs.py",
        "            if place in replayed:\n",
        "            if False:\n",
        f"{_AUDIT}::test_replays_are_counted_with_their_topic",
    ),
    Mutant(
        "that a journey names the outputs of its own event",
        "services/ops/journey/transform_facts.py",
        "record.headers.get(wire.HEADER_SOURCE) == receipt",
        "record.headers.get(wire.HEADER_SOURCE) is not None",
        f"{_JOURNEY}::test_an_event_without_outputs_says_why",
    ),
    Mutant(
        "that a journey hides steps about events that its reader does not see",
        "services/ops/journey/finder.py",
        "p.without_hidden_steps(sees) for p",
        "p for p",
        f"{_JOURNEY}::test_links_to_events_of_other_types_are_hidden_from_users_without_access",
    ),
    Mutant(
        "pausing a transform that parks most of its events",
        "services/transform/driver/pause_policy.py",
        "        if parked > max(events, WINDOW_EVENTS) / 2:\n",
        "        if False:\n",
        f"{_DRIVER}::test_a_transform_that_parks_half_of_its_events_is_paused_until_it_is_resumed",
    ),
    Mutant(
        "ending a driver with an older epoch",
        "services/transform/driver/loop.py",
        "        if newest is not None and newest > self._epoch:\n",
        "        if False:\n",
        f"{_DRIVER}::test_a_driver_with_an_older_epoch_ends",
    ),
    Mutant(
        "pausing at a position outside of the log",
        "services/transform/driver/loop.py",
        "            if report.is_lost:\n",
        "            if False:\n",
        f"{_DRIVER}::test_a_position_outside_of_the_log_pauses_until_an_operator_accepts",
    ),
    Mutant(
        "that the audit compares outputs below the group's offset alone",
        "services/ops/audit/transform_outputs.py",
        "            is_below = offset < positions.get(key, 0)\n",
        "            is_below = key in positions\n",
        f"{_AUDIT}::test_events_that_were_not_processed_yet_are_no_finding",
    ),
    Mutant(
        "that the audit finds an output that is there twice",
        "services/ops/audit/transform_outputs.py",
        "            self.repeats.append(",
        "            str(",
        f"{_AUDIT}::test_outputs_that_no_run_has_written_are_named",
    ),
    Mutant(
        "that the audit counts the records that a transform has read",
        "services/ops/audit/transforms.py",
        "                if read != line.accounted:\n",
        "                if False:\n",
        f"{_AUDIT}::test_totals_that_differ_from_kafka_are_named",
    ),
    Mutant(
        "that the built-in transform of tracers drops its own outputs",
        "services/transform/driver/tracer_transform.py",
        ' or event["metadata"]["id"].startswith("{NAME}:")',
        "",
        "tests/integration/transform/test_tracers.py"
        "::test_a_tracer_is_emitted_once_under_the_id_that_the_tracer_looks_for",
    ),
    Mutant(
        "letting transforms take turns",
        "services/transform/driver/loop.py",
        "key=lambda each: (runs[each.name], self._started_at[each.name])",
        "key=lambda each: each.name",
        f"{_DRIVER}::test_transforms_take_turns_while_there_are_fewer_slots_than_lanes",
    ),
    Mutant(
        "using a changed lookup",
        "services/transform/driver/lookup_snapshots.py",
        "            if table.digest != snapshot.digest:\n",
        "            if not snapshot.digest:\n",
        f"{_LOOKUPS}::test_a_changed_table_is_used_and_a_dropped_one_until_its_snapshot_is_ten_intervals_old",
    ),
)
