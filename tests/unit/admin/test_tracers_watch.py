"""The tracers' results as the pages show them: read from `/status`, merged, and kept while one is down."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import msgspec

from services.admin.figures.tracers_watch import TracersWatch
from services.tracer.results import Destination, Result, Tracer, Watch
from services.tracer.status import status
from shared.page_server import JSON, PageServer
from shared.tracer_status import TracerStatus

HERE = Destination("onramp", "events.onramp_probe")
HOUR = 3600.0
NOW = time.time() // HOUR * HOUR + 60


def tracer(entrance: str, ago: float, result: Result, seconds: float | None = None) -> Tracer:
    sent_at = NOW - ago
    landed_at = None if seconds is None else sent_at + seconds
    return Tracer(f"{entrance}-{ago}", entrance, sent_at, {HERE: Watch(result, landed_at)}, sent_at)


@contextmanager
def serving(document: TracerStatus) -> Iterator[str]:
    body = msgspec.json.encode(document)
    server = PageServer({"/status": lambda: (HTTPStatus.OK, JSON, body)}, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()


def test_a_status_has_the_counts_and_the_slowest_of_each_hour() -> None:
    sent = [
        tracer("single@g", 2 * HOUR, Result.LOST),
        tracer("single@g", HOUR + 10, Result.LANDED, 3.0),
        tracer("single@g", HOUR, Result.LANDED, 1.0),
        tracer("single@g", 0, Result.IN_FLIGHT),
    ]
    (cell,) = status(sent, {}).tracers
    assert (cell.result, cell.seconds) == ("landed", 1.0), "what is in flight is no result yet"
    assert cell.day == {"in_flight": 1, "landed": 2, "lost": 1}
    assert [(each.results, each.slowest_seconds) for each in cell.hours] == [
        ({"lost": 1}, None),
        ({"landed": 2}, 3.0),
        ({"in_flight": 1}, None),
    ]


def test_two_tracers_are_one_matrix() -> None:
    first = status([tracer("kafka", 20, Result.LANDED, 2.0)], {})
    second = status([tracer("kafka", 10, Result.LATE), tracer("single@g", 5, Result.LANDED, 0.5)], {})
    with serving(first) as a, serving(second) as b:
        watch = TracersWatch((a, b))
        asyncio.run(watch.read())
    cells = {cell.entrance: cell for cell in watch.reading.cells}
    assert (cells["kafka"].result, cells["kafka"].day) == ("late", {"landed": 1, "late": 1})
    assert cells["kafka"].hours[0].slowest_seconds == 2.0
    assert watch.reading.sentence == "1 of 2 tracers landed: 1 late."
    assert not watch.reading.down()


def test_a_tracer_that_does_not_answer_is_named_and_keeps_its_results() -> None:
    with serving(status([tracer("kafka", 1, Result.LANDED, 1.25)], {})) as url:
        watch = TracersWatch((url,))
        asyncio.run(watch.read())
    assert watch.reading.sentence == "All tracers landed, slowest 1.2 s."
    asyncio.run(watch.read())
    (down,) = watch.reading.down()
    assert down.name == "tracer"
    assert "refused" in down.reason
    assert [cell.entrance for cell in watch.reading.cells] == ["kafka"]


def test_a_loss_of_the_day_needs_a_person_although_the_last_tracer_landed() -> None:
    lost = status([tracer("kafka", 1000, Result.LOST), tracer("kafka", 1, Result.LANDED, 1.0)], {})
    refused = status([tracer("single@g", 900, Result.REFUSED), tracer("single@g", 1, Result.LANDED, 1.0)], {})
    with serving(lost) as a, serving(refused) as b:
        watch = TracersWatch((a, b))
        asyncio.run(watch.read())
    assert [cell.entrance for cell in watch.reading.bad] == ["kafka"], "an earlier refusal is no loss"
