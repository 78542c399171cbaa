"""Mutants: an operator sees and changes only what it may, and each act is in the audit log."""

from typing import Final

from tests.mutants.machine import Mutant

MUTANTS: Final = (
    Mutant(
        "comparing an operator's key",
        "services/admin/api/operators.py",
        "if operator is not None and any(matches):",
        "if operator is not None and matches:",
        (
            "tests/integration/admin/"
            "test_operators.py::test_nothing_is_answered_without_a_key_that_is_valid_now"
        ),
    ),
    Mutant(
        "one operator's key only",
        "services/admin/api/operators.py",
        "if len(given) == 1 else None",
        "if given else None",
        (
            "tests/integration/admin/"
            "test_operators.py::test_nothing_is_answered_without_a_key_that_is_valid_now"
        ),
    ),
    Mutant(
        "that the admin service tells a sender's key",
        "services/admin/api/operators.py",
        "if sender is not None and any(given.matches(sender.live_hashes(now))):",
        "if False:",
        (
            "tests/integration/admin/"
            "test_operators.py::test_nothing_is_answered_without_a_key_that_is_valid_now"
        ),
    ),
    Mutant(
        "that a service without operators is closed unless ONRAMP_ALLOW_KEYLESS",
        "services/admin/api/operators.py",
        "self._may_be_keyless = keyless",
        "self._may_be_keyless = True",
        "tests/unit/admin/test_rights.py::test_service_without_operators_answers_401_unless_keyless_is_allowed",
    ),
    Mutant(
        "that revoking the last operator closes the admin service",
        "services/admin/api/operators.py",
        "self._may_be_keyless and not self._registry.snapshot().operators",
        "self._may_be_keyless",
        (
            "tests/integration/admin/test_operators.py::test_removed_operator_is_refused_and_"
            "an_empty_operator_list_refuses_every_request"
        ),
    ),
    Mutant(
        "that a service beyond this machine is closed while nobody has a key",
        "services/admin/api/operators.py",
        "self._keyless = self._may_be_keyless and not",
        "self._keyless = not",
        "tests/unit/admin/test_rights.py::test_requests_are_refused_with_503_until_the_registry_is_read",
    ),
    Mutant(
        "operators' roles",
        "services/admin/api/rights.py",
        "if not caller.may(need.role):",
        "if False:",
        (
            "tests/integration/admin/"
            "test_operators.py::test_a_viewer_sees_an_operator_acts_an_admin_reads_values"
        ),
    ),
    Mutant(
        "that some of the admin service's routes are for who sees all",
        "services/admin/api/rights.py",
        "if need.all_events and caller.only is not None:",
        "if False:",
        "tests/integration/admin/test_operators.py::test_reveal_requires_a_reason_and_its_audit_log_row_cannot_be_changed",
    ),
    Mutant(
        "that a route of the admin service which says nothing is closed",
        "services/admin/api/rights.py",
        "NEEDS.get(operation, _UNNAMED)",
        'NEEDS.get(operation, Need("viewer"))',
        (
            "tests/unit/admin/"
            "test_rights.py::test_a_route_that_says_nothing_is_refused_to_all_but_admins_of_all_events"
        ),
    ),
    Mutant(
        "that a journey shows an operator its own events alone",
        "services/admin/api/journey.py",
        "asking.only is None or (name is not None and asking.sees(name))",
        "True",
        (
            "tests/integration/admin/"
            "test_journey.py::test_the_api_answers_without_values_and_only_what_its_caller_sees"
        ),
    ),
    Mutant(
        "that an operator lists what it sees",
        "services/admin/api/lists.py",
        '{**query.filters(), "only": asking.only}',
        "query.filters()",
        (
            "tests/integration/admin/"
            "test_operators.py::test_lists_groups_and_ids_show_an_operator_its_own_events_alone"
        ),
    ),
    Mutant(
        "that an operator's group is one that it sees",
        "services/admin/api/groups.py",
        "read_sql.group(conn, number, asking.only)",
        "read_sql.group(conn, number)",
        (
            "tests/integration/admin/"
            "test_operators.py::test_lists_groups_and_ids_show_an_operator_its_own_events_alone"
        ),
    ),
    Mutant(
        "that an operator's event is one that it sees",
        "services/admin/api/app.py",
        "read_sql.event(conn, number, asking.only)",
        "read_sql.event(conn, number)",
        (
            "tests/integration/admin/"
            "test_operators.py::test_lists_groups_and_ids_show_an_operator_its_own_events_alone"
        ),
    ),
    Mutant(
        "that an operator's value is one that it sees",
        "services/admin/api/app.py",
        "if read_sql.event(conn, number, asking.only) is None:",
        "if False:",
        (
            "tests/integration/admin/"
            "test_operators.py::test_lists_groups_and_ids_show_an_operator_its_own_events_alone"
        ),
    ),
    Mutant(
        "that an operator's count is one that it sees",
        "services/admin/api/app.py",
        "_MAX_COUNTS, asking.only)",
        "_MAX_COUNTS)",
        (
            "tests/integration/admin/"
            "test_operators.py::test_lists_groups_and_ids_show_an_operator_its_own_events_alone"
        ),
    ),
    Mutant(
        "that an operator's change of a group is one that it sees",
        "services/admin/api/groups.py",
        "locked_group(conn, number, asking.only)",
        "locked_group(conn, number)",
        (
            "tests/integration/admin/"
            "test_operators.py::test_lists_groups_and_ids_show_an_operator_its_own_events_alone"
        ),
    ),
    Mutant(
        "that an operator's change of many groups is of those that it sees",
        "services/admin/api/groups.py",
        "group_marks_sql.locked_group(conn, number, asking.only) for",
        "group_marks_sql.locked_group(conn, number) for",
        (
            "tests/integration/admin/test_many_groups.py::"
            "test_operator_changes_only_groups_of_visible_events_and_a_viewer_changes_no_group"
        ),
    ),
    Mutant(
        "that an operator sees the holds of its own events alone",
        "services/admin/waiting_api/holds.py",
        "        if asking.only is None:",
        "        if True:",
        (
            "tests/integration/admin/test_waiting_api.py::"
            "test_hold_is_shown_only_to_operators_with_access_to_every_event_behind_it"
        ),
    ),
    Mutant(
        "that a decision about a hold is about the one that was read",
        "services/admin/waiting_api/holds.py",
        "require_current(state, tag_of_hold(held), WAITING_CHANGED, last_act(conn, subject))",
        "pass",
        (
            "tests/integration/admin/test_waiting_api.py::"
            "test_a_decision_about_a_hold_names_the_state_that_was_read"
        ),
    ),
    Mutant(
        "that an event shows nothing that its type calls personal",
        "services/admin/api/app.py",
        "views.shape(number, loaded, personal(found.event_name))",
        "views.shape(number, loaded, ())",
        (
            "tests/integration/admin/"
            "test_personal.py::test_an_event_and_its_group_hide_what_its_type_calls_personal"
        ),
    ),
    Mutant(
        "that a group's samples show nothing that its type calls personal",
        "services/admin/api/groups.py",
        "hidden = self._personal(found.cause.event_name)",
        "hidden = ()",
        (
            "tests/integration/admin/"
            "test_personal.py::test_an_event_and_its_group_hide_what_its_type_calls_personal"
        ),
    ),
    Mutant(
        "that an operator's set is of what it sees",
        "services/admin/api/jobs.py",
        ' | ({} if only is None else {"only": only})',
        "",
        (
            "tests/integration/admin/"
            "test_operators.py::test_a_job_counts_and_changes_what_its_operator_sees_and_othe"
            "rs_do_not_see_it"
        ),
    ),
    Mutant(
        "that an operator replays a rehearsal that it sees",
        "services/admin/api/jobs.py",
        'filters = _set_of(asked) | ({} if only is None else {"only": only})',
        'filters = _set_of(asked) | ({} if only is None or asked.rehearsed else {"only": only})',
        (
            "tests/integration/admin/"
            "test_operators.py::test_a_job_counts_and_changes_what_its_operator_sees_and_othe"
            "rs_do_not_see_it"
        ),
    ),
    Mutant(
        "that an operator cancels what it sees",
        "services/admin/api/jobs.py",
        "if seen and jobs_sql.cancel(conn, number):",
        "if jobs_sql.cancel(conn, number):",
        (
            "tests/integration/admin/"
            "test_operators.py::test_a_job_counts_and_changes_what_its_operator_sees_and_othe"
            "rs_do_not_see_it"
        ),
    ),
    Mutant(
        "that the holder of a key is who acts",
        "services/admin/api/operators.py",
        "return self.name or str(said)",
        "return str(said)",
        (
            "tests/integration/admin/"
            "test_operators.py::test_a_job_counts_and_changes_what_its_operator_sees_and_othe"
            "rs_do_not_see_it"
        ),
    ),
    Mutant(
        "that whoever sees a value is written down",
        "services/admin/api/app.py",
        '            read_sql.record_act(conn, actor, "reveal", f"event {number}", wanted.reason)\n',
        "",
        "tests/integration/admin/test_operators.py::test_reveal_requires_a_reason_and_its_audit_log_row_cannot_be_changed",
    ),
    Mutant(
        "that whoever edits events is written down",
        "services/admin/api/edits.py",
        '        record_act(conn, actor, "edit", f"{count} events as edits {upload}", None)\n',
        "",
        (
            "tests/integration/admin/"
            "test_audit_log.py::test_each_view_or_action_of_an_operator_is_written_down_by_the_nam"
            "e_of_their_key"
        ),
    ),
    Mutant(
        "that whoever decides about a group is written down",
        "services/admin/api/groups.py",
        'read_sql.record_act(conn, actor, f"set {said}", f"group {found.id}", change.reason)',
        "",
        (
            "tests/integration/admin/"
            "test_audit_log.py::test_each_view_or_action_of_an_operator_is_written_down_by_the_nam"
            "e_of_their_key"
        ),
    ),
    Mutant(
        "that operators' keys go encrypted",
        "services/admin/unsafe_setups.py",
        "if not settings.tls_cert_file and not settings.allow_cleartext_http:",
        "if False:",
        "tests/unit/admin/test_rights.py::test_beyond_this_machine_it_starts_with_tls_and_without_a_development_key",
    ),
    Mutant(
        "that If-Match is compared",
        "services/admin/api/queries.py",
        'if self._given and self._given != "*" and tag not in self._tags:',
        "if False:",
        (
            "tests/integration/admin/"
            "test_registry_api.py::test_a_change_of_another_state_than_is_in_force_is_refused"
        ),
    ),
    Mutant(
        "that If-Match is asked for",
        "services/admin/api/queries.py",
        "if not self._given:",
        "if False:",
        (
            "tests/integration/admin/"
            "test_registry_api.py::test_a_change_of_another_state_than_is_in_force_is_refused"
        ),
    ),
    Mutant(
        "that the log decides which of two changes counts",
        "services/ops/registry/registry_reader.py",
        "                yield Editor(log)",
        (
            "                editor = Editor(log)\n"
            "                editor.write = lambda *_, **__: log.append(b'')  # type: ignore\n"
            "                yield editor"
        ),
        "tests/integration/admin/test_registry_api.py::test_concurrent_changes_of_the_same_state_have_a_single_winner",
    ),
    Mutant(
        "that a dry run of a change writes nothing",
        "services/admin/registry_api/changes.py",
        "said.accept, said.dry_run)",
        "said.accept)",
        "tests/integration/admin/test_registry_api.py::test_a_dry_run_says_what_differs_and_writes_nothing",
    ),
    Mutant(
        "that hashes are not shown",
        "services/admin/registry_api/whole.py",
        'if field != "hashes"',
        "if True",
        (
            "tests/integration/admin/test_registry_api.py::test_registry_is_shown_without_"
            "hashes_and_is_written_back_with_its_stored_hashes"
        ),
    ),
    Mutant(
        "that hashes that are not sent stay",
        "services/admin/registry_api/whole.py",
        "if isinstance(entry, dict) and name in there",
        "if False",
        (
            "tests/integration/admin/test_registry_api.py::test_registry_is_shown_without_"
            "hashes_and_is_written_back_with_its_stored_hashes"
        ),
    ),
    Mutant(
        "who may ask PUT /v1/registry",
        "services/admin/api/rights.py",
        '"PUT /v1/registry": Need("admin"',
        '"PUT /v1/registry": Need("viewer"',
        "tests/integration/admin/test_registry_views.py::test_viewers_read_and_admins_of_all_events_change",
    ),
    Mutant(
        "who may ask POST /v1/keys",
        "services/admin/api/rights.py",
        '"POST /v1/keys": Need("admin"',
        '"POST /v1/keys": Need("operator"',
        "tests/integration/admin/test_registry_views.py::test_viewers_read_and_admins_of_all_events_change",
    ),
    Mutant(
        "that types are those that one sees",
        "services/admin/registry_api/types.py",
        " if asking.sees(name)",
        "",
        (
            "tests/integration/admin/"
            "test_registry_views.py::test_operator_for_some_events_sees_only_their_types_tables_and_topics"
        ),
    ),
    Mutant(
        "that a sample is of a topic that one sees",
        "services/admin/registry_api/topics.py",
        "if topics.is_own(topic) or not _sees(asking, snapshot, topic):",
        "if topics.is_own(topic):",
        (
            "tests/integration/admin/"
            "test_registry_views.py::test_operator_for_some_events_sees_only_their_types_tables_and_topics"
        ),
    ),
    Mutant(
        "that a sample hides what is personal",
        "services/admin/registry_api/topics.py",
        "personal = personal_of(snapshot, topic)",
        "personal: list[str] = []",
        (
            "tests/integration/admin/"
            "test_registry_views.py::test_a_topic_is_made_once_and_its_samples_hide_what_is_personal"
        ),
    ),
    Mutant(
        "the difference between accepted events and where they are",
        "services/admin/figures/locations.py",
        "missing = sums.missing + sums.lost - (waiting_kafka or 0)",
        "missing = 0",
        "tests/unit/admin/test_locations.py::test_a_lost_event_is_a_difference_and_is_not_in_flight",
    ),
    Mutant(
        "counts by the instance of a gateway",
        "services/admin/figures/growth.py",
        "at, before = self._last.get(figures.instance, (now, None))",
        'at, before = self._last.get("", (now, None))',
        "tests/unit/admin/test_figures_of_an_hour.py::test_gateways_are_summed_and_the_past_before_the_first_reading_is_no_rate",
    ),
    Mutant(
        "totals of operators who see some events",
        "services/admin/ui/pages/overview.py",
        "    if view.caller.only is None:\n        return reading",
        "    return reading",
        "tests/integration/ui/test_overview.py::test_an_operator_of_some_events_sees_no_total",
    ),
)
