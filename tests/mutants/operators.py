"""The protections of who may see and do what at the admin service, and of its pool of connections."""

from typing import Final

from tests.mutants.machine import Mutant

_TESTS: Final = "tests/integration/admin/test_operators.py::test_"
_API: Final = "tests/integration/admin/test_admin_api.py::test_"
_ACTS: Final = "tests/integration/admin/test_acts.py::test_"
_PERSONAL: Final = "tests/integration/admin/test_personal.py::test_"
_UNIT: Final = "tests/unit/admin/test_rights.py::test_"
_CLOSED: Final = f"{_TESTS}nothing_is_answered_without_a_key_that_is_valid_now"
_ROLES: Final = f"{_TESTS}a_viewer_sees_an_operator_acts_an_admin_reads_values"
_SEEN: Final = f"{_TESTS}a8_lists_groups_and_ids_show_an_operator_its_own_events_alone"
_JOBS: Final = f"{_TESTS}a_job_counts_and_changes_what_its_operator_sees_and_others_do_not_see_it"
_EDITED: Final = (
    "tests/faults/test_a12_edited_replays.py::"
    "test_a12_an_edited_event_lands_with_its_id_its_lineage_and_by_the_rights_of_today"
)

OPERATORS: Final = (
    Mutant(
        "comparing an operator's key",
        "api/operators.py",
        "if operator is not None and any(matches):",
        "if operator is not None and matches:",
        _CLOSED,
    ),
    Mutant(
        "one operator's key only",
        "api/operators.py",
        "if len(given) == 1 else None",
        "if given else None",
        _CLOSED,
    ),
    Mutant(
        "that the admin service tells a sender's key",
        "api/operators.py",
        "if sender is not None and any(given.matches(sender.live_hashes(now))):",
        "if False:",
        _CLOSED,
    ),
    Mutant(
        "that the admin service without operators answers no web page",
        "api/operators.py",
        "            if not is_local(headers):\n",
        "            if False:\n",
        f"{_API}a_web_page_reads_nothing",
    ),
    Mutant(
        "that revoking the last operator closes the admin service",
        "api/operators.py",
        "self._local and not self._registry.snapshot().operators",
        "self._local",
        f"{_TESTS}an_operator_who_is_removed_is_refused_and_without_any_the_service_stays_closed",
    ),
    Mutant(
        "that a service beyond this machine is closed while nobody has a key",
        "api/operators.py",
        "self._keyless = self._local and not",
        "self._keyless = not",
        f"{_UNIT}until_the_registry_was_read_nobody_is_let_in",
    ),
    Mutant(
        "that the first registry decides whether the admin service is open",
        "api/operators.py",
        "        self._keyless: bool | None = None\n        self.see()",
        "        self._keyless: bool | None = None",
        f"{_UNIT}a_service_whose_last_operator_was_revoked_before_anybody_asked_is_closed",
    ),
    Mutant(
        "that the admin service looks at its registry",
        "registry_watch.py",
        "await asyncio.to_thread(self._registry.refresh)",
        "pass",
        f"{_TESTS}an_operator_who_is_removed_is_refused_and_without_any_the_service_stays_closed",
    ),
    Mutant("operators' roles", "api/rights.py", "if not caller.may(need.role):", "if False:", _ROLES),
    Mutant(
        "that some of the admin service's routes are for who sees all",
        "api/rights.py",
        "if need.all_events and caller.only is not None:",
        "if False:",
        f"{_TESTS}who_saw_a_value_and_why_is_written_down_and_stays",
    ),
    Mutant(
        "that a route of the admin service which says nothing is closed",
        "api/rights.py",
        "NEEDS.get(asked, _UNNAMED)",
        'NEEDS.get(asked, Need("viewer"))',
        f"{_UNIT}a_route_that_says_nothing_is_refused_to_all_but_admins_of_all_events",
    ),
    Mutant(
        "that an operator lists what it sees",
        "api/app.py",
        '{**query.filters(), "only": asking.only}',
        "query.filters()",
        _SEEN,
    ),
    *(
        Mutant(f"that an operator's {what} is one that it sees", "api/app.py", old, new, _SEEN)
        for what, old, new in (
            ("group", "read_sql.group(conn, number, asking.only)", "read_sql.group(conn, number)"),
            ("event", "read_sql.event(conn, number, asking.only)", "read_sql.event(conn, number)"),
            ("value", "if read_sql.event(conn, number, asking.only) is None:", "if False:"),
            ("count", "_MOST_COUNTS, asking.only)", "_MOST_COUNTS)"),
            ("change of a group", "number, changed, asking.only)", "number, changed)"),
        )
    ),
    Mutant(
        "that what an operator was refused is written down",
        "api/problems.py",
        "                on_refusal(request)\n",
        "                pass\n",
        _SEEN,
    ),
    Mutant(
        "that an event shows nothing that its type calls personal",
        "api/app.py",
        "views.shape(number, loaded, personal(found.event_name))",
        "views.shape(number, loaded, ())",
        f"{_PERSONAL}an_event_and_its_group_hide_what_its_type_calls_personal",
    ),
    Mutant(
        "that a group's samples show nothing that its type calls personal",
        "api/app.py",
        "shown(dsn, segments, last), personal(found.cause.event_name))",
        "shown(dsn, segments, last), ())",
        f"{_PERSONAL}an_event_and_its_group_hide_what_its_type_calls_personal",
    ),
    Mutant(
        "that a rehearsal's rows show nothing that is personal",
        "store/rehearse_sql.py",
        "known.personal_of(names[f.id])",
        "()",
        f"{_PERSONAL}the_rows_of_a_rehearsal_hide_what_is_personal",
    ),
    Mutant(
        "that a cursor is of what its reader sees",
        "api/cursors.py",
        "for n, v in filters.items() if v is not None)",
        'for n, v in filters.items() if v is not None and n != "only")',
        f"{_TESTS}a_cursor_leads_nobody_on_who_sees_other_events",
    ),
    Mutant(
        "that an operator's set is of what it sees",
        "api/jobs.py",
        ' | ({} if only is None else {"only": only})',
        "",
        _JOBS,
    ),
    Mutant(
        "that the last id of an operator's set is one that it sees",
        "store/sets_sql.py",
        'for n, v in filters.items() if n == "only"}',
        "for n, v in filters.items() if False}",
        _JOBS,
    ),
    Mutant(
        "that an operator sees jobs of its own events",
        "store/jobs_sql.py",
        "(%(only)s::text[] IS NULL OR",
        "(true OR %(only)s::text[] IS NULL OR",
        _JOBS,
    ),
    Mutant(
        "that an operator replays a rehearsal that it sees",
        "api/jobs.py",
        "asked.rehearsed, databases, only)",
        "asked.rehearsed, databases)",
        _JOBS,
    ),
    Mutant(
        "that an operator cancels what it sees",
        "api/jobs.py",
        "if seen and jobs_sql.cancel(conn, number):",
        "if jobs_sql.cancel(conn, number):",
        _JOBS,
    ),
    Mutant(
        "that the holder of a key is who acts",
        "api/operators.py",
        "return self.name or str(said)",
        "return str(said)",
        _JOBS,
    ),
    Mutant(
        "that whoever sees a value is written down",
        "api/app.py",
        '            read_sql.record_act(conn, actor, "reveal", f"event {number}", wanted.reason)\n',
        "",
        f"{_TESTS}who_saw_a_value_and_why_is_written_down_and_stays",
    ),
    *(
        Mutant(
            f"that whoever {what} is written down",
            file,
            old,
            "",
            f"{_ACTS}s24_whoever_sees_or_does_something_is_written_down_by_the_name_of_their_key",
        )
        for what, file, old in (
            (
                "downloads values",
                "api/edits.py",
                '            record_act(conn, actor, "download", named, asked.reason)\n',
            ),
            (
                "edits events",
                "api/edits.py",
                '        record_act(conn, actor, "edit", f"{count} events as edits {upload}", None)\n',
            ),
            (
                "decides about a group",
                "api/app.py",
                'read_sql.record_act(conn, actor, f"set {said}", f"group {number}", change.reason)',
            ),
            (
                "starts a job",
                "api/jobs.py",
                '            record_act(conn, actor, f"start {asked.kind}", f"job {job}", asked.reason)\n',
            ),
        )
    ),
    Mutant(
        "that an act is written down with what is done",
        "api/jobs.py",
        '            record_act(conn, actor, f"start {asked.kind}", f"job {job}", asked.reason)\n',
        "        with transaction(dsn) as after:\n"
        '            record_act(after, actor, f"start {asked.kind}", f"job {job}", asked.reason)\n',
        f"{_ACTS}s24_what_cannot_be_written_down_is_neither_shown_nor_done",
    ),
    Mutant(
        "that a sender is told apart by the key and not by its name",
        "api/operators.py",
        "if operator is not None and any(matches):",
        "if operator is not None:",
        f"{_ACTS}a13_a_sender_with_an_operators_name_is_a_sender",
    ),
    Mutant(
        "that an operator edits what it sees",
        "api/edits.py",
        "edits_sql.keep(conn, segments, file, actor, asking.only)",
        "edits_sql.keep(conn, segments, file, actor, None)",
        _EDITED,
    ),
    Mutant(
        "that acts stay",
        "store/sql/0007_acts.sql",
        "BEFORE UPDATE OR DELETE OR TRUNCATE",
        "BEFORE UPDATE",
        f"{_TESTS}who_saw_a_value_and_why_is_written_down_and_stays",
    ),
    Mutant(
        "that the admin service beyond this machine has operators",
        "safety.py",
        "if registry.is_read and not registry.snapshot().operators:",
        "if False:",
        f"{_UNIT}beyond_this_machine_it_starts_with_operators_and_tls_alone",
    ),
    Mutant(
        "that operators' keys go encrypted",
        "safety.py",
        "if not settings.tls_cert_file and not settings.allow_cleartext_http:",
        "if False:",
        f"{_UNIT}beyond_this_machine_it_starts_with_operators_and_tls_alone",
    ),
    Mutant(
        "that a lost connection of the admin service is not lent",
        "store/control_sql.py",
        "            if _answers(conn):\n",
        "            if True:\n",
        f"{_API}a_control_database_that_takes_no_connections_is_503_and_back_at_once",
    ),
    Mutant(
        "how many connections the admin service has",
        "store/control_sql.py",
        "        if not self._turns.acquire(timeout=_TURN_SECONDS):\n",
        "        if not self._turns.acquire(blocking=False) and False:\n",
        f"{_API}many_requests_share_few_connections",
    ),
)
