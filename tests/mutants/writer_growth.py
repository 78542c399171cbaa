"""The protections against releases that mix, and against growth without a bound."""

from typing import Final

from tests.mutants.machine import Mutant

_RELEASES: Final = "tests/integration/writer/test_releases.py::test_"

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
)
