"""The protections of replays."""

from typing import Final

from tests.mutants.machine import Mutant

_REPLAYS: Final = "tests/integration/writer/test_replays.py::test_"

_KILLED: Final = (
    "tests/faults/test_f42_replays.py::test_f42_a_writer_that_is_killed_in_mid_replay_lands_each_event_once"
)
_PAGES: Final = (
    "tests/integration/writer/test_replays.py::"
    "test_beside_live_events_pages_are_small_and_for_as_long_as_one_took_none_is_taken"
)
_BESIDE: Final = (
    "tests/faults/test_f39_replays_beside_live_events.py::"
    "test_f39_live_events_land_while_a_replay_of_many_is_under_way"
)
_EDITED: Final = (
    "tests/faults/test_a12_edited_replays.py::"
    "test_a12_an_edited_event_lands_with_its_id_its_lineage_and_by_the_rights_of_today"
)

#: Under a whole writer.
REPLAYS_KILLED: Final = (
    Mutant(
        "what a replay says of itself",
        "replay/replay.py",
        "            staged.record(conn, ((s, verdicts[s.event.key]) for s in fresh))\n",
        "",
        _KILLED,
    ),
    Mutant(
        "the look that sees what is staged",
        "driver/collector.py",
        "        if is_staged:\n",
        "        if False:\n",
        "tests/unit/writer/test_collector.py::"
        "test_what_is_staged_is_seen_in_each_database_while_another_one_hangs",
    ),
    Mutant(
        "the thread that a replay has to itself",
        "replay/scheduler.py",
        "asyncio.create_task(in_own_thread(_run, replays, routes))",
        "asyncio.create_task(asyncio.sleep(0, _run(replays, routes)))",
        _BESIDE,
    ),
    Mutant(
        "that the pages of a replay are small while live events come",
        "replay/replay.py",
        "min(self._at_once, _AT_ONCE_BESIDE) if self._live_come() else self._at_once",
        "self._at_once",
        _PAGES,
    ),
    Mutant(
        "the pauses of a replay while live events come",
        "replay/replay.py",
        "            if after is not None and self._live_come():\n",
        "            if False:\n",
        _PAGES,
    ),
    Mutant(
        "that a batch under way is of live events",
        "driver/loop.py",
        "with self._parts.status.batch(), self._parts.databases.replays.live.batch():",
        "with self._parts.status.batch():",
        _BESIDE,
    ),
    Mutant(
        "that live events come for a moment after a batch",
        "replay/live.py",
        "            self._until = self._clock() + _AFTER_SECONDS\n",
        "",
        "tests/unit/writer/test_live_events.py",
    ),
    Mutant(
        "the pages of a replay",
        "replay/replay.py",
        "_AT_ONCE: Final = 1_000",
        "_AT_ONCE: Final = 1_000_000",
        _BESIDE,
    ),
    Mutant(
        "the routes of today, for what is replayed",
        "replay/place.py",
        "            if target.database == self._database and name == destination:\n",
        "            if name == destination:\n",
        _EDITED,
    ),
    Mutant(
        "that a replay says which bytes it landed",
        "replay/staged.py",
        'r.job, coalesce(r."to", v."to"), r.sha256\n',
        'r.job, coalesce(r."to", v."to"), NULL::bytea\n',
        _EDITED,
    ),
)
REPLAYS: Final = (
    Mutant(
        "attempts that are known",
        "replay/replay.py",
        "if not (s.is_known or s.is_old)",
        "if not s.is_old",
        f"{_REPLAYS}f42_an_attempt_that_is_known_lands_nothing",
    ),
    Mutant(
        "the end of what was staged long ago",
        "replay/replay.py",
        "if not (s.is_known or s.is_old)",
        "if not s.is_known",
        f"{_REPLAYS}what_was_staged_long_ago_is_dropped",
    ),
    Mutant(
        "a replay's own outcomes",
        "replay/land.py",
        "{Outcome.LANDED: Outcome.REPLAYED,",
        "{Outcome.LANDED: Outcome.LANDED,",
        f"{_REPLAYS}an_event_lands_with_its_own_receipt_and_parked_does_not_shrink",
    ),
    Mutant(
        "the table that a replay was parked for, in its count",
        "replay/land.py",
        "        self._parked_for = str(target) if refused else",
        "        self._parked_for = str(target) if target else",
        f"{_REPLAYS}a_table_that_no_route_names_needs_another",
    ),
    Mutant(
        "tables that hold, to a replay",
        "replay/replay.py",
        "{*holds.peek(conn).tables, *self._passed_over}",
        "{*self._passed_over}",
        f"{_REPLAYS}nothing_lands_in_a_table_that_holds_and_the_others_land",
    ),
    Mutant(
        "tables that are passed over",
        "replay/replay.py",
        "        self._passed_over.add(table)\n        return after",
        "        self._passed_over.add(table)\n        return None",
        f"{_REPLAYS}a15_a_table_that_is_locked_is_passed_over_and_gets_no_hold",
    ),
    Mutant(
        "grants, for the table that was named",
        "replay/place.py",
        "        return self._routing.allows(topic, target)",
        "        return True",
        f"{_REPLAYS}a_table_that_no_route_names_needs_another",
    ),
    Mutant(
        "schemas that are closed, for the table that was named",
        "replay/place.py",
        "        if configured is None or is_closed(target.schema) or",
        "        if False and",
        f"{_REPLAYS}no_grant_opens_a_schema_that_is_closed",
    ),
    Mutant(
        "the order of a replay",
        "replay/place.py",
        "key=lambda e: (group_of(e), e.offset)",
        "key=lambda e: (group_of(e), -e.offset)",
        f"{_REPLAYS}they_land_in_the_order_of_their_sources_and_step_by_step",
    ),
    Mutant(
        "the table's fault, where none of it lands",
        "replay/suspects.py",
        "if table in self._passed or len(failed) == 1:",
        "if True:",
        f"{_REPLAYS}an_event_that_fails_alone_stays_parked_where_others_land",
    ),
    Mutant(
        "a replay's share of the rate",
        "replay/replay.py",
        "            self._rate_limiter.consume(self._database.name, len(fresh))\n",
        "",
        f"{_REPLAYS}the_databases_rate_counts",
    ),
    Mutant(
        "the question whether a replay may land",
        "replay/replay.py",
        "while after is not None and self._may_land():",
        "while after is not None:",
        f"{_REPLAYS}nothing_lands_once_it_may_not",
    ),
    Mutant(
        "rows that somebody has locked",
        "replay/staged.py",
        "LIMIT %s FOR UPDATE OF r SKIP LOCKED",
        "LIMIT %s",
        f"{_REPLAYS}what_somebody_has_locked_is_theirs",
    ),
    Mutant(
        "incarnations, to a replay",
        "replay/land.py",
        "groupby(events, key=lambda e: e.topic_id)",
        "groupby(events, key=lambda e: None)",
        f"{_REPLAYS}the_incarnations_of_a_topic_are_told_apart",
    ),
)
_REHEARSALS: Final = "tests/integration/writer/test_rehearsals.py::test_"
REHEARSALS: Final = (
    Mutant(
        "the end of a rehearsal",
        "replay/rehearse.py",
        "                raise _RolledBackError  # noqa: TRY301 - it ends the transaction\n",
        "                return verdicts\n",
        f"{_REHEARSALS}what_would_land_is_said_and_nothing_lands",
    ),
    Mutant(
        "one job in a rehearsal",
        "replay/rehearse.py",
        "AND (job, with_triggers) =\n",
        "OR (job, with_triggers) =\n",
        f"{_REHEARSALS}what_would_land_is_said_and_nothing_lands",
    ),
    Mutant(
        "triggers, to a rehearsal",
        "replay/rehearse.py",
        "if found == (True,) and not with_triggers:",
        "if False:",
        f"{_REHEARSALS}a_table_with_triggers_asks_for_a_flag",
    ),
    Mutant(
        "tables that a rehearsal would make",
        "replay/rehearse.py",
        "return None if target.typed else _unknown",
        "return None and _unknown",
        f"{_REHEARSALS}what_cannot_be_tried_is_unknown_and_the_others_are_answered",
    ),
    Mutant(
        "that a rehearsal waits for no long replay",
        "replay/scheduler.py",
        "replay.run(routes, between=answer)",
        "replay.run(routes)",
        f"{_REHEARSALS}a_rehearsal_is_answered_between_the_pages_of_a_long_replay",
    ),
)
