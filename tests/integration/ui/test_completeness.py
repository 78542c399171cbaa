"""The pages Tracers and Statement, and their lines on the Overview: from background readings alone."""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta

import pytest

from services.admin.figures.parts import Part
from services.admin.figures.tracers_watch import TracersReading
from services.admin.statements.day_statements import DayStatement
from services.admin.store import readings_sql
from services.admin.store.control_sql import transaction
from services.ops.statement.balance import Statement
from services.ops.statement.lake import LakePartition, LakeTableLine
from services.ops.statement.reading import Counts, DatabaseReading, TopicReading, Uncounted
from shared.tracer_status import TracerCell, TracerHour
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.ui import Browser, UiService, serving
from tests.fixtures.writer import execute
from tests.integration.admin.conftest import database_beside

HOSTILE = '"><img onerror>\u202e'
TODAY = datetime.now(UTC).date()
YESTERDAY, EARLIER = TODAY - timedelta(days=1), TODAY - timedelta(days=9)


@pytest.fixture(scope="module")
def service(templates: Templates) -> Iterator[UiService]:
    with (
        database_beside(templates.server, templates.control) as dsn,
        database_beside(templates.server, templates.writer) as writer,
        serving(dsn, databases={"onramp": writer}) as found,
    ):
        yield found


@pytest.fixture
def browser(service: UiService) -> Iterator[Browser]:
    yield service.browser().log_in("vera")
    service.tracers.reading = TracersReading(is_configured=False)
    service.days._past.clear()
    service.days.today = service.days.yesterday = None
    execute(service.dsn, "TRUNCATE onramp_admin.readings")


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def cell(entrance: str = "single@gateway:8080", result: str = "landed", **more: object) -> TracerCell:
    now = datetime.now(UTC)
    hour = now.replace(minute=0, second=0, microsecond=0)
    hours = (
        TracerHour(hour - timedelta(hours=3), {"landed": 359, "lost": 1}, 2.5),
        TracerHour(hour, {"landed": 12}, 1.2),
    )
    given = {"destination": "onramp.events.onramp_probe", "sent_at": now, "seconds": 1.2, "hours": hours}
    return TracerCell(entrance=entrance, result=result, **(given | more))  # type: ignore[arg-type]


def show_tracers(service: UiService, *cells: TracerCell, down: str = "") -> None:
    now = datetime.now(UTC)
    parts = (Part("tracer", "tracer", is_up=not down, since=now, reason=down),)
    service.tracers.reading = TracersReading(is_configured=True, at=now, cells=cells, parts=parts)


def store(service: UiService, day: date, *topics: str, landed: int = 1_000, missing: int = 0) -> None:
    """Store readings at the start and the end of a day between which events land in each topic."""
    start = datetime.combine(day, time(), UTC)
    for at, events in ((start, 0), (start + timedelta(days=1), landed)):
        reading = DatabaseReading(
            at,
            {
                topic: TopicReading(
                    topic,
                    {0: events},
                    {0: 0},
                    {f"events.{topic}": Counts(events, {"landed": max(events - missing, 0)})},
                    uncounted=Uncounted(),
                )
                for topic in topics
            },
        )
        with transaction(service.dsn) as conn:
            readings_sql.add(conn, at, {"onramp": reading})


def test_the_matrix_has_the_last_result_its_latency_and_a_day(service: UiService, browser: Browser) -> None:
    show_tracers(service, cell(), cell("kafka", "waiting", seconds=None))
    html = browser.get("/tracers").text
    text = words(html)
    assert "1 of 2 tracers landed: 1 waiting." in text
    assert re.search(r"single@gateway:8080 landed 1.2 s", text)
    (strip,) = re.findall(r"Results of single@.*?</svg>", html, re.DOTALL)
    colours = re.findall(r'<rect class="c-(\w+)"', strip)
    assert len(colours) == 24
    assert (colours[-1], colours[-2], colours[-4]) == ("land", "ground", "err")
    assert "onramp tracer status" in text
    day = words(browser.get("/tracers/day?entrance=kafka&destination=onramp.events.onramp_probe").text)
    assert re.search(r"Hour \(UTC\) Lost Landed Slowest", day)
    assert re.search(r"1 359 2.5 s", day)


def test_tracers_not_configured_lost_or_down_are_shown_on_their_page_and_the_overview(
    service: UiService, browser: Browser
) -> None:
    assert "ONRAMP_TRACER_URLS" in words(browser.get("/tracers").text)
    assert browser.get("/tracers/day?entrance=x&destination=y").status_code == 404
    lost = cell("kafka", day={"landed": 371, "lost": 1}, refusal=HOSTILE)
    show_tracers(service, lost, down="the connection is refused")
    html = browser.get("/tracers").text
    assert "Tracer does not answer" in words(html)
    assert "Needs an operator" in html
    assert "<img" not in html
    overview = words(browser.get("/").text)
    assert "1 path of tracers needs an operator." in overview
    assert "All is well" not in overview
    assert re.search(r"Tracers : tracer does not answer , since", overview)


def test_the_overview_has_a_line_for_each(service: UiService, browser: Browser) -> None:
    show_tracers(service, cell(), cell("kafka", seconds=0.4))
    store(service, YESTERDAY, "events.order_placed", "events.signup")
    service.days.yesterday = asyncio.run(service.days.of_past_day(YESTERDAY, datetime.now(UTC)))
    text = words(browser.get("/").text)
    assert "Tracers : All tracers landed, slowest 1.2 s." in text
    assert "Statement : yesterday 2,000 accepted, all accounted for." in text
    of_some = words(service.browser().log_in("olga").get("/").text)
    assert "Statement" not in of_some


def test_a_day_is_stated_by_topic_and_of_one_type(service: UiService, browser: Browser) -> None:
    store(service, EARLIER, *(f"events.t{n:03}" for n in range(60)))
    html = browser.get(f"/statement?day={EARLIER}").text
    text = words(html)
    assert "60,000 accepted, all accounted for." in text
    assert f"onramp statement --day {EARLIER}" in text
    assert "events.t049" in text
    assert "events.t050" not in text
    assert "events.t050" in browser.get(f"/statement?day={EARLIER}&cursor=events.t049").text
    assert browser.get(f"/statement?day={EARLIER}&rows=all").text.count("→ onramp.events.events.t") == 60
    one = words(browser.get(f"/statement?day={EARLIER}&type=t007").text)
    assert "1,000 accepted, all accounted for." in one
    assert "events.t008" not in one
    assert f"onramp statement --day {EARLIER} --type t007" in one
    assert "No record of this day" in words(browser.get(f"/statement?day={EARLIER}&type=unknown").text)


def test_a_difference_is_named_on_the_page_and_in_the_first_line(
    service: UiService, browser: Browser
) -> None:
    store(service, YESTERDAY, "events.order_placed", missing=3)
    service.days.yesterday = asyncio.run(service.days.of_past_day(YESTERDAY, datetime.now(UTC)))
    html = browser.get("/statement").text
    assert "has 1,000 records and 997 outcomes" in words(html)
    assert "differs" in html
    other = words(browser.get("/statement?type=signup").text)
    assert "outcomes" not in other
    assert "The statement of yesterday does not add up." in words(browser.get("/").text)
    assert "does not add up" not in words(service.browser().log_in("olga").get("/").text)


def test_tables_of_the_lake_are_stated_with_what_they_were_compared_with(
    service: UiService, browser: Browser
) -> None:
    start = datetime.combine(TODAY, time(), UTC)
    partitions = [LakePartition("flights", HOSTILE, 0, "a", 0, 1_234, 1_230)]
    table = LakeTableLine("flights", "flight", HOSTILE, partitions, 4, ["onramp.events.flight"])
    broken = LakeTableLine(
        "trains", "train", "events.train", partitions, None, difference="4 rows are missing"
    )
    times: dict[str, tuple[datetime | None, datetime]] = {"onramp": (start, start + timedelta(minutes=1))}
    stated = Statement(lake=[table, broken], differences=[broken.difference], times=times)
    service.days.today = DayStatement(TODAY, stated, datetime.now(UTC))
    html = browser.get(f"/statement?day={TODAY}").text
    text = words(html)
    assert "lake.flights" in text
    assert "1,230 4 onramp.events.flight yes" in text
    assert "lake.trains events.train 1,230 \u2013 \u2013 differs" in text
    assert HOSTILE not in html


@pytest.mark.parametrize(
    ("day", "message"),
    [
        ((TODAY + timedelta(days=1)).isoformat(), "has not begun: the last day is today"),
        ("9999-12-31", "has not begun: the last day is today"),
        ("0001-01-01", "This is no day."),
        ("20260101", "This is no day."),
        ("2026-02-30", "This is no day."),
        (HOSTILE, "This is no day."),
    ],
)
def test_a_day_without_a_statement_is_refused_and_the_form_is_kept(
    browser: Browser, day: str, message: str
) -> None:
    answer = browser.http.get("/ui/statement", params={"day": day, "type": "order_placed"})
    assert answer.status_code == 422
    assert message in words(answer.text)
    assert 'value="order_placed"' in answer.text
    assert "<img" not in answer.text


def test_a_day_without_readings_and_one_that_is_being_made_are_empty(browser: Browser) -> None:
    assert "no reading of this database is stored" in words(browser.get(f"/statement?day={EARLIER}").text)
    assert "being computed" in words(browser.get("/statement").text)


def test_the_statement_of_today_is_the_background_reading_also_while_kafka_is_down(
    service: UiService, browser: Browser
) -> None:
    now = datetime.now(UTC)
    store(service, YESTERDAY, "events.order_placed")
    asyncio.run(service.days.refresh(now))
    text = words(browser.get(f"/statement?day={TODAY}").text)
    assert "Not evaluated" in text
    assert "Kafka" in text
    assert service.days.today is not None
    before = service.days.today
    browser.get(f"/statement?day={TODAY}&type=order_placed")
    assert service.days.today is before, "a request makes no statement of today"


def test_an_operator_of_some_events_sees_no_statement(service: UiService) -> None:
    assert service.browser().log_in("olga").get("/statement").status_code == 403
