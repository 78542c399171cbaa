"""The pages of transforms and their part of the Overview: rendered from the background reading alone."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from services.admin.figures.parts import Part
from services.admin.figures.transforms_watch import TransformsReading
from services.ops.findings import Source
from services.ops.parked.parked_events import StoredEvent
from services.ops.transforms.kafka_totals import PartitionTotals, TransformTotals
from services.ops.transforms.overview import overview
from services.ops.transforms.reader import TransformFacts
from shared.errors import TRANSFORM_FAILED
from shared.registry.transforms import digest_of_source
from shared.transform_state import PAUSED, TransformState
from tests.browser.seeds import keep
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.ui import Browser, UiService, serving
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.parked_samples import parked

HOSTILE = '"><img onerror>\u202e'
OLD = "def transform(event, lookup):\n    return None\n"
NEW = f"def transform(event, lookup):\n    return []  # {HOSTILE}\n"


def deployed(source: str) -> dict[str, object]:
    entry = {"from": "flight_departed", "to": ["flight_delayed"], "lanes": 2, "source": source}
    return {"transforms": {"delays": {**entry, "digest": digest_of_source(source)}}}


@pytest.fixture(scope="module")
def service(templates: Templates) -> Iterator[UiService]:
    types: dict[str, object] = {"event_types": {"flight_departed": {}, "flight_delayed": {}}}
    changes = ({"put": deployed(OLD), "reason": "first"}, {"put": deployed(NEW), "reason": "half an hour"})
    with (
        database_beside(templates.server, templates.control) as dsn,
        serving(dsn, known=types | deployed(NEW), changes=changes) as found,
    ):
        for line in (3, 3, 7):
            keep(dsn, [_failed(line)])
        yield found


_offsets = iter(range(100))


def _failed(line: int) -> StoredEvent:
    offset = next(_offsets)
    return parked(
        offset,
        b'{"event_name":"flight_departed"}',
        code=TRANSFORM_FAILED.code,
        step="transform",
        destination="transform:delays",
        detail=f"KeyError in transform, line {line}",
        event_name="flight_departed",
    )


@pytest.fixture
def browser(service: UiService) -> Iterator[Browser]:
    yield service.browser().log_in("vera")
    service.transforms.reading = TransformsReading()


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def show(service: UiService, *, state: TransformState | None = None, down: str = "") -> None:
    now = datetime.now(UTC)
    counts = Counter(emitted=4_000, dropped=30_000, parked=3, filtered=2, outputs=8_000, deaths=1)
    topic = "events.flight_departed"
    partitions = [PartitionTotals(Source(topic, n), 17_000, 5 + n, counts) for n in (0, 1, 2)]
    facts = TransformFacts(
        {} if state is None else {"delays": state}, {"delays": TransformTotals(counts, partitions)}
    )
    parts = (Part("kafka", "Kafka", is_up=not down, since=now, reason=down),)
    views = tuple(overview(service.registry.snapshot(), facts))
    service.transforms.reading = TransformsReading(now, views, parts)


def test_the_list_has_version_lag_outcomes_and_state(service: UiService, browser: Browser) -> None:
    assert "have not been read yet" in words(browser.get("/transforms").text)
    show(service)
    text = words(browser.get("/transforms").text)
    row = f"delays flight_departed → flight_delayed {digest_of_source(NEW)[:12]} 18 4,000 8,000 30,000 3"
    assert row in text
    assert re.search(r"parked by delays running", text)
    assert "onramp transforms list" in text


def test_transform_page_shows_lanes_failure_groups_and_versions(service: UiService, browser: Browser) -> None:
    show(service)
    html = browser.get("/transforms/delays").text
    text = words(html)
    assert "Lane 0 12 events.flight_departed/0 17,000 5" in text
    assert "Lane 1 6 events.flight_departed/1 17,000 6" in text
    groups = re.findall(r'href="/ui/groups/\d+">The function raised <code[^>]*>(.*?)</code>', html)
    assert groups == ["KeyError in transform, line 7", "KeyError in transform, line 3"]
    assert "transform_failed 2" in text
    assert "onramp transforms rehearse delays --since 24h --against live" in text
    new, old = (digest_of_source(each)[:12] for each in (NEW, OLD))
    assert re.search(rf"{new} deployed .*? by ada: half an hour in force .*?-\s+return None .*?{old}", text)
    assert "<img" not in html
    assert "Pause…" not in text
    assert "Roll back…" not in text
    assert "Pause…" in words(service.browser().log_in("otto").get("/transforms/delays").text)
    assert "Roll back…" in words(service.browser().log_in("ada").get("/transforms/delays").text)
    assert browser.get("/transforms/absent").status_code == 404


def test_a_paused_transform_is_named_first_on_the_overview(service: UiService, browser: Browser) -> None:
    show(service)
    assert "1 of 1 transform runs, 18 events wait." in words(browser.get("/").text)
    show(service, state=TransformState(state=PAUSED, reason=HOSTILE, at="2026-01-01T00:00:00Z"))
    html = browser.get("/").text
    assert "1 transform is paused. 18 events wait for delays ." in words(html)
    assert "0 of 1 transform runs" in words(html)
    shown = browser.get("/transforms/delays").text
    assert "It is paused by the transform service" in words(shown)
    assert "<img" not in html + shown
    assert "Resume…" not in words(shown)
    ada = words(service.browser().log_in("ada").get("/transforms/delays").text)
    assert "Resume… Resume with loss…" in ada
    of_some = words(service.browser().log_in("olga").get("/").text)
    assert "transform" not in of_some


def test_the_last_reading_is_shown_while_kafka_does_not_answer(service: UiService, browser: Browser) -> None:
    show(service, down="the connection is refused")
    for path in ("/transforms", "/transforms/delays"):
        text = words(browser.get(path).text)
        assert "Kafka does not answer , since" in text
        assert "4,000" in text
    service.transforms.read()
    assert [part.name for part in service.transforms.reading.down()] == ["Kafka"]
    assert service.transforms.reading.transforms, "the last ones are retained"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("olga", "/transforms"),
        ("vera", "/transforms/delays/state/pause"),
        ("otto", "/transforms/delays/state/resume"),
        ("otto", "/transforms/delays/state/accept"),
        ("otto", "/transforms/delays/rollback?to=" + digest_of_source(OLD)),
    ],
)
def test_a_role_is_refused_what_the_api_refuses_it(service: UiService, name: str, path: str) -> None:
    show(service)
    answer = service.browser().log_in(name).get(path)
    assert answer.status_code == 403
    assert "may not do this" in words(answer.text) or "needs the role" in words(answer.text)


def test_each_change_is_refused_to_a_role_without_it(service: UiService) -> None:
    show(service)
    otto, vera = (service.browser().log_in(name) for name in ("otto", "vera"))
    refused = [
        otto.write("/transforms/delays/state/resume", reason="it is fixed"),
        otto.write("/transforms/delays/rollback", reason="it is wrong", to=digest_of_source(OLD), etag="*"),
        vera.write("/transforms/delays/state/pause", reason="it is wrong"),
    ]
    assert [each.status_code for each in refused] == [403, 403, 403]
