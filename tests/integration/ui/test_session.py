"""Sessions of the UI: login, cookie, login link that is valid once, and protection of forms."""

import httpx2
import pytest
from fastapi.testclient import TestClient

from services.admin.ui.headers import CSP
from stack.login_link import login_link
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.ui import DEV_KEY, OPERATORS, Browser, UiService, key_of, registry_of, serving
from tests.fixtures.writer import execute, rows
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.inside import SAME_ORIGIN, inside
from tests.integration.admin.operator_service import key_of as operator_key_of

JOB = """
    INSERT INTO onramp_admin.jobs (kind, filters, upto, actor, reason, counted)
    VALUES ('discard', '{"code": "x"}', 9, 'ann', 'why', 5) RETURNING id
"""


def test_without_a_session_a_page_leads_to_the_login_and_back(browser: Browser) -> None:
    answer = browser.get("/jobs?kind=replay")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/ui/login?next=%2Fui%2Fjobs%3Fkind%3Dreplay"
    assert 'value="/ui/jobs?kind=replay"' in browser.http.get(answer.headers["location"]).text


@pytest.mark.parametrize("path", ["https://evil.example/", "//evil.example/ui/", "/v1/jobs", "/ui\\evil"])
def test_a_login_leads_to_our_pages_only(browser: Browser, path: str) -> None:
    answer = browser.post("/login", key=key_of("vera"), next=path)
    assert answer.headers["location"] == "/ui/"


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(browser: Browser) -> None:
    cookie = browser.post("/login", key=key_of("vera")).headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/", "max-age=28800"} <= set(cookie.split("; "))
    assert key_of("vera") not in cookie


def test_every_answer_has_the_policy(browser: Browser) -> None:
    browser.log_in("ada")
    for path in ("/login", "/jobs", "/nowhere", "/jobs/999999", "/static/app.css", "/jobs?kind=1&kind=2"):
        answer = browser.get(path)
        assert answer.headers["content-security-policy"] == CSP, path
        assert answer.headers["x-content-type-options"] == "nosniff", path


def test_pages_are_not_stored_and_static_files_are(browser: Browser) -> None:
    browser.log_in("vera")
    assert browser.get("/jobs").headers["cache-control"] == "no-store"
    assert "immutable" in browser.get("/static/app.js").headers["cache-control"]


def test_a_changed_cookie_is_no_session(service: UiService, browser: Browser) -> None:
    browser.log_in("vera")
    assert browser.get("/jobs").status_code == 200
    [(name, value)] = browser.http.cookies.items()
    forged = value.replace(value[0], "B" if value[0] == "A" else "A", 1)
    assert httpx2.get(f"{service.url}/ui/jobs", cookies={name: forged}).status_code == 303


def test_a_senders_key_and_a_wrong_key_do_not_log_in(browser: Browser) -> None:
    for key in (key_of("shop"), key_of("nobody"), "", "x" * 300, "onramp_ada_\x00"):
        assert browser.post("/login", key=key).status_code in {401, 403}, key
    assert not browser.http.cookies


def test_a_session_ends_with_its_key(templates: Templates) -> None:
    with database_beside(templates.server, templates.control) as dsn, serving(dsn) as service:
        browser = service.browser().log_in("otto")
        assert browser.get("/jobs").status_code == 200
        service.revoke("otto")
        assert browser.get("/jobs").status_code == 303


def test_a_session_ends_with_a_rotation_of_its_key(templates: Templates) -> None:
    with database_beside(templates.server, templates.control) as dsn, serving(dsn) as service:
        browser = service.browser().log_in("otto")
        assert browser.get("/jobs").status_code == 200
        rotated = registry_of(*OPERATORS)
        rotated["operators"]["otto"]["hashes"] = rotated["operators"]["ada"]["hashes"]
        service.registry.put(rotated)
        service.registry.refresh()
        assert browser.get("/jobs").status_code == 303


def test_ten_wrong_keys_of_an_address_are_followed_by_none(templates: Templates) -> None:
    with database_beside(templates.server, templates.control) as dsn, serving(dsn) as service:
        browser = service.browser()
        assert [browser.post("/login", key="wrong").status_code for _ in range(11)] == [401] * 10 + [429]
        assert browser.post("/login", key=key_of("ada")).status_code == 429


def test_a_login_link_is_valid_once(service: UiService) -> None:
    made = httpx2.post(f"{service.url}/ui/login/links", headers={"authorization": f"Bearer {DEV_KEY}"})
    path = made.json()["path"].removeprefix("/ui")
    link = path.partition("token=")[2]
    browser = service.browser()
    assert browser.get(path).status_code == 200, "looking at a link does not use it up"
    assert browser.post("/login/link", link=link).status_code == 303
    assert browser.get("/jobs").status_code == 200
    assert service.browser().post("/login/link", link=link).status_code == 401


def test_onramp_up_gets_a_link_that_logs_in(service: UiService) -> None:
    link = login_link(service.url, DEV_KEY)
    assert link
    assert link.startswith(f"{service.url}/ui/login/link?token=")
    assert login_link(service.url, "wrong", seconds=0) is None
    assert login_link("http://127.0.0.1:1", DEV_KEY, seconds=0) is None


def test_a_logout_ends_the_session_and_copies_of_its_cookie(templates: Templates) -> None:
    with database_beside(templates.server, templates.control) as dsn, serving(dsn) as service:
        browser, other = service.browser().log_in("otto"), service.browser().log_in("otto")
        copy = dict(browser.http.cookies)
        assert browser.write("/logout").headers["location"] == "/ui/login"
        assert not browser.http.cookies
        assert browser.get("/jobs").status_code == 303
        assert httpx2.get(f"{service.url}/ui/jobs", cookies=copy).status_code == 303
        assert other.get("/jobs").status_code == 200, "another session of the key goes on"
        with serving(dsn) as restarted:
            moved = {f"onramp-{restarted.url.rpartition(':')[2]}": value for value in copy.values()}
            assert httpx2.get(f"{restarted.url}/ui/jobs", cookies=moved).status_code == 303


def test_a_session_survives_a_restart(templates: Templates) -> None:
    with database_beside(templates.server, templates.control) as dsn, serving(dsn) as service:
        [cookie] = service.browser().log_in("otto").http.cookies.values()
        with serving(dsn) as restarted:
            moved = {f"onramp-{restarted.url.rpartition(':')[2]}": cookie}
            assert httpx2.get(f"{restarted.url}/ui/jobs", cookies=moved).status_code == 200


def test_under_tls_the_cookie_is_of_this_host_alone(templates: Templates) -> None:
    with database_beside(templates.server, templates.control) as dsn, inside(dsn, {}) as service:
        browser = TestClient(service.client.app, base_url="https://onramp.example", follow_redirects=False)
        answer = browser.post("/ui/login", data={"key": operator_key_of("ada")}, headers=SAME_ORIGIN)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-onramp=")
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
        assert "Domain" not in cookie
        assert browser.get("/ui/jobs").status_code == 200


def test_a_login_replaces_the_session(service: UiService) -> None:
    browser = service.browser().log_in("vera").log_in("otto")
    assert "<strong>otto</strong>" in browser.get("/jobs").text
    link = login_link(service.url, key_of("ada"))
    assert link
    token = link.partition("token=")[2]
    assert browser.post("/login/link", link=token).status_code == 303
    assert "<strong>ada</strong>" in browser.get("/jobs").text


def test_a_link_needs_a_key(service: UiService) -> None:
    url = f"{service.url}/ui/login/links"
    assert httpx2.post(url).status_code == 403
    assert httpx2.post(url, headers={"authorization": "Bearer wrong"}).status_code == 401


def _job(service: UiService) -> int:
    [(number,)] = rows(service.dsn, "SELECT coalesce(max(id), 0) FROM onramp_admin.jobs")
    execute(service.dsn, JOB)
    return int(number) + 1


def _state(service: UiService, job: int) -> str:
    [(state,)] = rows(service.dsn, f"SELECT state FROM onramp_admin.jobs WHERE id = {job}")  # noqa: S608
    return str(state)


@pytest.mark.parametrize(
    "headers",
    [{}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "none"}, {"origin": "http://evil.example"}],
)
def test_a_form_of_another_origin_is_refused(
    service: UiService, browser: Browser, headers: dict[str, str]
) -> None:
    job, token = _job(service), browser.log_in("otto").token()
    answer = browser.post(f"/jobs/{job}/cancel", headers, token=token)
    assert (answer.status_code, _state(service, job)) == (403, "running")


def test_a_form_needs_its_token_and_our_origin_is_enough(service: UiService, browser: Browser) -> None:
    job, token = _job(service), browser.log_in("otto").token()
    foreign = service.browser().log_in("ada").token()
    for wrong in ("", "x", foreign):
        assert browser.post(f"/jobs/{job}/cancel", token=wrong).status_code == 403
    assert _state(service, job) == "running"
    answer = browser.post(f"/jobs/{job}/cancel", {"origin": service.url}, token=token)
    assert (answer.headers["location"], _state(service, job)) == (f"/ui/jobs/{job}", "cancelled")
    [(actor,)] = rows(service.dsn, f"SELECT actor FROM onramp_admin.acts WHERE subject = 'job {job}'")  # noqa: S608
    assert actor == "otto"


def test_a_role_that_is_too_low_is_refused_and_recorded(service: UiService, browser: Browser) -> None:
    job = _job(service)
    browser.log_in("vera")
    assert f"/jobs/{job}/cancel" not in browser.get(f"/jobs/{job}").text
    answer = browser.write(f"/jobs/{job}/cancel")
    assert (answer.status_code, _state(service, job)) == (403, "running")
    refused = rows(service.dsn, "SELECT subject FROM onramp_admin.acts WHERE actor = 'vera'")
    assert (f"POST /ui/jobs/{job}/cancel",) in refused


def test_a_form_without_a_session_is_sent_after_the_login(service: UiService, browser: Browser) -> None:
    job = _job(service)
    answer = browser.post(f"/jobs/{job}/cancel", token="old", once="a-b-c")
    assert answer.status_code == 401
    assert 'name="field:once" value="a-b-c"' in answer.text
    again = browser.post(
        "/login", key=key_of("otto"), action=f"/ui/jobs/{job}/cancel", **{"field:once": "a-b-c"}
    )
    assert f'action="/ui/jobs/{job}/cancel"' in again.text
    assert 'name="once" value="a-b-c"' in again.text
    assert _state(service, job) == "running", "the form is sent by its button"


def test_a_session_is_none_for_the_api(browser: Browser) -> None:
    browser.log_in("ada")
    assert browser.http.get("/v1/jobs").status_code == 401


def test_a_program_of_this_machine_needs_no_login_without_operators(templates: Templates) -> None:
    with database_beside(templates.server, templates.control) as dsn, serving(dsn, keyless=True) as service:
        browser = service.browser()
        assert browser.get("/jobs").status_code == 200
        assert browser.get("/jobs", host="evil.example:80").status_code == 403
        assert browser.get("/jobs", origin="http://evil.example").status_code == 403
        assert browser.get("/jobs", origin=service.url).status_code == 200
