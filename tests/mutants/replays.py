"""Mutants: a parked event is replayed once, and a rehearsal or a plan changes nothing."""

from typing import Final

from tests.mutants.machine import Mutant

MUTANTS: Final = (
    Mutant(
        "attempts that are known",
        "services/writer/replay/replay.py",
        "if not (s.is_known or s.is_old)",
        "if not s.is_old",
        "tests/integration/writer/test_replays.py::test_an_attempt_that_is_known_lands_nothing",
    ),
    Mutant(
        "the end of what was staged long ago",
        "services/writer/replay/replay.py",
        "if not (s.is_known or s.is_old)",
        "if not s.is_known",
        "tests/integration/writer/test_replays.py::test_replay_staged_more_than_a_quarter_of_an_hour_ago_is_dropped",
    ),
    Mutant(
        "a replay's own outcomes",
        "services/writer/replay/land.py",
        "{Outcome.LANDED: Outcome.REPLAYED,",
        "{Outcome.LANDED: Outcome.LANDED,",
        (
            "tests/integration/writer/"
            "test_replays.py::test_an_event_lands_with_its_own_receipt_and_parked_does_not_shrink"
        ),
    ),
    Mutant(
        "grants, for the table that was named",
        "services/writer/replay/target_table.py",
        "        return self._routing.allows(topic, target)",
        "        return True",
        "tests/integration/writer/test_replays.py::test_a_table_that_no_route_names_needs_another",
    ),
    Mutant(
        "schemas that are closed, for the table that was named",
        "services/writer/replay/target_table.py",
        "        if configured is None or is_closed(target.schema) or",
        "        if False and",
        "tests/integration/writer/test_replays.py::test_no_grant_opens_a_schema_that_is_closed",
    ),
    Mutant(
        "the order of a replay",
        "services/writer/replay/target_table.py",
        "key=lambda e: (group_of(e), e.offset)",
        "key=lambda e: (group_of(e), -e.offset)",
        (
            "tests/integration/writer/"
            "test_replays.py::test_they_land_in_the_order_of_their_sources_and_step_by_step"
        ),
    ),
    Mutant(
        "generations, to a replay",
        "services/writer/replay/land.py",
        "groupby(events, key=lambda e: e.topic_id)",
        "groupby(events, key=lambda e: None)",
        "tests/integration/writer/test_replays.py::test_replays_of_two_generations_of_a_topic_are_counted_separately",
    ),
    Mutant(
        "the end of a rehearsal",
        "services/writer/replay/rehearse.py",
        "                raise _RolledBackError  # noqa: TRY301 - it ends the transaction\n",
        "                return outcomes\n",
        "tests/integration/writer/test_rehearsals.py::test_rehearsal_reports_each_outcome_and_lands_nothing",
    ),
    Mutant(
        "the routes of today, for what is replayed",
        "services/writer/replay/target_table.py",
        "            if target.database == self._database and name == destination:\n",
        "            if name == destination:\n",
        (
            "tests/faults/"
            "test_edited_replays.py::test_an_edited_event_lands_with_its_id_its_linea"
            "ge_and_by_the_rights_of_today"
        ),
    ),
    Mutant(
        "that a row and what is said of its attempt are one transaction",
        "services/writer/replay/replay.py",
        "            staged_attempts.record(conn, ((s, outcomes[s.event.key]) for s in fresh))\n",
        (
            "            conn.commit()\n"
            "            staged_attempts.record(conn, ((s, outcomes[s.event.key]) for s in fresh))\n"
        ),
        (
            "tests/faults/"
            "test_refused_replays.py::test_a_writer_that_is_killed_at_each_place_sorts_and_la"
            "nds_what_was_refused_once"
        ),
    ),
    Mutant(
        "that the default database alone says where it belongs",
        "services/writer/replay/target_table.py",
        "elif error is None and not is_default and targets[0].database != self._database:",
        "elif False:",
        (
            "tests/integration/writer/"
            "test_replays_of_refused.py::test_routes_that_changed_since_it_was_sorted_bring_it_nowhere"
        ),
    ),
    Mutant(
        "that one attempt is one row",
        "services/writer/replay/target_table.py",
        "if error is None and len(targets) != 1:",
        "if error is None and not targets:",
        (
            "tests/integration/writer/test_replays_of_refused.py::test_event_refused_as_a_"
            "whole_that_now_has_several_tables_needs_a_named_table"
        ),
    ),
    Mutant(
        "that what was refused waits for its table",
        "services/writer/replay/replay.py",
        "return _WAITS if str(target) in held else None",
        "return None",
        (
            "tests/integration/writer/test_replays_of_refused.py::test_refused_event_waits_"
            "for_a_blocked_table_and_the_other_events_land"
        ),
    ),
    Mutant(
        "that each is tried alone where one of them fails",
        "services/writer/replay/replay.py",
        "after)\n            self._land_one_by_one(self._page)",
        "after)",
        (
            "tests/integration/writer/test_replays_of_refused.py::test_refused_event_that_"
            "fails_alone_stays_parked_and_other_events_land_or_are_sorted"
        ),
    ),
    Mutant(
        "that a header of another client is not repeated as it is",
        "shared/kafka_read/identity.py",
        "    received = _as_texts(received_at(records))\n",
        '    received = [h and h.decode() for h in records.column("received_at").to_pylist()]\n',
        "tests/integration/admin/test_reasons.py",
    ),
    Mutant(
        "that an event newly fails only if it landed",
        "services/writer/plan/outcome_diff.py",
        "if old.lands(e) and _fails_beyond",
        "if _fails_beyond",
        "tests/unit/writer_plan/test_outcome_diff.py",
    ),
    Mutant(
        "that an event newly passes only if it lands",
        "services/writer/plan/outcome_diff.py",
        "new.lands(e) and _fails_beyond",
        "_fails_beyond",
        "tests/unit/writer_plan/test_outcome_diff.py",
    ),
    Mutant(
        "that personal fields reach the samples",
        "services/writer/plan/plan.py",
        "        personal=_personal(old, new),\n",
        "",
        "tests/integration/writer_plan/test_changes.py::test_five_samples_are_shown_and_no_value_of_them",
    ),
    Mutant(
        "that no lock outlives its batch",
        "services/writer/plan/task.py",
        "                databases.drop()\n",
        "",
        (
            "tests/integration/writer_plan/"
            "test_changes.py::test_neither_lock_nor_copy_is_left_while_kafka_is_waited_for"
        ),
    ),
    Mutant(
        "that a copy is undone",
        "services/writer/persist/table_copies.py",
        "            self._conn.rollback()\n        except",
        "            self._conn.commit()\n        except",
        (
            "tests/integration/writer_plan/"
            "test_changes.py::test_neither_lock_nor_copy_is_left_while_kafka_is_waited_for"
        ),
    ),
)
