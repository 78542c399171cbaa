"""The protections against releases that mix, and against growth without a bound."""

from typing import Final

from tests.mutants.machine import Mutant

_ROUTING: Final = "tests/unit/writer_sort/test_routing.py"
_RELEASES: Final = "tests/integration/writer/test_releases.py::test_"

_WATCHES: Final = "tests/integration/writer/test_watches.py::test_"

_SIZES: Final = "tests/unit/writer/test_sizes.py"
_BYTES: Final = "tests/faults/test_batches_of_bytes.py::test_f51_"

GROWTH: Final = (
    Mutant(
        "each life of a topic released by itself",
        "waiting_rows.py",
        "    return [list(part.values()) for part in parts]",
        "    return [list(taken)]",
        f"{_RELEASES}f50_the_events_of_a_topic_that_was_made_anew_are_released_beside_the_old_ones",
    ),
    Mutant(
        "each kind of row released by itself",
        "waiting_rows.py",
        "AND db_schema = %s AND typed = %s",
        "AND db_schema = %s AND (typed OR true OR %s)",
        f"{_RELEASES}f50_packets_for_a_landing_table_are_released_beside_its_own_events",
    ),
    Mutant(
        "a release that goes on where it was",
        "release.py",
        "                after = taken[-1].last\n",
        "",
        f"{_RELEASES}f51_a_release_walks_over_no_dead_row_twice",
    ),
    Mutant(
        "a release that reads by its key",
        "waiting_rows.py",
        "topic_id::text AS life, topic, partition",
        "topic_id::text, topic, partition",
        f"{_RELEASES}f51_a_release_walks_over_no_dead_row_twice",
    ),
    Mutant(
        "a release's look for what came meanwhile",
        "release.py",
        "            elif after == waiting_rows.BEGIN:\n",
        "            elif after:\n",
        f"{_RELEASES}events_that_come_during_a_release_are_released_by_it",
    ),
    Mutant(
        "a relay that goes on where it was",
        "outbox.py",
        "            after = keys[-1]\n",
        "            after = _BEGIN\n",
        f"{_RELEASES}f51_a_relay_walks_over_no_dead_row_twice",
    ),
    Mutant(
        "a relay's look for what came meanwhile",
        "outbox.py",
        "        elif after == _BEGIN:\n",
        "        elif after:\n",
        f"{_RELEASES}what_is_parked_during_a_relay_is_relayed_by_it",
    ),
    Mutant(
        "keeping the layout of routes",
        "routing.py",
        "        _kept[routes.digest] = found  # the last one used stands last\n",
        "",
        _ROUTING,
    ),
    Mutant(
        "keeping but a few layouts of routes",
        "routing.py",
        "            while len(_kept) >= _KEPT:\n",
        "            while len(_kept) < 0:\n",
        _ROUTING,
    ),
    Mutant(
        "looking only at contracts of the table's name",
        "routing.py",
        "if _WILD & set(contract.table) else",
        "if contract.table else",
        _ROUTING,
    ),
    Mutant(
        "making the routes' name once",
        "routes.py",
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
        "registry_routes.py",
        "        if self._made is None or self._made[0] is not snapshot:\n",
        "        if True:\n",
        _ROUTING,
    ),
    Mutant(
        "no watch for a table that somebody made up",
        "settlement.py",
        "                elif now.parked and not made_up:",
        "                elif now.parked:",
        f"{_WATCHES}f51_tables_that_somebody_made_up_are_not_watched",
    ),
    Mutant(
        "the watch of a table that was there",
        "settlement.py",
        "made_up = not share.seen and _is_unknown(done)",
        "made_up = _is_unknown(done)",
        f"{_WATCHES}a_table_that_was_there_is_watched_when_it_is_dropped",
    ),
    Mutant(
        "locking only what holds",
        "holds.py",
        """_HOLDING: Final = f"{_HOLDS} WHERE state <> 'watched'\"""",
        """_HOLDING: Final = f"{_HOLDS} WHERE true\"""",
        f"{_WATCHES}f51_a_transaction_locks_no_watched_type_and_reads_only_its_own",
    ),
    Mutant(
        "watching only so many",
        "holds.py",
        "            if self._more_watched:\n",
        "            if self._more_watched and not rows:\n",
        f"{_WATCHES}f51_only_so_many_are_watched_those_that_changed_last",
    ),
    Mutant(
        "the end of a watch",
        "settlement.py",
        "                    self.holds.unwatch(name)\n",
        "                    pass\n",
        f"{_WATCHES}a_type_that_is_well_again_is_watched_no_more",
    ),
    Mutant(
        "one watch of two tables",
        "holds.py",
        "        self._faded.discard(hold.name)\n",
        "",
        f"{_WATCHES}a_type_of_two_tables_is_judged_by_both",
    ),
)

BYTES: Final = (
    Mutant(
        "larger events believed at once",
        "sizes.py",
        "max(line.size / line.read, known * _FORGET, 1.0)",
        "max(known * _FORGET, 1.0) if known else line.size / line.read",
        _SIZES,
    ),
    Mutant(
        "caution with a topic of which nothing was read",
        "sizes.py",
        "_UNKNOWN: Final = 64 << 10",
        "_UNKNOWN: Final = 1",
        _SIZES,
    ),
    Mutant(
        "an event of each partition",
        "sizes.py",
        "[1] / each[p]), 1) for p in spans}",
        "[1] / each[p]), 0) for p in spans}",
        _SIZES,
    ),
    Mutant(
        "planning by bytes",
        "view.py",
        "self.sizes.bound(self._rates.share(unpinned, limit, landing, self._turns))",
        "self._rates.share(unpinned, limit, landing, self._turns)",
        f"{_BYTES}events_of_100_kb_come_in_batches_of_few",
    ),
    Mutant(
        "learning what tasks read",
        "batch.py",
        "        parts.view.sizes.count(lines)\n",
        "",
        f"{_BYTES}events_of_100_kb_come_in_batches_of_few",
    ),
    Mutant(
        "finishing a large plan in pieces",
        "view.py",
        "self.sizes.cut([r for r, of in found if of == routes])",
        "[r for r, of in found if of == routes]",
        f"{_BYTES}a_plan_that_is_too_large_is_finished_in_pieces_under_its_routes",
    ),
)
