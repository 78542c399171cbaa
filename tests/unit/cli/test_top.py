"""`onramp top` says what happened between two looks, and what it could not see."""

import io
import json
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from typer.testing import CliRunner

from services.cli.app import app
from services.cli.exits import Exit
from services.cli.show.top import tables_of, view_of
from services.ingest.observe import metrics
from services.ingest.observe.page import exposition
from services.writer.model.offsets import Partition
from services.writer.observe.database_stats import DatabaseSizes, DatabaseStats
from services.writer.observe.lag import Lag
from services.writer.observe.status import Status
from services.writer.observe.status_server import StatusServer
from shared.metric_pages import PageError, Sample, Scrape, p99, rates

NAME = "onramp_writer_events_total"
ACCEPTED = {"event_type": "b", "outcome": "accepted"}


def look(at: float, page: bytes) -> Scrape:
    families = text_string_to_metric_families(page.decode())
    return Scrape(at, [Sample(s.name, s.labels, s.value) for family in families for s in family.samples])


def writer_with(landed: int, parked: int, status: Status) -> bytes:
    totals = {("events.a", "events.a", "landed"): landed, ("events.a", "events.a", "parked"): parked}
    status.update({"db": "landing"}, {})
    status.update_lag({Partition("events.a", 0): Lag(5, None)})
    status.update_database("db", DatabaseStats(totals, {}, {}))
    status.update_sizes("db", DatabaseSizes(waiting=(7, None)))
    status.update_connections({"db": {"idle": 3}})
    return status.page()


def test_what_landed_between_two_looks_is_shown_a_second() -> None:
    status = Status()
    before = look(10.0, writer_with(100, 1, status))
    view = view_of(before, look(12.0, writer_with(140, 3, status)))
    (line,) = view.types
    assert (line.event_type, line.out_per_second, line.parked_per_second) == ("a", 20.0, 1.0)
    assert (line.parked, line.lag_events) == (3, 5)
    (database,) = view.databases
    assert (database.database, database.state, database.out_per_second) == ("db", "landing", 20.0)
    assert (database.waiting, database.connections) == (7, 3)
    assert (view.out_per_second, view.request_p99_seconds) == (20.0, None)


def test_the_age_of_the_lag_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    status = Status()
    assert view_of(look(0, status.page()), look(1, status.page())).lag_age_seconds is None
    read_at = time.time()
    monkeypatch.setattr(time, "time", lambda: read_at)
    page = look(10.0, writer_with(100, 1, status))
    monkeypatch.setattr(time, "time", lambda: read_at + 4)
    view = view_of(page, page)
    assert view.lag_age_seconds == pytest.approx(4, abs=0.5)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(tables_of(view, []))
    assert "lag of 4 s ago" in console.export_text()
    status.update_standby("db")
    assert view_of(page, look(12.0, status.page())).lag_age_seconds is None


def test_a_counter_that_began_again_counts_from_0() -> None:
    def at(moment: float, value: float) -> Scrape:
        return Scrape(moment, [Sample(NAME, {"database": "db"}, value)])

    assert rates(at(0, 100), at(2, 30), NAME, "database") == {"db": 15.0}
    assert rates(Scrape(0), at(2, 30), NAME, "database") == {"db": 15.0}
    assert rates(at(2, 30), at(2, 30), NAME, "database") == {"db": 0.0}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([0.5] * 100, 0.99),  # as Prometheus: between 0 and the bucket's bound of 1
        ([0.5] * 98 + [5.0] * 2, 5.5),
        ([50.0], 10.0),  # beyond the last bound
    ],
)
def test_p99_is_of_what_happened_between(values: Sequence[float], expected: float | None) -> None:
    registry = CollectorRegistry()
    histogram = Histogram("h", "h", buckets=(1, 10), registry=registry)
    for _ in range(1000):
        histogram.observe(9.0)  # before the first look
    before = look(0, generate_latest(registry))
    for value in values:
        histogram.observe(value)
    assert p99(before, look(1, generate_latest(registry)), "h") == expected


def test_names_that_anybody_may_make_are_no_markup() -> None:
    registry = CollectorRegistry()
    events = Counter(NAME, NAME, ["event_type", "outcome"], registry=registry)
    events.labels('[red]"a\n', "landed").inc()
    now = look(1, generate_latest(registry))
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(tables_of(view_of(now, now), ["[bold]gone"]))
    text = console.export_text()
    assert "[red]" in text
    assert "[bold]gone" in text


@pytest.fixture
def services() -> Iterator[tuple[str, str]]:
    """The pages that both services really make."""
    status = Status()
    writer_with(1, 0, status)
    writer = StatusServer(status, "127.0.0.1", 0).start()

    class Gateway(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            metrics.EVENTS.labels("a", "shop", "accepted").inc(1000)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(exposition())

        def log_message(self, *_: object) -> None: ...

    gateway = ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    threading.Thread(target=gateway.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{gateway.server_port}", f"http://127.0.0.1:{writer.port}"
    finally:
        gateway.shutdown()
        gateway.server_close()
        writer.stop()


def test_once_as_json_is_for_scripts(services: tuple[str, str]) -> None:
    gateway, writer = services
    for _ in range(5000):
        metrics.EVENTS_TALLY.add("long_ago", "shop", "accepted")  # and no page has had it yet
    answer = CliRunner().invoke(
        app, ["top", "--gateway", gateway, "--writer", writer, "--seconds", "0.1", "--json"]
    )
    assert answer.exit_code == Exit.OK, answer.output
    shown = json.loads(answer.stdout)
    (line,) = (each for each in shown["types"] if each["event_type"] == "a")
    assert line["in_per_second"] > 0
    (past,) = (each for each in shown["types"] if each["event_type"] == "long_ago")
    assert past["in_per_second"] == 0
    assert [each["state"] for each in shown["databases"]] == ["landing"]
    assert shown["problems"] == []


def test_a_service_that_does_not_answer_is_named_and_the_other_is_shown(services: tuple[str, str]) -> None:
    _, writer = services
    answer = CliRunner().invoke(
        app, ["top", "--gateway", "http://127.0.0.1:1", "--writer", writer, "--seconds", "0.1", "--once"]
    )
    assert answer.exit_code == Exit.UNAVAILABLE
    assert "landing" in answer.stdout
    assert "The gateway does not answer: http://127.0.0.1:1/metrics cannot be read" in answer.stderr


def test_a_service_that_comes_back_did_not_land_everything_at_once(
    services: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from services.cli import top_run  # noqa: PLC0415

    run = top_run.TopRun({"writer": services[1]}, 0.0)
    read = top_run.read_metrics
    monkeypatch.setattr(top_run, "read_metrics", lambda _: read("http://127.0.0.1:1"))
    run._next()
    monkeypatch.setattr(top_run, "read_metrics", read)
    assert run._next().out_per_second == 0


def test_while_one_does_not_answer_it_stays_as_it_was_and_the_others_rates_are_true(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from services.cli import top_run  # noqa: PLC0415

    clock, status = {"now": 0.0}, Status()

    def read(service: str) -> Scrape:
        if service == "gateway" and clock["now"] > 0:
            raise PageError("It is down.", fix="")
        if service == "gateway":
            return Scrape(0.0, [Sample("onramp_ingest_events_total", ACCEPTED, 7.0)])
        return look(clock["now"], writer_with(1000 + int(100 * clock["now"]), 0, status))

    def sleep(seconds: float) -> None:
        clock["now"] += seconds

    monkeypatch.setattr(top_run, "read_metrics", read)
    monkeypatch.setattr(top_run.time, "sleep", sleep)
    run = top_run.TopRun({"gateway": "gateway", "writer": "writer"}, 2.0)
    run._next()
    for _ in range(2):
        view = run._next()
        assert view.out_per_second == 100.0
        assert {each.event_type: each.in_per_second for each in view.types} == {"a": 0.0, "b": 0.0}
