"""The page Search: a sentence and a timeline, limited to the reader's rights, for any input."""

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.fixtures.fix_postgres import Templates
from tests.fixtures.ui import UiService, serving
from tests.fixtures.writer import execute, rows
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.operator_service import EVENTS

NAMED = """SELECT topic || '/' || partition || '/' || "offset" FROM onramp_admin.parked
    WHERE event_name = %s ORDER BY id LIMIT 1"""


@pytest.fixture(scope="module")
def searched(templates: Templates) -> Iterator[UiService]:
    """A service with parked events of two teams; no Kafka answers it."""
    with database_beside(templates.server, templates.control) as dsn:
        execute(dsn, EVENTS)
        with serving(dsn) as service:
            yield service


def _answer(page: str) -> str:
    found = re.search(r'id="answer"[^>]*>(.*?)</p>', page, re.DOTALL)
    assert found, page
    return re.sub(r"<[^>]+>", "", found[1])


def test_a_receipt_has_its_sentence_its_timeline_and_its_command(searched: UiService) -> None:
    [(receipt,)] = rows(searched.dsn, NAMED, "pay_made")
    answer = searched.browser().log_in("vera").get(f"/search?q={quote(receipt, safe='')}")
    assert answer.status_code == 200
    assert _answer(answer.text) == "e (pay_made) is parked for d."
    assert '<ol class="timeline">' in answer.text
    assert f"onramp journey {receipt}" in answer.text
    assert "Kafka" in answer.text.partition("Unknown")[2]


def test_a_reader_of_some_types_finds_no_other(searched: UiService) -> None:
    browser = searched.browser().log_in("olga")
    for name, status in (("order_made", 200), ("pay_made", 503), (None, 503)):
        of = rows(searched.dsn, NAMED.replace("= %s", "IS NOT DISTINCT FROM %s"), name)[0][0]
        answer = browser.get(f"/search?q={quote(of, safe='')}")
        assert answer.status_code == status, answer.text
        assert ("is parked" in answer.text) is (status == 200)


@pytest.mark.parametrize(
    "text", ['"><img src=x onerror=alert(1)>', "a/b", "\u202eevil", "x" * 200, "a' OR 1=1"]
)
def test_invalid_search_text_is_refused_and_is_shown_escaped(searched: UiService, text: str) -> None:
    answer = searched.browser().log_in("vera").get(f"/search?q={quote(text, safe='')}")
    assert answer.status_code == 422
    assert "neither an event" in _answer(answer.text)
    assert "<img src=x" not in answer.text
    assert "\u202e" not in answer.text


def test_without_a_text_the_page_says_what_can_be_searched(searched: UiService) -> None:
    answer = searched.browser().log_in("vera").get("/search")
    assert answer.status_code == 200
    assert "onramp journey events.order_placed/3/1041" in answer.text
