"""The protections of what keeps parked events, and of the API over it."""

from typing import Final

from tests.mutants.machine import Mutant

_KEEPER: Final = "tests/integration/admin/test_keeper.py::test_"
_JOBS: Final = "tests/integration/admin/test_jobs.py::test_"
_REPLAYS: Final = "tests/integration/admin/test_replay_jobs.py::test_"
_RECHECK: Final = "tests/integration/admin/test_recheck.py::test_"
_FIXES: Final = "tests/unit/admin/test_fixes.py::test_"
_LINES: Final = "tests/unit/admin/test_edited_lines.py::test_"
_EDITS: Final = "tests/integration/admin/test_edits.py::test_"
_REHEARSALS: Final = "tests/integration/admin/test_rehearsal_jobs.py::test_"
_API: Final = "tests/integration/admin/test_admin_api.py::test_"
_WAITS: Final = "tests/faults/test_what_waits.py::test_"
_RECREATED: Final = "tests/integration/admin/test_recreated.py"
_REPEATS: Final = "tests/integration/admin/test_repeats.py::test_"
_STATES: Final = "tests/integration/admin/test_states.py::test_"
_COUNTS: Final = "tests/integration/admin/test_counts.py::test_"
_FACETS: Final = "tests/integration/admin/test_facets.py::test_"
_OF_FACETS: Final = "tests/unit/admin/test_facets.py::test_"
_LOOKS: Final = "tests/integration/admin/test_looks.py::test_"
_AWAY: Final = "tests/integration/admin/test_store_away.py::test_"
_FROZEN: Final = "tests/integration/admin/test_frozen.py::test_"
_ERRORS: Final = "tests/integration/admin/test_errors.py::test_"

_FILES: Final = "tests/unit/admin/test_segments.py::test_"
_PATIENCE: Final = "tests/unit/admin/test_patience.py::test_"
_BUCKET: Final = "tests/integration/admin/test_bucket.py::test_"
_SEGMENTS: Final = "tests/integration/admin/test_segments.py::test_"

KEEPER: Final = (
    Mutant(
        "that the keeper takes names of any length",
        "errors/cause.py",
        "    name = name and name[:_LONGEST_NAME]\n",
        "",
        f"{_KEEPER}foreign_records_are_passed_over_and_hold_up_nothing",
    ),
    Mutant(
        "that the keeper writes texts as COPY reads them",
        "errors/copy_lines.py",
        '    escaped = text.replace("\\\\", "\\\\\\\\").replace("\\t", "\\\\t")\n',
        "    escaped = text\n",
        f"{_KEEPER}texts_of_any_kind_are_kept_as_they_are",
    ),
    Mutant(
        "that a segment is recorded by the transaction that removes its bytes from the database",
        "store/segments_sql.py",
        '            failpoints.reach("admin.segment_written")\n',
        "            cur.execute(_LEAVE, (due.first, due.last))\n            self.conn.commit()\n"
        '            failpoints.reach("admin.segment_written")\n',
        f"{_SEGMENTS}f42_a_kill_in_mid_move_loses_nothing_and_leaves_no_file",
    ),
    Mutant(
        "that files of segments which were never recorded are removed",
        "store/segments_sql.py",
        "            self.segments.remove(name)\n        return len(unused)\n",
        "            pass\n        return len(unused)\n",
        f"{_SEGMENTS}a_file_that_was_never_recorded_is_removed_by_the_next_and_no_others",
    ),
    Mutant(
        "that the packer of segments is one",
        "store/segments_sql.py",
        "            if is_ours:\n",
        "            if folder:\n",
        f"{_SEGMENTS}bytes_leave_the_database_after_an_hour_and_are_read_as_they_were",
    ),
    Mutant(
        "that bytes of segments are removed only when what they are of is long over",
        "store/segments_sql.py",
        "    AND changed_at < now() - interval '{KEPT_DAYS} days 1 hour'\n",
        "\n",
        f"{_SEGMENTS}what_was_over_seven_days_ago_is_removed_whole_or_in_part",
    ),
    Mutant(
        "that a segment which is damaged is not rewritten",
        "segments/segment.py",
        "                raise _damaged(name) from None\n",
        "                continue\n",
        f"{_FILES}damage_loses_the_events_of_its_row_group_alone",
    ),
    Mutant(
        "that bytes are compared with what was kept",
        "store/bytes_sql.py",
        "    if digest is None or sha256(found).digest() == digest:\n",
        "    if True:\n",
        f"{_SEGMENTS}bytes_that_are_not_what_was_kept_are_never_given",
    ),
    Mutant(
        "that a damaged row group of a segment loses nothing else",
        "segments/segment.py",
        "        found.lost |= {event: _damaged(name) for event in ids if event not in found.values}\n"
        "        return\n",
        "        raise\n",
        f"{_FILES}damage_loses_the_events_of_its_row_group_alone",
    ),
    Mutant(
        "that a segment which cannot be written takes no room",
        "segments/folder.py",
        "                    self._call(lambda: fs.delete_file(path))\n",
        "                    pass\n",
        f"{_FILES}f31_what_cannot_be_written_whole_takes_no_room",
    ),
    Mutant(
        "that a folder of segments which is away is waited for",
        "segments/folder.py",
        "            self._require_base(fs, base)\n",
        "            pass\n",
        f"{_FILES}a_missing_file_is_named_and_a_folder_that_is_away_is_waited_for",
    ),
    Mutant(
        "that what a bucket refuses by is not taken for damage of a file",
        "segments/files.py",
        "            raise refused(e) from None\n",
        "            raise\n",
        f"{_BUCKET}a_bucket_that_refuses_to_give_a_file_has_damaged_nothing",
    ),
    Mutant(
        "that a call to a silent server has an end",
        "segments/patience.py",
        "call.is_done or self._is_over, deadline - time.monotonic())",
        "call.is_done or self._is_over)",
        f"{_PATIENCE}a_silent_call_is_given_up_and_no_more_are_made_than_so_many",
    ),
    Mutant(
        "that calls to a silent server are few",
        "segments/patience.py",
        "        return len(self._calls) < self._at_once\n",
        "        return True\n",
        f"{_PATIENCE}a_silent_call_is_given_up_and_no_more_are_made_than_so_many",
    ),
    Mutant(
        "that a service which stops gives up what is silent",
        "segments/patience.py",
        "            self._is_over = True\n",
        "            pass\n",
        f"{_PATIENCE}the_end_gives_up_what_is_under_way_and_refuses_the_rest",
    ),
    Mutant(
        "that a silent server of S3 does not keep the service from ending",
        "__main__.py",
        "        if segments and segments.is_waiting:\n",
        "        if False:\n",
        f"{_BUCKET}a_server_that_is_silent_holds_up_neither_keeping_nor_reads_nor_the_end",
    ),
    Mutant(
        "that what a call leaves which was given up is removed",
        "store/segments_sql.py",
        "        self.sweep()\n        with",
        "        with",
        f"{_BUCKET}a_file_that_was_never_recorded_is_removed_from_a_bucket",
    ),
    Mutant(
        "that an empty bucket is one that is there",
        "segments/folder.py",
        "            found = self._call(lambda: fs.get_file_info(bucket or base))\n",
        "            found = self._call(lambda: fs.get_file_info(base))\n",
        f"{_BUCKET}an_empty_bucket_has_lost_its_files_and_is_there",
    ),
    Mutant(
        "that a missing bucket is not taken for an empty one when its files are listed",
        "segments/folder.py",
        "        if not (found or _is_local(fs)):",
        "        if False:",
        f"{_BUCKET}a_bucket_that_is_not_there_is_not_taken_for_an_empty_one",
    ),
    Mutant(
        "that a missing bucket is not taken for an empty one when a file is removed",
        "segments/folder.py",
        "        except FileNotFoundError:\n            self._require_base(fs, base)\n        except",
        "        except FileNotFoundError:\n            pass\n        except",
        f"{_BUCKET}a_bucket_that_is_not_there_is_not_taken_for_an_empty_one",
    ),
    Mutant(
        "that a replay job names an event whose bytes are lost, and stages no other bytes for it",
        "store/staging_sql.py",
        "[a for a in some if a.id not in loaded.lost]",
        "some",
        f"{_REPLAYS}an_event_whose_bytes_are_lost_fails_by_name_and_stops_no_other",
    ),
    Mutant(
        "the keeper's offsets in the events' transaction",
        "store/keeper_sql.py",
        "            causes = self._counted_under(unique)\n",
        "            _move(cur, next_offsets)\n            self.conn.commit()\n"
        "            causes = self._counted_under(unique)\n",
        f"{_KEEPER}f42_a_keeper_that_is_killed_in_mid_slice_keeps_each_event_once",
    ),
    Mutant(
        "that the keeper knows a repeat",
        "store/keeper_sql.py",
        "        ON CONFLICT DO NOTHING\n        RETURNING",
        "        RETURNING",
        f"{_KEEPER}a_repeat_of_a_record_is_the_same_event",
    ),
    Mutant(
        "that a slice with a repeat goes by way of a stage",
        "store/keeper_sql.py",
        "    except UniqueViolation:\n",
        "    except ZeroDivisionError:\n",
        f"{_REPEATS}slices_that_come_twice_in_whole_or_in_part_are_kept_once",
    ),
    Mutant(
        "the bytes of what is new in a slice with repeats",
        "store/keeper_sql.py",
        "b USING (n) ORDER",
        "b ON b.n = s.n + 1 ORDER",
        f"{_REPEATS}slices_that_come_twice_in_whole_or_in_part_are_kept_once",
    ),
    Mutant(
        "that a topic which was recreated is another one to the keeper",
        "keep/keeper.py",
        " if source not in recreated}",
        "}",
        _RECREATED,
    ),
    Mutant(
        "that a topic which was recreated is another one to the audit",
        "audit/kept.py",
        "            and of.get(source) in {None, topic_ids.get(source.topic)}\n",
        "",
        _RECREATED,
    ),
    Mutant(
        "that the keeper opens a resolved group again",
        "store/keeper_sql.py",
        "CASE g.state WHEN 'resolved' THEN 'open' ELSE g.state END",
        "g.state",
        f"{_KEEPER}a_resolved_group_opens_again_when_it_gets_an_event",
    ),
    Mutant(
        "that the keeper is one",
        "store/keeper_sql.py",
        "            if cur.fetchone() != (True,):\n                return None\n",
        "            cur.fetchone()\n",
        f"{_KEEPER}beyond_the_most_groups_causes_are_counted_together",
    ),
    Mutant(
        "the keeper's most groups",
        "errors/groups.py",
        " and len(added) < room",
        "",
        f"{_KEEPER}beyond_the_most_groups_causes_are_counted_together",
    ),
    Mutant(
        "that the keeper passes over what no client of ours wrote",
        "errors/kept.py",
        "    if not _fits(event):\n        return None\n",
        "",
        f"{_KEEPER}foreign_records_are_passed_over_and_hold_up_nothing",
    ),
    Mutant(
        "the signature of the keeper's cursors",
        "api/cursors.py",
        "if not hmac.compare_digest(signature, _signature(key, listed, filters, body)):",
        "if not body:",
        f"{_API}a2_a_cursor_that_was_changed_or_is_of_another_list_is_refused",
    ),
    Mutant(
        "that of two jobs one changes an event",
        "store/work_sql.py",
        " AND batch.fits AND s.state = %(from)s RETURNING",
        " AND batch.fits RETURNING",
        f"{_STATES}a_job_that_waited_for_an_event_leaves_it_to_who_had_it",
    ),
    Mutant(
        "that a job counts what it leads from",
        "store/sets_sql.py",
        'sql.SQL(f"e.state = %(from)s AND {step.holds}")',
        "sql.SQL(f\"e.state <> %(from)s || '!' AND {step.holds}\")",
        f"{_JOBS}a7_what_is_discarded_is_not_discarded_again_and_a_set_that_changed_is_refused",
    ),
    Mutant(
        "that the set of a job is frozen",
        "store/sets_sql.py",
        'sql.SQL("e.id <= %(upto)s")',
        'sql.SQL("%(upto)s > 0")',
        f"{_JOBS}a_set_is_frozen_what_is_kept_later_is_not_in_it",
    ),
    Mutant(
        "the days in which a job restores",
        "store/sets_sql.py",
        "f\"e.changed_at > now() - interval '{UNDO_DAYS} days'\"",
        '"true"',
        f"{_JOBS}a_discard_is_undone_within_seven_days",
    ),
    Mutant(
        "that a job needs a filter",
        "api/jobs.py",
        "    if not filters and asked.rehearsed is None:\n",
        "    if False:\n",
        f"{_JOBS}a4_a_job_without_a_filter_is_refused",
    ),
    Mutant(
        "that an event is found by its id before Postgres has statistics",
        "store/sql/0013_by_event_id.sql",
        "(event_id, id)",
        "(event_id)",
        "tests/integration/admin/test_plans.py::"
        "test_a_page_is_read_by_the_index_of_its_filter_and_never_sorted",
    ),
    Mutant(
        "that a job is for as many events as were counted",
        "api/jobs.py",
        "    if asked.expect is not None and asked.expect != counted:\n",
        "    if False:\n",
        f"{_JOBS}a7_what_is_discarded_is_not_discarded_again_and_a_set_that_changed_is_refused",
    ),
    Mutant(
        "that a job has its rate",
        "store/work_sql.py",
        "    return min(_BATCH, of.rate or _BATCH)\n",
        "    return _BATCH\n",
        f"{_JOBS}a11_a_batch_is_what_may_change_in_a_second",
    ),
    Mutant(
        "that a replay job stages only what its database does not know",
        "store/staging_sql.py",
        "if f.outcome is None and not f.staged}",
        "if not f.staged}",
        f"{_REPLAYS}f42_a_step_that_is_cut_after_it_staged_stages_nothing_twice",
    ),
    Mutant(
        "that a replay job stages again what was dropped",
        "store/staging_sql.py",
        "for a in attempts if a.id in missing]",
        "for a in attempts if a.id in missing and a.id % 2]",
        f"{_REPLAYS}what_was_dropped_is_staged_again_under_its_attempt",
    ),
    Mutant(
        "that a replay job which is cancelled asks what landed",
        "store/staging_sql.py",
        "        found = _look(cur, attempts)  # a later statement: it sees what landed while we waited\n",
        "        found = [Found(a.id, None, None, True) for a in attempts]\n",
        f"{_REPLAYS}a_cancel_reopens_what_it_took_back_and_nothing_that_landed",
    ),
    Mutant(
        "how much a replay job stages ahead",
        "store/work_sql.py",
        "_do_batch(conn, job, databases, replay_sql.MOST_STAGED - left)",
        "_do_batch(conn, job, databases)",
        f"{_REPLAYS}no_more_is_staged_ahead_than_may_be",
    ),
    Mutant(
        "that each replay job has an attempt of its own",
        "store/sets_sql.py",
        "_CAN_BE_REPLAYED, attempts=1)",
        "_CAN_BE_REPLAYED)",
        f"{_REPLAYS}what_fails_again_is_open_with_its_reason_and_has_another_attempt",
    ),
    Mutant(
        "that a replay job says why events failed again",
        "store/replay_sql.py",
        "    results_sql.add(conn, job, results)\n",
        "",
        f"{_REPLAYS}what_fails_again_is_open_with_its_reason_and_has_another_attempt",
    ),
    Mutant(
        "how many causes of a replay job are told apart",
        "store/results_sql.py",
        " or len(known) < MOST:",
        " or True:",
        f"{_REPLAYS}beyond_the_most_causes_of_a_job_they_are_counted_together",
    ),
    Mutant(
        "that a fix leaves all but the payload of an event as it is",
        "fixes/payloads.py",
        "        fix.apply(document[body])\n"
        "        return _with_body(value, body, exact.dumps(document[body]))\n",
        "        fix.apply(document)\n        edited = exact.dumps(document)\n"
        "        return Edited(edited, sha256(edited).digest())\n",
        f"{_FIXES}s26_whatever_a_patch_says_all_but_the_payload_stays_byte_for_byte",
    ),
    Mutant(
        "that a line of edited events cannot say another id, name or place",
        "fixes/edited_lines.py",
        "    if changed:\n",
        "    if False:\n",
        f"{_LINES}s26_a_line_that_says_another_id_name_or_place_is_refused",
    ),
    Mutant(
        "that a payload becomes one line of the bytes that it has",
        "fixes/edited_lines.py",
        ".translate(_SPACES)",
        "",
        f"{_LINES}a_line_comes_back_as_the_events_payload_with_its_numbers_and_escapes",
    ),
    Mutant(
        "that what is edited is an event again",
        "fixes/payloads.py",
        "    strict_json.check_depth(whole, strict_json.loads(whole))\n",
        "",
        f"{_LINES}an_edit_that_would_be_no_event_is_refused",
    ),
    *(
        Mutant(
            what,
            "store/segments_sql.py",
            old,
            new,
            f"{_SEGMENTS}what_was_sent_back_stays_until_all_of_its_events_are_over",
        )
        for what, old, new in (
            ("that edits stay while an event of them is open", "AND ({_OVER}) IS NOT TRUE", "AND false"),
            (
                "that edits stay while a job of them runs",
                "j.state IN ('running', 'cancelling') AND j",
                "false AND j",
            ),
            ("that edits are removed at last", "            cur.execute(_DROP_UPLOADS)\n", ""),
        )
    ),
    Mutant(
        "that a write that fails half way leaves no file",
        "segments/folder.py",
        "        except BaseException as e:\n",
        "        except OSError as e:\n",
        f"{_FILES}a_write_that_fails_half_way_leaves_no_file",
    ),
    Mutant(
        "that an edit is of one event of a file",
        "store/edits_sql.py",
        "        if edit.event not in added or first[edit.event] != number:\n",
        "        if False:\n",
        f"{_EDITS}a_line_that_cannot_be_taken_is_named_and_none_of_the_others_is",
    ),
    Mutant(
        "that an attempt that is staged again has its other table",
        "store/staging_sql.py",
        "            *by,\n",
        "            by.job,\n            None,\n",
        f"{_REPLAYS}another_table_is_staged_and_also_when_an_attempt_is_staged_again",
    ),
    Mutant(
        "that numbers keep their text through a fix",
        "fixes/exact.py",
        "object_pairs_hook=_unique, parse_int=Number, parse_float=Number, parse_constant=_constant",
        "object_pairs_hook=_unique, parse_constant=_constant",
        f"{_FIXES}numbers_keep_their_text",
    ),
    Mutant(
        "that a fix has bounds",
        "fixes/steps.py",
        "            _require_bounded(payload)\n",
        "",
        f"{_FIXES}copies_of_copies_end_before_memory_does",
    ),
    Mutant(
        "that a fix gives each event values of its own",
        "fixes/steps.py",
        "            place.put(payload, deepcopy(value))\n",
        "            place.put(payload, value)\n",
        f"{_FIXES}an_event_does_not_see_what_a_fix_has_done_to_another",
    ),
    Mutant(
        "that keys which come twice are no payload for a fix",
        "fixes/exact.py",
        "    if len(members) < len(pairs):\n",
        "    if False:\n",
        f"{_FIXES}an_event_without_a_payload_has_none_to_fix",
    ),
    Mutant(
        "the digest of what a fix has edited",
        "store/staging_sql.py",
        "            _binary(loaded.digests.get(a.id)),\n",
        "            None,\n",
        f"{_REPLAYS}a_fix_edits_what_is_staged_and_what_it_does_not_fit_fails_for_that_reason",
    ),
    Mutant(
        "that a rehearsal waits until all of a page is answered",
        "store/rehearse_sql.py",
        "    if any(f.outcome is None for f in found):\n",
        "    if False:\n",
        f"{_REHEARSALS}events_are_asked_about_and_their_answers_are_counted_by_cause",
    ),
    Mutant(
        "that a rehearsal asks again what was dropped",
        "store/rehearsals_sql.py",
        "        missing = [a for a in attempts if a.id not in known]\n",
        "        missing = [] if known else attempts\n",
        f"{_REHEARSALS}a_rehearsal_goes_page_by_page_and_asks_again_what_was_dropped",
    ),
    Mutant(
        "that a rehearsal leaves nothing where it asked",
        "store/rehearse_sql.py",
        "        _forget(job, databases, databases)\n",
        "",
        f"{_REHEARSALS}a_rehearsal_that_is_cancelled_leaves_nothing",
    ),
    Mutant(
        "that the replay of a rehearsal knows what has changed back",
        "store/rehearse_sql.py",
        " or sets_sql.has_changed(conn, job.events, job.created_at)",
        "",
        f"{_REHEARSALS}a_replay_takes_what_was_rehearsed_and_is_refused_when_that_has_changed",
    ),
    Mutant(
        "that a recheck opens only what no attempt has landed of",
        "store/recheck_sql.py",
        " AND d.outcome IN ('landed', 'duplicate')),",
        " AND d.attempt = k.attempt AND d.outcome IN ('landed', 'duplicate')),",
        f"{_RECHECK}what_landed_by_another_attempt_is_not_lost",
    ),
    Mutant(
        "that an attempt that failed did not land",
        "store/recheck_sql.py",
        " AND d.outcome IN ('landed', 'duplicate')),",
        "),",
        f"{_RECHECK}an_attempt_that_failed_there_is_not_one_that_landed",
    ),
    Mutant(
        "that a recheck leaves what may still land",
        "store/recheck_sql.py",
        "if a.id not in known | staged)",
        "if a.id not in known)",
        f"{_RECHECK}what_a_dump_has_brought_back_as_staged_may_still_land",
    ),
    Mutant(
        "that a group opens with its events",
        "store/recheck_sql.py",
        "UPDATE onramp_admin.groups g SET state = 'open'",
        "UPDATE onramp_admin.groups g SET state = g.state",
        f"{_RECHECK}what_is_lost_is_open_again_with_the_reason_and_its_attempt",
    ),
    Mutant(
        "that a recheck goes on behind its page",
        "store/recheck_sql.py",
        "e.id > %(after)s",
        "e.id >= %(after)s",
        f"{_RECHECK}pages_follow_each_other_and_the_last_one_says_so",
    ),
    Mutant(
        "that a replay job waits for a database that is away, and stops nobody",
        "store/replay_sql.py",
        "            waits.append(asked.error.detail)\n",
        "            raise asked.error\n",
        f"{_REPLAYS}a15_while_its_database_is_away_a_job_waits_and_says_why",
    ),
    Mutant(
        "that tail reads the ends of the topics alone",
        "errors/tail.py",
        "max(first, end - back)",
        "first",
        f"{_ERRORS}tail_reads_a_logs_end_alone_and_further_back_only_for_what_it_lacks",
    ),
    Mutant(
        "that tail looks further back for what it lacks",
        "errors/tail.py",
        "            back *= _FURTHER\n",
        "            break\n",
        f"{_ERRORS}tail_reads_a_logs_end_alone_and_further_back_only_for_what_it_lacks",
    ),
    Mutant(
        "that tail says what has drained",
        "errors/tail.py",
        "state=DRAINED if event.offset < next_offset else WAITING",
        "state=WAITING",
        f"{_ERRORS}diverted_events_wait_until_the_ledger_has_passed_them",
    ),
    Mutant(
        "that what the group has settled is not called unsettled",
        "operate/unsettled.py",
        "max(group.get(source, first), first)",
        "first",
        f"{_WAITS}what_waits_is_told_with_why_since_when_and_what_ends_it",
    ),
    Mutant(
        "the retention that the age of what is unsettled is taken from",
        "operate/unsettled.py",
        "oldest_ms + keeps - time.time() * 1000",
        "keeps",
        "tests/unit/admin/test_unsettled.py",
    ),
    Mutant(
        "that changes of states are counted",
        "store/sql/0009_groups.sql",
        "    GROUP BY 1, 2 HAVING sum(n) <> 0;\n",
        "    GROUP BY 1, 2 HAVING sum(n) > 9999999;\n",
        f"{_COUNTS}counts_are_what_the_rows_say_whatever_has_changed_them",
    ),
    Mutant(
        "that what changes states counts in no row of others",
        "store/sql/0009_groups.sql",
        "    RETURN NULL;\n",
        "    UPDATE onramp_admin.groups g SET state = g.state FROM after WHERE g.id = after.group_id;\n"
        "    RETURN NULL;\n",
        f"{_COUNTS}the_keeper_and_jobs_do_not_wait_for_each_other_to_count",
    ),
    Mutant(
        "that what is beyond the most groups is counted by its events",
        "store/read_sql.py",
        "        WHERE g.id NOT IN (TABLE others)\n",
        "",
        f"{_COUNTS}what_is_beyond_the_most_groups_is_counted_by_its_events",
    ),
    Mutant(
        "that facets count what is new alone",
        "store/keeper_sql.py",
        "    return [events[n] for (n,) in cur.fetchall()]\n",
        "    return events\n",
        f"{_FACETS}each_event_is_counted_once_whatever_is_read_again",
    ),
    Mutant(
        "that the values of a facet are bounded",
        "errors/facets.py",
        "        if len(self.values) > MOST:\n",
        "        if False:\n",
        f"{_OF_FACETS}a_million_versions_take_little_room_and_no_event_is_lost",
    ),
    Mutant(
        "that rare values stay counted",
        "errors/facets.py",
        "                self.others += events\n",
        "                pass\n",
        f"{_OF_FACETS}a_million_versions_take_little_room_and_no_event_is_lost",
    ),
    Mutant(
        "that of personal values no shape is shown",
        "errors/facets.py",
        "    return any(path[: len(each)]",
        "    return False and any(path[: len(each)]",
        f"{_OF_FACETS}of_what_is_personal_no_shape_is_shown {_FACETS}of_personal_fields_facets_show_no_shape",
    ),
    Mutant(
        "that a round of looks outlives a kill",
        "looks/looks_sql.py",
        "_UNDER_WAY), {})]\n",
        "_UNDER_WAY), {}) if row[0] < 0]\n",
        f"{_LOOKS}a_kill_in_a_round_is_gone_on_with_by_the_next_service",
    ),
    Mutant(
        "that the oldest look comes first",
        "looks/looks_sql.py",
        "ORDER BY l.asked_at NULLS FIRST, g.id LIMIT",
        "ORDER BY g.id LIMIT",
        f"{_LOOKS}the_oldest_look_comes_first_ten_of_a_group_and_closed_groups_never",
    ),
    Mutant(
        "that another registry is a reason to look",
        "looks/looks_sql.py",
        " OR l.registry <> %(registry)s)",
        ")",
        f"{_LOOKS}it_is_asked_again_after_an_hour_or_another_registry_and_not_before",
    ),
    Mutant(
        "a deadline for what jobs ask a destination that freezes",
        "../../shared/postgres/answering.py",
        "own_watch().used(self._dsn, self._patience_s)",
        "own_watch().used(self._dsn, 3600.0)",
        f"{_FROZEN}f47_a_destination_that_freezes_in_mid_statement_stops_no_other_job",
    ),
    Mutant(
        "that jobs wait for a silent destination once",
        "../../shared/postgres/answering.py",
        "        if SILENCES.lasts(self._dsn):\n",
        "        if False:\n",
        "tests/unit/shared/test_answering.py",
    ),
    Mutant(
        "that a replay job stages a part in its turn",
        "store/staging_sql.py",
        "islice(_parts([a for a in attempts if a.id in missing]), 1)",
        "_parts([a for a in attempts if a.id in missing])",
        f"{_REPLAYS}a_replay_stages_a_part_and_gives_others_their_turn",
    ),
    Mutant(
        "that an event name uses up its own groups alone",
        "errors/groups.py",
        "counts[name] < bound and ",
        "",
        f"{_KEEPER}a_name_whose_fields_are_ids_uses_up_its_own_groups_alone",
    ),
    Mutant(
        "that pages show what the database has while the folder of segments is away",
        "store/bytes_sql.py",
        "            loaded.lost |= dict.fromkeys(unread, e)\n",
        "            raise\n",
        f"{_AWAY}pages_show_what_the_database_has_while_the_folder_is_away",
    ),
    Mutant(
        "that a bucket which hangs keeps no connection from others",
        "store/bytes_sql.py",
        "    return _load(look, read, list(events))\n",
        "    with transaction(dsn) as conn:\n"
        "        return _load(partial(_look, conn), read, list(events))\n",
        f"{_AWAY}a_bucket_that_hangs_keeps_no_connection_from_others",
    ),
    Mutant(
        "that a job which fails for good stops no other",
        "store/work_sql.py",
        "            if job is None or failure is None:\n",
        "            if True:\n",
        f"{_FROZEN}a_job_that_fails_for_good_says_why_and_stops_no_other",
    ),
    Mutant(
        "that a job which waits behind a lock leaves the time to others",
        "store/work_sql.py",
        "            if took >= _LONG_SECONDS:\n",
        "            if False:\n",
        f"{_FROZEN}a_job_that_waits_behind_a_lock_pauses_for_longer_than_it_took",
    ),
)
