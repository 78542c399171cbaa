"""The protections against releases that mix, and against growth without a bound."""

from typing import Final

from tests.mutants.machine import Mutant

_ROUTING: Final = "tests/unit/writer_sort/test_routing.py"
_RELEASES: Final = "tests/integration/writer/test_releases.py::test_"

_STEPS: Final = "tests/integration/writer/test_steps_of_bytes.py::test_f51_a_"
_WATCHES: Final = "tests/integration/writer/test_watches.py::test_"

_SIZES: Final = "tests/unit/writer/test_sizes.py"
_BYTES: Final = "tests/faults/test_batches_of_bytes.py::test_f51_"
_OUTAGES: Final = "tests/faults/test_long_outages.py::test_f51_"
_INDEX: Final = "tests/unit/writer/test_waiting.py"

GROWTH: Final = (
    Mutant(
        "each life of a topic released by itself",
        "settle/waiting_table.py",
        "    return [list(group.values()) for group in groups]",
        "    return [list(batches)]",
        f"{_RELEASES}f50_the_events_of_a_topic_that_was_made_anew_are_released_beside_the_old_ones",
    ),
    Mutant(
        "each kind of row released by itself",
        "settle/waiting_table.py",
        "AND db_schema = %s AND typed = %s",
        "AND db_schema = %s AND (typed OR true OR %s)",
        f"{_RELEASES}f50_packets_for_a_landing_table_are_released_beside_its_own_events",
    ),
    Mutant(
        "a release that goes on where it was",
        "recover/release.py",
        "                after = taken[-1].last\n",
        "",
        f"{_RELEASES}f51_a_release_walks_over_no_dead_row_twice",
    ),
    Mutant(
        "a release that reads by its key",
        "settle/waiting_table.py",
        "SELECT ctid, topic_id, topic, partition",
        "SELECT ctid, topic_id::text, topic, partition",
        f"{_RELEASES}f51_a_release_walks_over_no_dead_row_twice",
    ),
    Mutant(
        "a release's look for what came meanwhile",
        "recover/release.py",
        "            elif after == waiting_table.START:\n",
        "            elif after:\n",
        f"{_RELEASES}events_that_come_during_a_release_are_released_by_it",
    ),
    Mutant(
        "a relay that goes on where it was",
        "park/outbox.py",
        "            after = page.next\n",
        "            after = _START\n",
        f"{_RELEASES}f51_a_relay_walks_over_no_dead_row_twice",
    ),
    Mutant(
        "a relay's look for what came meanwhile",
        "park/outbox.py",
        "        elif after == _START or not in_pass:\n",
        "        elif after:\n",
        f"{_RELEASES}what_is_parked_during_a_relay_is_relayed_by_it",
    ),
    Mutant(
        "halves of what writers died of",
        "plan/unfinished_ranges.py",
        "newest = range_to_repeat(next_offset, [r for r, _ in covering])",
        "pass",
        f"{_BYTES}a_plan_that_two_writers_died_of_is_begun_again_in_halves",
    ),
    Mutant(
        "halves of the newest plan",
        "plan/byte_sizes.py",
        "    newest = unfinished[0]\n",
        "    newest = unfinished[-1]\n",
        _SIZES,
    ),
    Mutant(
        "the bytes of a step",
        "postgres/rows_by_bytes.py",
        "WHERE coalesce(bytes_before, 0) < %s",
        "WHERE coalesce(bytes_before, 0) >= least(%s, 0)",
        f"{_STEPS}release_takes_events_up_to_a_number_of_bytes "
        f"{_STEPS}relay_takes_records_up_to_a_number_of_bytes",
    ),
    Mutant(
        "a release that goes on after as many bytes as a step has",
        "settle/waiting_table.py",
        " or sum(events.size for events in batches) >= MOST_BYTES",
        "",
        f"{_STEPS}release_takes_events_up_to_a_number_of_bytes",
    ),
    Mutant(
        "a relay that goes on after as many bytes as a step has",
        "park/outbox.py",
        ' and sum(len(row[6] or b"") for row in rows) < _PAGE_BYTES',
        "",
        f"{_STEPS}relay_takes_records_up_to_a_number_of_bytes",
    ),
    Mutant(
        "judging a large event beside those behind it",
        "recover/release.py",
        "waiting_table.first(conn, table, paused, self._at_once)",
        "waiting_table.first(conn, table, paused, 1)",
        f"{_STEPS}large_event_that_fails_is_told_from_its_neighbours_behind_it",
    ),
    Mutant(
        "keeping the index of routes",
        "sort/route_lookup.py",
        "        _kept[routes.digest] = lookup  # the last one used comes last\n",
        "",
        _ROUTING,
    ),
    Mutant(
        "keeping only a few indexes of routes",
        "sort/route_lookup.py",
        "            while len(_kept) >= _KEPT:\n",
        "            while len(_kept) < 0:\n",
        _ROUTING,
    ),
    Mutant(
        "looking only at contracts of the table's name",
        "sort/route_lookup.py",
        "if _WILD & set(contract.table) else",
        "if contract.table else",
        _ROUTING,
    ),
    Mutant(
        "making the routes' name once",
        "model/routes.py",
        """            object.__setattr__(self, "_digest", sha256(self.as_json()).hexdigest()[:16])
        return self._digest
""",
        """            return sha256(self.as_json()).hexdigest()[:16]
        return self._digest
""",
        _ROUTING,
    ),
    Mutant(
        "making routes once for each state of the registry",
        "driver/routes_from_registry.py",
        "        if self._cached is None or self._cached[0] is not snapshot:\n",
        "        if True:\n",
        _ROUTING,
    ),
    Mutant(
        "no watch for a table that somebody made up",
        "settle/settlement.py",
        "                elif updated.parked and not made_up:",
        "                elif updated.parked:",
        f"{_WATCHES}f51_tables_that_somebody_made_up_are_not_watched",
    ),
    Mutant(
        "the watch of a table that was there",
        "settle/settlement.py",
        "made_up = not park_rate.seen and _is_unknown(result)",
        "made_up = _is_unknown(result)",
        f"{_WATCHES}a_table_that_was_there_is_watched_when_it_is_dropped",
    ),
    Mutant(
        "locking only what holds",
        "settle/holds.py",
        """_HOLDING: Final = f"{_HOLDS} WHERE state <> 'watched'\"""",
        """_HOLDING: Final = f"{_HOLDS} WHERE true\"""",
        f"{_WATCHES}f51_a_transaction_locks_no_watched_type_and_reads_only_its_own",
    ),
    Mutant(
        "watching only so many",
        "settle/holds.py",
        "            if self._more_watched:\n",
        "            if self._more_watched and not rows:\n",
        f"{_WATCHES}f51_only_so_many_are_watched_those_that_changed_last",
    ),
    Mutant(
        "the end of a watch",
        "settle/settlement.py",
        "                    self.holds.unwatch(name)\n",
        "                    pass\n",
        f"{_WATCHES}a_type_that_is_well_again_is_watched_no_more",
    ),
    Mutant(
        "one watch of two tables",
        "settle/holds.py",
        "        self._unwatched.discard(hold.name)\n",
        "",
        f"{_WATCHES}a_type_of_two_tables_is_judged_by_both",
    ),
)

BYTES: Final = (
    Mutant(
        "larger events believed at once",
        "plan/byte_sizes.py",
        "max(size, sizes.get(p.number, 0.0) * _DECAY)",
        "sizes.get(p.number, 0.0) * _DECAY or size",
        _SIZES,
    ),
    Mutant(
        "each partition's own size",
        "plan/byte_sizes.py",
        "            sizes[p.number] = max(",
        "            sizes[p.number] = sizes[0] = max(",
        _SIZES,
    ),
    Mutant(
        "forgetting once a report",
        "plan/byte_sizes.py",
        "= max(report.size / report.read, largest.get(report.range_of, 1.0))",
        "= max(report.size / report.read, largest.get(report.range_of, 1.0) * _DECAY)",
        _SIZES,
    ),
    Mutant(
        "a new partition as large as the topic's largest",
        "plan/byte_sizes.py",
        "max(sizes.values(), default=_UNKNOWN_BYTES)",
        "min(sizes.values(), default=_UNKNOWN_BYTES)",
        _SIZES,
    ),
    Mutant(
        "all that a task was given",
        "settle/task.py",
        "part.size",
        'part.rows.column("value").nbytes',
        "tests/unit/writer/test_task.py",
    ),
    Mutant(
        "a refill in pieces as large as a batch",
        "driver/resolve_halt.py",
        "        [part] = sizes.cut([replace(piece, start=start)])\n",
        "        part = replace(piece, start=start)\n",
        "tests/unit/writer/test_resolve.py",
    ),
    Mutant(
        "caution with a topic of which nothing was read",
        "plan/byte_sizes.py",
        "_UNKNOWN_BYTES: Final = 64 << 10",
        "_UNKNOWN_BYTES: Final = 1",
        _SIZES,
    ),
    Mutant(
        "an event of each partition",
        "plan/byte_sizes.py",
        "[1] / event_bytes[p]), 1) for p in spans}",
        "[1] / event_bytes[p]), 0) for p in spans}",
        _SIZES,
    ),
    Mutant(
        "planning by bytes",
        "driver/partition_tracker.py",
        "self.sizes.bound(self._rate_limiter.share(spans, limit, landing, self._fair_share))",
        "self._rate_limiter.share(spans, limit, landing, self._fair_share)",
        f"{_BYTES}events_of_100_kb_come_in_batches_of_few",
    ),
    Mutant(
        "learning what tasks read",
        "driver/batch.py",
        "        parts.partitions.sizes.count(reports)\n",
        "",
        f"{_BYTES}events_of_100_kb_come_in_batches_of_few",
    ),
    Mutant(
        "finishing a large plan in pieces",
        "plan/unfinished_ranges.py",
        "self._sizes.cut([r for r, under in unfinished if under == routes])",
        "[r for r, under in unfinished if under == routes]",
        f"{_BYTES}a_plan_that_is_too_large_is_finished_in_pieces_under_its_routes",
    ),
)

#: What has no events for a database that is out.
EMPTY: Final = (
    Mutant(
        "neighbours without events as one",
        "recover/diverted_index.py",
        "        other.range.start <= one.range.end\n",
        "        other.range.start < one.range.end\n",
        _INDEX,
    ),
    Mutant(
        "what has no events by its own routes",
        "recover/diverted_index.py",
        "        and one.digest == other.digest\n",
        "",
        _INDEX,
    ),
    Mutant(
        "the place of the first that said so",
        "recover/diverted_index.py",
        "    metadata = min(first.metadata, second.metadata, key=lambda p: p.offset)\n",
        "    metadata = max(first.metadata, second.metadata, key=lambda p: p.offset)\n",
        _INDEX,
    ),
    Mutant(
        "a marker's last word",
        "recover/diverted_index.py",
        "yield replace(marker, range=replace(marker.range, end=first))",
        "yield marker",
        _INDEX,
    ),
    Mutant(
        "what has no events waiting for those before it",
        "recover/diverted_index.py",
        "            elif marker.range.start < first:\n",
        "            else:\n",
        _INDEX,
    ),
    Mutant(
        "a bound of what one record says",
        "park/diverted_topic.py",
        "range(0, len(ranges), _MOST_RANGES)",
        "range(0, len(ranges[:1]), _MOST_RANGES)",
        _INDEX,
    ),
)
OUTAGES: Final = (
    Mutant(
        "one record for all ranges without events",
        "driver/parts.py",
        "await _close(parts, closing_records(_markers(order, reports)))",
        "await _close(parts, _markers(order, reports))",
        f"{_OUTAGES}a_partition_without_events_costs_a_database_that_is_out_nothing_of_its_own",
    ),
    Mutant(
        "moving on over all partitions at once",
        "recover/drain.py",
        "            if markers[-1].digest == digest and of not in ranges:\n",
        "            if markers[-1].digest == digest and not ranges:\n",
        f"{_OUTAGES}a_partition_without_events_costs_a_database_that_is_out_nothing_of_its_own",
    ),
    Mutant(
        "moving on before what has events",
        "recover/drain.py",
        "            await self._advance_empty(database, [marker.range.incarnation])\n",
        "",
        f"{_OUTAGES}events_land_in_order_between_ranges_that_have_none",
    ),
    Mutant(
        "reading what was closed together",
        "driver/take_over.py",
        "elif isinstance(header, (RangeMarker, EmptyRanges)) and",
        "elif isinstance(header, RangeMarker) and",
        f"{_OUTAGES}what_passed_a_database_by_is_known_after_a_restart_and_after_a_crash",
    ),
    Mutant(
        "keeping the records of what has no events",
        "recover/diverted_index.py",
        "for w in ranges_of.all()\n",
        "for w in ranges_of.waiting\n",
        "tests/faults/test_trimming.py",
    ),
)
