"""Mutants: parked events are stored once, with their own bytes, until an operator decides."""

from typing import Final

from tests.mutants.machine import Mutant

MUTANTS: Final = (
    Mutant(
        "that what the control database refuses of an event holds up no others",
        "services/admin/dead_letters/ingester.py",
        "asyncio.to_thread(quarantine_sql.keep, session, *found)",
        "asyncio.to_thread(session.keep, *found)",
        (
            "tests/integration/admin/"
            "test_quarantine.py::test_a_service_sets_aside_what_is_refused_and_keeps_the_others"
        ),
    ),
    Mutant(
        "that each event beside one which is refused is kept",
        "services/admin/dead_letters/quarantine_sql.py",
        "        if len(events) > 1:\n",
        "        if False:\n",
        (
            "tests/integration/admin/"
            "test_quarantine.py::test_refused_event_is_quarantined_and_is_stored_when_the_database_accepts_it"
        ),
    ),
    Mutant(
        "that what was set aside is kept once it can be",
        "services/admin/dead_letters/quarantine_sql.py",
        "            _rows(session, _REMOVE, key)\n",
        "",
        (
            "tests/integration/admin/"
            "test_quarantine.py::test_refused_event_is_quarantined_and_is_stored_when_the_database_accepts_it"
        ),
    ),
    Mutant(
        "that the ingester writes texts as COPY reads them",
        "services/ops/parked/copy_lines.py",
        '    escaped = text.replace("\\\\", "\\\\\\\\").replace("\\t", "\\\\t")\n',
        "    escaped = text\n",
        "tests/integration/admin/test_ingester.py::test_texts_of_any_kind_are_kept_as_they_are",
    ),
    Mutant(
        "that a segment is recorded by the transaction that removes its bytes from the database",
        "services/admin/store/segments_sql.py",
        '            failpoints.reach("admin.segment_written")\n',
        (
            "            cur.execute(_LEAVE, (due.first, due.last))\n"
            "            self.conn.commit()\n"
            '            failpoints.reach("admin.segment_written")\n'
        ),
        (
            "tests/integration/admin/"
            "test_segments.py::test_a_kill_in_mid_move_loses_nothing_and_leaves_no_file"
        ),
    ),
    Mutant(
        "that files of segments which were never recorded are removed",
        "services/admin/store/segments_sql.py",
        "        return sum(self._remove(name) for name in unused)\n",
        "        return len(unused)\n",
        (
            "tests/integration/admin/"
            "test_segments.py::test_a_file_that_was_never_recorded_is_removed_by_the_next_and_no_others"
        ),
    ),
    Mutant(
        "that bytes of segments are removed only when what they are of is long over",
        "services/admin/store/retention_sql.py",
        "    AND changed_at < now() - interval '{RETENTION_DAYS} days 1 hour'\n",
        "\n",
        (
            "tests/integration/admin/"
            "test_segments.py::test_bytes_of_events_closed_over_seven_days_ago_are_removed_in_whole_or_in_part"
        ),
    ),
    Mutant(
        "that a segment which is damaged is not rewritten",
        "services/admin/segments/segment.py",
        "                raise _damaged(name) from None\n",
        "                continue\n",
        "tests/unit/admin/test_segments.py::test_damage_loses_the_events_of_its_row_group_alone",
    ),
    Mutant(
        "that bytes are compared with what was kept",
        "services/admin/store/bytes_sql.py",
        "    if sha256(found).digest() == digest:\n",
        "    if True:\n",
        "tests/integration/admin/test_segments.py::test_bytes_that_are_not_what_was_kept_are_never_given",
    ),
    Mutant(
        "that a damaged row group of a segment loses nothing else",
        "services/admin/segments/segment.py",
        (
            "        found.lost |= {event: _damaged(name) for event in ids if event not in "
            "found.values}\n"
            "        return\n"
        ),
        "        raise\n",
        "tests/unit/admin/test_segments.py::test_damage_loses_the_events_of_its_row_group_alone",
    ),
    Mutant(
        "that a missing bucket is not taken for an empty one when its files are listed",
        "services/admin/segments/folder.py",
        "        if not (found or _is_local(fs)):",
        "        if False:",
        (
            "tests/integration/admin/"
            "test_bucket.py::test_missing_bucket_is_reported_and_not_treated_as_an_empty_bucket"
        ),
    ),
    Mutant(
        "that a replay job names an event whose bytes are lost, and stages no other bytes for it",
        "services/admin/store/staging_sql.py",
        "[a for a in part if a.id not in loaded.lost]",
        "part",
        (
            "tests/integration/admin/"
            "test_replay_jobs.py::test_an_event_whose_bytes_are_lost_fails_by_name_and_stops_no_other"
        ),
    ),
    Mutant(
        "the ingester's offsets in the events' transaction",
        "services/admin/store/ingester_sql.py",
        "            causes = self._counted_under(unique)\n",
        (
            "            _move(cur, next_offsets)\n"
            "            self.conn.commit()\n"
            "            causes = self._counted_under(unique)\n"
        ),
        (
            "tests/integration/admin/"
            "test_ingester.py::test_a_keeper_that_is_killed_in_mid_slice_keeps_each_event_once"
        ),
    ),
    Mutant(
        "that the ingester knows a repeat",
        "services/admin/store/ingester_sql.py",
        "        ON CONFLICT ({_PLACE}) DO NOTHING\n        RETURNING",
        "        RETURNING",
        "tests/integration/admin/test_repeats.py",
    ),
    Mutant(
        "that a topic which was recreated is another one to the keeper",
        "services/admin/dead_letters/ingester.py",
        " if source not in recreated}",
        "}",
        "tests/integration/admin/test_parked_topic.py",
    ),
    Mutant(
        "that the ingester opens a resolved group again",
        "services/admin/store/ingester_sql.py",
        "CASE g.state WHEN 'resolved' THEN 'open' ELSE g.state END",
        "g.state",
        "tests/integration/admin/test_ingester.py::test_a_resolved_group_opens_again_when_it_gets_an_event",
    ),
    Mutant(
        "that the ingester is one",
        "services/admin/store/ingester_sql.py",
        "            if cur.fetchone() != (True,):\n                return None\n",
        "            cur.fetchone()\n",
        "tests/integration/admin/test_ingester.py::test_beyond_the_most_groups_causes_are_counted_together",
    ),
    Mutant(
        "the signature of the ingester's cursors",
        "services/admin/api/cursors.py",
        "if not hmac.compare_digest(signature, _signature(key, listed, filters, body)):",
        "if not body:",
        (
            "tests/integration/admin/"
            "test_admin_api.py::test_a_cursor_that_was_changed_or_is_of_another_list_is_refused"
        ),
    ),
    Mutant(
        "that of two jobs one changes an event",
        "services/admin/store/job_progress_sql.py",
        " AND batch.fits AND s.state = %(from)s RETURNING",
        " AND batch.fits RETURNING",
        (
            "tests/integration/admin/"
            "test_states.py::test_job_skips_an_event_that_another_transaction_changed_while_the_job_waited"
        ),
    ),
    Mutant(
        "that the set of a job is frozen",
        "services/admin/store/sets_sql.py",
        'sql.SQL("e.id <= %(upto)s")',
        'sql.SQL("%(upto)s > 0")',
        "tests/integration/admin/test_jobs.py::test_a_set_is_frozen_what_is_kept_later_is_not_in_it",
    ),
    Mutant(
        "that a job is for as many events as were counted",
        "services/admin/store/jobs_sql.py",
        "    if expected is not None and expected != counted:\n",
        "    if False:\n",
        (
            "tests/integration/admin/test_jobs.py::test_discarded_event_is_not_discarded_"
            "again_and_a_changed_set_is_refused"
        ),
    ),
    Mutant(
        "that a replay job stages only what its database does not know",
        "services/admin/store/staging_sql.py",
        "if f.outcome is None and not f.staged and f.known is None}",
        "if not f.staged}",
        (
            "tests/integration/admin/"
            "test_replay_jobs.py::test_a_step_that_is_cut_after_it_staged_stages_nothing_twice"
        ),
    ),
    Mutant(
        "that a replay job stages others beside one that a restored dump brought back",
        "services/admin/store/staging_sql.py",
        "        execute_values(cur, _STAGE, rows, page_size=_ROWS)\n",
        "",
        (
            "tests/integration/admin/"
            "test_replay_jobs.py::test_beside_an_earlier_attempt_that_a_dump_brought_back_the"
            "_others_are_staged"
        ),
    ),
    Mutant(
        "that a replay job which is cancelled asks what landed",
        "services/admin/store/staging_sql.py",
        "        found = _query(cur, by, attempts)  # a later statement",
        "        found = [AttemptState(a.id, None, None, True) for a in attempts]  #",
        (
            "tests/integration/admin/"
            "test_replay_jobs.py::test_a_cancel_reopens_what_it_took_back_and_nothing_that_landed"
        ),
    ),
    Mutant(
        "that each replay job has an attempt of its own",
        "services/admin/store/sets_sql.py",
        "_CAN_BE_REPLAYED, attempts=1)",
        "_CAN_BE_REPLAYED)",
        (
            "tests/integration/admin/"
            "test_replay_jobs.py::test_event_that_fails_again_reopens_with_its_reason_and_gets_another_attempt"
        ),
    ),
    Mutant(
        "that a fix leaves all but the payload of an event as it is",
        "services/ops/fixes/payloads.py",
        (
            "        fix.apply(document[body], most)\n"
            "        return _with_body(value, body, exact.dumps(document[body]), most)\n"
        ),
        (
            "        fix.apply(document, most)\n"
            "        edited = exact.dumps(document)\n"
            "        return Edited(edited, sha256(edited).digest())\n"
        ),
        ("tests/unit/ops/test_fixes.py::test_whatever_a_patch_says_all_but_the_payload_stays_byte_for_byte"),
    ),
    Mutant(
        "that a line of edited events cannot say another id, name or place",
        "services/ops/fixes/edited_lines.py",
        "    if changed:\n",
        "    if False:\n",
        ("tests/unit/ops/test_edited_lines.py::test_a_line_that_says_another_id_name_or_place_is_refused"),
    ),
    Mutant(
        "that edits stay while an event of them is open",
        "services/admin/store/retention_sql.py",
        "AND ({_EXPIRED}) IS NOT TRUE",
        "AND false",
        (
            "tests/integration/admin/"
            "test_segments.py::test_uploaded_edits_are_retained_until_all_events_of_the_upload_are_closed"
        ),
    ),
    Mutant(
        "that an edit is of one event of a file",
        "services/admin/store/edits_sql.py",
        "        if edit.event not in added or first[edit.event] != number:\n",
        "        if False:\n",
        (
            "tests/integration/admin/"
            "test_edits.py::test_a_line_that_cannot_be_taken_is_named_and_none_of_the_others_is"
        ),
    ),
    Mutant(
        "that an attempt that is staged again has its other table",
        "services/admin/store/staging_sql.py",
        "            *by,\n",
        "            by.job,\n            None,\n",
        (
            "tests/integration/admin/"
            "test_replay_jobs.py::test_another_table_is_staged_and_also_when_an_attempt_is_staged_again"
        ),
    ),
    Mutant(
        "that keys which come twice are no payload for a fix",
        "services/ops/fixes/exact.py",
        "    if len(members) < len(pairs):\n",
        "    if False:\n",
        "tests/unit/ops/test_fixes.py::test_an_event_without_a_payload_has_none_to_fix",
    ),
    Mutant(
        "that a rehearsal leaves nothing where it asked",
        "services/admin/jobs/rehearse.py",
        "        _forget(job, databases, databases)\n",
        "",
        "tests/integration/admin/test_rehearsal_jobs.py::test_a_rehearsal_that_is_cancelled_leaves_nothing",
    ),
    Mutant(
        "that a recheck opens only what no attempt has landed of",
        "services/admin/store/recheck_sql.py",
        " AND d.outcome IN ('landed', 'duplicate')),",
        " AND d.attempt = k.attempt AND d.outcome IN ('landed', 'duplicate')),",
        "tests/integration/admin/test_recheck.py::test_event_that_landed_under_another_attempt_is_not_lost",
    ),
    Mutant(
        "that an attempt that failed did not land",
        "services/admin/store/recheck_sql.py",
        " AND d.outcome IN ('landed', 'duplicate')),",
        "),",
        "tests/integration/admin/test_recheck.py::test_an_attempt_that_failed_there_is_not_one_that_landed",
    ),
    Mutant(
        "that a recheck leaves what may still land",
        "services/admin/store/recheck_sql.py",
        "if a.id not in known | staged)",
        "if a.id not in known)",
        (
            "tests/integration/admin/"
            "test_recheck.py::test_event_that_a_restored_dump_has_staged_is_counted_as_staged_and_not_lost"
        ),
    ),
    Mutant(
        "that a job takes what was refused",
        "services/admin/store/sets_sql.py",
        "OR e.destination = '' OR starts_with(e.destination, '/'))",
        ")",
        (
            "tests/integration/admin/test_replays_of_refused.py::test_refused_event_lands_by_"
            "the_current_routes_or_fails_again_with_its_cause"
        ),
    ),
    Mutant(
        "that what was sorted is staged where it belongs",
        "services/admin/attempts.py",
        "        self._queue.extend(routed.items())\n",
        "",
        (
            "tests/integration/admin/test_replays_of_refused.py::test_refused_event_lands_by_"
            "the_current_routes_or_fails_again_with_its_cause"
        ),
    ),
)
