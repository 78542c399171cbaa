"""The Overview and the Topics: each number from one reading, in words first, and hostile names as text."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.admin.figures.locations import Locations
from services.admin.figures.parts import Part
from services.admin.figures.reading import DatabaseFigures, Reading, TypeFigures
from services.ops.operate.holds_sql import Hold
from services.ops.operate.topics import TopicFacts
from shared.figures import WriterDatabase
from tests.fixtures.ui import OPERATORS, Browser, UiService, registry_of

NOW = datetime.now(UTC)
LINE = (None,) * 50 + (1.0,) * 10
HOSTILE = '"><img onerror>\u202e'
LOCATIONS = Locations(
    at=NOW, accepted=1_000, landed=900, duplicates=10, in_flight=20, waiting_database=50, waiting_kafka=5,
    open=12, replaying=1, not_stored=2, discarded=0, filtered=0, difference=0,
)  # fmt: skip


def type_of(name: str, **more: Any) -> TypeFigures:
    given = {"accepted": 1.0, "landed": 1.0, "accepted_line": LINE, "parked": 0}
    return TypeFigures(name=name, **(given | more))  # type: ignore[arg-type]


def reading_of(locations: Locations = LOCATIONS, *types: TypeFigures, **more: Any) -> Reading:
    more |= dict.fromkeys(("accepted_line", "landed_line", "parked_line"), LINE)
    return Reading(at=NOW, since=NOW, accepted=68.5, landed=57.5, locations=locations, types=types, **more)


def facts(name: str, **more: Any) -> TopicFacts:
    given = {"partitions": 6, "replicas": 1, "retention_ms": -1, "events": 10, "rate": 812.0, "lag": 1}
    return TopicFacts(topic=f"events.{name}", leaderless=0, bytes=None, **(given | more))


@pytest.fixture
def show(service: UiService) -> Iterator[Any]:
    before = service.figures.reading

    def show(reading: Reading, name: str = "vera", path: str = "/") -> str:
        service.figures.reading = reading
        answer = service.browser().log_in(name).get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    yield show
    service.figures.reading = before


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def status(html: str) -> str:
    found = re.search(r'id="status">(.*?)</div>', html, re.DOTALL)
    assert found
    return words(found[1])


def test_the_first_line_says_that_all_is_well(show: Any) -> None:
    well = replace(LOCATIONS, waiting_database=0, waiting_kafka=0, open=0, replaying=0, not_stored=0)
    html = show(reading_of(well))
    assert (
        "All is well. None of 1,000 accepted events waits or needs an operator, and 20 are on their way."
        in status(html)
    )
    assert 'class="banner ok"' in html


def test_the_first_line_says_what_is_not_well_and_why(show: Any) -> None:
    held = Hold("onramp", "type", "order_placed", "paused", None, NOW - timedelta(minutes=68), 50, NOW)
    text = status(show(reading_of(replace(LOCATIONS, holds=(held,)))))
    assert (
        "1 event type is paused. order_placed had too large a share of parked events; 50 events wait" in text
    )
    assert "15 parked events need an operator." in text


def test_a_number_is_the_same_wherever_it_stands(show: Any) -> None:
    html = show(reading_of())
    assert "15 parked events need" in status(html)
    text = words(html)
    assert re.search(r"Parked 15 need an operator", text)
    assert re.search(r"Waiting 55 until", text)
    assert re.search(r"landed 900 .*there already 10 .*in flight 20 .*waiting 55 .*parked 15", text)


def test_a_part_that_is_down_is_named_with_since_and_the_rest_works(show: Any) -> None:
    down = Part(
        "writer", "writer", is_up=False, since=NOW.replace(hour=12, minute=4, second=5), reason="refused"
    )
    text = words(show(reading_of(parts=(down,))))
    assert "Writer does not answer , since 12:04:05 UTC" in text
    assert "1,000 since the beginning" in text


def test_a_difference_is_shown_and_one_that_lasts_is_in_the_first_line(show: Any) -> None:
    differs = replace(LOCATIONS, difference=3, difference_since=datetime.now(UTC) - timedelta(seconds=5))
    html = show(reading_of(differs))
    assert "Difference 3." in words(html)
    assert "no known place" not in status(html)
    lasts = replace(differs, difference_since=NOW - timedelta(minutes=5))
    assert "3 accepted events are in no known place, since" in status(show(reading_of(lasts)))


def test_page_before_the_first_reading_says_that_the_figures_are_being_read(show: Any) -> None:
    assert "The figures are being read." in status(show(Reading(at=NOW, since=NOW)))


def test_names_of_types_are_text(show: Any) -> None:
    html = show(reading_of(LOCATIONS, type_of(HOSTILE)))
    assert "<img" not in html
    assert "\u202e" not in html


def test_a_type_without_an_entry_in_the_registry_links_to_its_topic(service: UiService, show: Any) -> None:
    service.registry.put({**registry_of(*OPERATORS), "event_types": {"order_placed": {}}})
    service.registry.refresh()
    service.figures.totals.topics = (facts("flight_departed"),)
    html = show(reading_of(LOCATIONS, *map(type_of, ("order_placed", "flight_departed", "other"))))
    assert re.findall(r'href="(/ui/t[^"]*/[^"]*)"', html) == [
        "/ui/topics/events.flight_departed",
        "/ui/types/order_placed",
    ]


def test_an_operator_of_some_events_sees_no_total(show: Any) -> None:
    html = show(reading_of(LOCATIONS, type_of("order_placed"), type_of("payroll")), "olga")
    assert "order_placed" in html
    assert "payroll" not in html
    assert "1,000" not in html
    assert "Where every accepted event is" not in html


def test_databases_show_what_waits_for_them_as_the_last_figures_say(show: Any) -> None:
    out = WriterDatabase(state="out", reason="connection refused", waiting_kafka=7)
    reading = reading_of(databases=(DatabaseFigures(name="eu", landed=None, landed_line=LINE, writer=out),))
    page = words(show(reading, path="/databases"))
    assert "connection refused 7 events wait. the writer tries again by itself" in page
    page = words(show(reading, "olga", path="/databases"))
    assert "eu" in page
    assert "connection refused" not in page


def test_a_poll_without_news_is_304(service: UiService, browser: Browser, show: Any) -> None:
    show(reading_of())
    browser.log_in("vera")
    tag = browser.get("/", **{"hx-request": "true"}).headers["etag"]
    service.figures.reading = replace(service.figures.reading, at=NOW + timedelta(seconds=5))
    polled = {"hx-request": "true", "if-none-match": tag}
    assert browser.get("/", **polled).status_code == 304
    service.figures.reading = replace(service.figures.reading, landed=58.0)
    browser.get("/")  # no poll shares an answer from before
    assert browser.get("/", **polled).status_code == 200


def test_tabs_of_one_key_share_the_answer_of_a_poll(service: UiService, browser: Browser, show: Any) -> None:
    show(reading_of())
    first, second = browser.log_in("vera"), service.browser().log_in("vera")
    second.get("/")
    shared = first.get("/", **{"hx-request": "true"})
    service.figures.reading = replace(service.figures.reading, landed=59.0)
    polled = second.get("/", **{"hx-request": "true"})
    assert (polled.headers["etag"], polled.text) == (shared.headers["etag"], shared.text)
    other = service.browser().log_in("otto").get("/", **{"hx-request": "true"})
    assert "59" in words(other.text), "another operator has other rights"
    assert "59" in words(second.get("/").text), "a page that is loaded is computed"


def test_the_hour_is_a_table_as_well(show: Any) -> None:
    html = show(reading_of(), path="/hour")
    assert html.count("<tr>") == 11, "a head, and the ten minutes that are known"


def test_500_types_are_a_short_page(show: Any) -> None:
    database = DatabaseFigures(
        name="onramp",
        landed=1.0,
        landed_line=LINE,
        writer=WriterDatabase(state="landing", size_bytes=94_000_000),
    )
    html = show(reading_of(LOCATIONS, *(type_of(f"t{n}") for n in range(500)), databases=(database,)))
    assert "480 further types are not shown." in words(html)
    assert "94 MB" in words(html)
    assert len(html) < 60_000


def test_topics_are_as_of_a_reading_and_those_that_the_caller_sees(service: UiService, show: Any) -> None:
    service.figures.totals.topics = (facts("order_placed"), facts("payroll"))
    service.figures.totals.topics_at = NOW.replace(hour=9, minute=7, second=6)
    text = words(show(reading_of(), path="/topics"))
    assert "2 topics of events." in text
    assert "as of 09:07:06 UTC" in text
    assert "812 /s" in text
    assert "payroll" not in words(show(reading_of(), "olga", "/topics"))
