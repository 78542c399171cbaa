"""Mutants: pages show texts as texts, show what a key may see, and take forms of their own pages."""

from typing import Final

from tests.mutants.machine import Mutant

_PARKED: Final = "tests/integration/ui/test_parked.py::"
_SESSION: Final = "tests/integration/ui/test_session.py::"

MUTANTS: Final = (
    Mutant(
        "escaping of texts in pages",
        "services/admin/ui/templates.py",
        "autoescape=True,",
        "autoescape=False,",
        _PARKED + "test_texts_of_events_are_escaped_and_harmless",
    ),
    Mutant(
        "that marks of direction and controls are shown as escapes",
        "services/admin/ui/templates.py",
        "finalize=formats.harmless,",
        "finalize=None,",
        _PARKED + "test_texts_of_events_are_escaped_and_harmless",
    ),
    Mutant(
        "the token of a form",
        "services/admin/ui/guard.py",
        "if not sessions.is_form_token(session, given):",
        "if False:",
        _SESSION + "test_a_form_needs_its_token_and_our_origin_is_enough",
    ),
    Mutant(
        "that a form comes from a page of the same origin",
        "services/admin/ui/guard.py",
        "            require_own_origin(request)\n",
        "            pass\n",
        _SESSION + "test_a_form_of_another_origin_is_refused",
    ),
    Mutant(
        "the role that a page's function needs",
        "services/admin/ui/calls.py",
        "if not self.may(caller, operation):",
        "if False:",
        _PARKED + "test_a_role_that_is_too_low_changes_nothing",
    ),
    Mutant(
        "the masks of values in pages",
        "services/admin/api/views.py",
        "return masked(loaded.values[event], hidden) if event in loaded.values else None",
        "return orjson.loads(loaded.values[event]) if event in loaded.values else None",
        _PARKED + "test_values_are_masked_until_they_are_revealed",
    ),
    Mutant(
        "that a cookie is bound to a key that is valid now",
        "services/admin/api/operators.py",
        "if operator is not None and any(compare_digest(_fingerprint(each), fingerprint) for each in live):",
        "if operator is not None and live:",
        _SESSION + "test_a_session_ends_with_a_rotation_of_its_key",
    ),
    Mutant(
        "the policy of pages for browsers",
        "services/admin/ui/guard.py",
        '[*message["headers"], *HEADERS, *more]',
        '[*message["headers"], *more]',
        _SESSION + "test_every_answer_has_the_policy",
    ),
    Mutant(
        "the entry in the audit log before a value is shown",
        "services/admin/api/app.py",
        'read_sql.record_act(conn, actor, "reveal", f"event {number}", wanted.reason)',
        "pass",
        _PARKED + "test_values_are_masked_until_they_are_revealed",
    ),
    Mutant(
        "that a double click on Rehearse is one job",
        "services/admin/ui/pages/group_jobs.py",
        "return start(view, request, fix, once=sha256(seed).hexdigest()[:32])",
        "return start(view, request, fix)",
        _PARKED + "test_a_double_click_starts_one_job",
    ),
)
