"""Pages of parked events without a browser: escaping, masking, refusals, and actions done once."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.browser.seeds import HOSTILE, group_of, keep, order, plant, rehearsed
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.ui import Browser, UiService, serving
from tests.fixtures.writer import execute, rows
from tests.integration.admin.conftest import database_beside


@pytest.fixture(scope="module")
def service(templates: Templates) -> Iterator[UiService]:
    with (
        database_beside(templates.server, templates.control) as dsn,
        serving(dsn, databases={"onramp": dsn}) as found,
    ):
        plant(dsn)
        yield found


@pytest.fixture(scope="module")
def amount(service: UiService) -> int:
    return group_of(service.dsn, "amount")


def _jobs(service: UiService, kind: str) -> int:
    [(count,)] = rows(service.dsn, "SELECT count(*) FROM onramp_admin.jobs WHERE kind = %s", kind)
    return int(count)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_texts_of_events_are_escaped_and_harmless(service: UiService, browser: Browser, number: int) -> None:
    text = HOSTILE[number]
    keep(
        service.dsn,
        [order(5_000 + number, text, column=text, event_name=text, destination=f"onramp.{text}")],
    )
    browser.log_in("ada")
    [(group, event)] = rows(
        service.dsn, 'SELECT group_id, id FROM onramp_admin.events WHERE "offset" = %s', 5_000 + number
    )
    shown = [browser.get("/parked"), browser.get(f"/groups/{group}")]
    shown.append(browser.write(f"/events/{event}/reveal", reason=HOSTILE[0]))
    for page in shown:
        assert page.status_code == 200
        main = page.text.partition("<main")[2]
        assert "<img" not in main
        assert "<script" not in main
        assert not {"\u202e", "\u001b", "\u0000"} & set(page.text)


def test_values_are_masked_until_they_are_revealed(service: UiService, browser: Browser, amount: int) -> None:
    browser.log_in("ada")
    page = browser.get(f"/groups/{amount}").text
    assert "a-999999" in page
    assert "o-000059" not in page
    [(event,)] = rows(service.dsn, 'SELECT id FROM onramp_admin.events WHERE "offset" = 59')
    assert browser.write(f"/events/{event}/reveal", reason="").status_code == 422
    revealed = browser.write(f"/events/{event}/reveal", reason="the amount").text
    assert "o-000059" in revealed
    assert "hx-get" not in revealed
    assert (event,) in [
        (int(subject.split()[1]),)
        for (subject,) in rows(
            service.dsn,
            "SELECT subject FROM onramp_admin.acts WHERE act = 'reveal' AND reason = 'the amount'",
        )
    ]


def test_a_role_that_is_too_low_changes_nothing(service: UiService, browser: Browser, amount: int) -> None:
    browser.log_in("vera")
    page = browser.get(f"/groups/{amount}").text
    assert "fix-form" not in page
    for path, fields in {
        f"/groups/{amount}/fix": {"kind-0": "drop", "place-0": "/amount"},
        f"/groups/{amount}/discard": {"count": "60", "expect": "60", "upto": "100", "reason": "x"},
        "/parked/change": {"groups": f"{amount}-00000000", "decision": "ignore"},
        "/events/1/reveal": {"reason": "x"},
    }.items():
        assert browser.write(path, **fields).status_code == 403, path
    assert _jobs(service, "discard") == 0
    assert service.browser().log_in("otto").write("/events/1/reveal", reason="x").status_code == 403


def test_an_operator_of_some_events_sees_no_others(service: UiService, browser: Browser) -> None:
    browser.log_in("olga")
    page = browser.get("/parked").text
    assert "order_placed" in page
    assert "signup" not in page
    assert browser.get(f"/groups/{group_of(service.dsn, 'payload')}").status_code == 404
    assert browser.get("/audit").status_code == 403


def test_a_stale_decision_names_the_other_operator_and_keeps_the_form(
    service: UiService, browser: Browser
) -> None:
    group = group_of(service.dsn, "coupon")
    browser.log_in("otto")
    form = browser.get(f"/groups/{group}/decide/ignore").text
    [tag] = re.findall(rf'name="groups" value="({group}-\w+)"', form)
    ada = service.browser().log_in("ada")
    assert ada.write("/parked/change", groups=tag, decision="acknowledge").status_code == 303
    stale = browser.write("/parked/change", groups=tag, decision="ignore", reason="noise")
    assert stale.status_code == 412
    assert "by ada" in stale.text
    assert 'value="noise"' in stale.text
    [fresh] = re.findall(rf'name="groups" value="({group}-\w+)"', stale.text)
    assert browser.write("/parked/change", groups=fresh, decision="ignore").status_code == 303


def test_a_double_click_starts_one_job(service: UiService, browser: Browser, amount: int) -> None:
    browser.log_in("otto")
    token = browser.token()
    fix = {"token": token, "last": "0", "kind-0": "comma", "place-0": "/amount", "press": "rehearse"}
    with ThreadPoolExecutor(2) as pool:
        sent = [pool.submit(browser.post, f"/groups/{amount}/fix", **fix) for _ in range(2)]
    assert len({each.result().headers["location"] for each in sent}) == 1
    assert _jobs(service, "rehearse") == 1
    job = rehearsed(service.dsn, amount, landed=57, failed=3)
    form = browser.get(f"/groups/{amount}/replay/{job}").text
    [once] = re.findall(r'name="once" value="([^"]+)"', form)
    path = f"/groups/{amount}/replay/{job}"
    with ThreadPoolExecutor(2) as pool:
        sent = [
            pool.submit(browser.post, path, token=token, once=once, reason="as rehearsed") for _ in range(2)
        ]
    assert {each.result().status_code for each in sent} == {303}
    assert _jobs(service, "replay") == 1


def test_a_forged_cursor_and_a_wrong_filter_are_refused(browser: Browser) -> None:
    browser.log_in("ada")
    for path in ("/parked?cursor=x", "/jobs?kind=party", "/audit?cursor=AAAA", "/parked?state=x"):
        assert browser.get(path).status_code in {400, 422}, path
    assert browser.get("/parked?state=open&state=ignored").status_code in {400, 422}
    assert browser.get("/jobs?kind=").status_code == 200


def test_jobs_are_continued_by_a_cursor(service: UiService, browser: Browser, amount: int) -> None:
    for _ in range(51):
        rehearsed(service.dsn, amount, landed=1, failed=0)
    browser.log_in("vera")
    first = browser.get("/jobs?kind=rehearse").text
    [after] = re.findall(r'rel="next" href="/ui([^"]+)"', first)
    second = browser.get(after.replace("&amp;", "&")).text
    jobs = [set(re.findall(r'id="job-(\d+)"', page)) for page in (first, second)]
    assert (len(jobs[0]), jobs[0] & jobs[1]) == (50, set())
    assert jobs[1]


def test_a_group_without_open_events_is_resolved_and_offers_no_rehearsal(
    service: UiService, browser: Browser
) -> None:
    keep(service.dsn, [order(6_000 + n, "1", column="tax") for n in range(2)])
    group = group_of(service.dsn, "tax")
    browser.log_in("otto")
    assert "Rehearse 2 events" in browser.get(f"/groups/{group}").text
    _set_state(service, 6_000, "discarded")
    assert "Rehearse 1 event<" in browser.get(f"/groups/{group}").text
    _set_state(service, 6_001, "replayed")
    page = browser.get(f"/groups/{group}").text
    assert "fix-form" not in page
    assert f'id="group-{group}"' not in browser.get("/parked").text
    assert f'id="group-{group}"' in browser.get("/parked?state=resolved").text
    _set_state(service, 6_000, "open")
    assert f'id="group-{group}"' in browser.get("/parked").text


def _set_state(service: UiService, offset: int, state: str) -> None:
    execute(
        service.dsn,
        f"UPDATE onramp_admin.states SET state = '{state}' WHERE event = "  # noqa: S608
        f'(SELECT id FROM onramp_admin.parked WHERE "offset" = {offset})',
    )
