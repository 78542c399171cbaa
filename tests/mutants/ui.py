"""Mutants: pages show texts as texts, show what a key may see, and take forms of their own pages."""

from typing import Final

from tests.mutants.machine import Mutant

_PARKED: Final = "tests/integration/ui/test_parked.py::"
_OVERVIEW: Final = "tests/integration/ui/test_overview.py::"
_SESSION: Final = "tests/integration/ui/test_session.py::"
_TIMES: Final = "tests/unit/admin/test_sessions.py::"

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
        "that only tabs of one key share an answer",
        "services/admin/ui/guard.py",
        "place = (session, request.url.path, request.url.query)",
        "place = (request.url.path, request.url.query)",
        _OVERVIEW + "test_tabs_of_one_key_share_the_answer_of_a_poll",
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
    Mutant(
        "that a logout ends copies of the cookie",
        "services/admin/ui/login.py",
        '        sessions.end(view.request.cookies.get(cookie_name(view.request), ""))\n',
        "",
        _SESSION + "test_a_logout_ends_the_session_and_copies_of_its_cookie",
    ),
    Mutant(
        "that a cookie ends after eight hours",
        "services/admin/ui/sessions.py",
        "return found if 0 <= self._clock() - found.since < SECONDS else None",
        "return found if 0 <= self._clock() - found.since else None",
        _TIMES + "test_a_cookie_is_refused_after_eight_hours",
    ),
    Mutant(
        "that a login link is valid once",
        "services/admin/ui/sessions.py",
        "found = self._links.pop(token, None)",
        "found = self._links.get(token)",
        _TIMES + "test_a_login_link_is_refused_at_its_second_use",
    ),
    Mutant(
        "that a login link ends after ten minutes",
        "services/admin/ui/sessions.py",
        "session = found and self._clock() - found[0] < LINK_SECONDS and self._live(found[1], found[2])",
        "session = found and self._live(found[1], found[2])",
        _TIMES + "test_a_login_link_is_refused_after_ten_minutes",
    ),
    Mutant(
        "that the cookie is sent over TLS alone",
        "services/admin/ui/login.py",
        '        secure=view.request.url.scheme == "https",\n',
        "",
        _SESSION + "test_under_tls_the_cookie_is_of_this_host_alone",
    ),
)
