"""`onramp top` prints the difference between two readings, and which figures it could not read."""

import io
import json
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prometheus_client import CollectorRegistry, Histogram
from rich.console import Console
from typer.testing import CliRunner

from services.cli import top_run
from services.cli.app import app
from services.cli.exits import Exit
from services.cli.show.top import Pair, View, tables_of, view_of
from services.ingest.observe import figures, metrics
from services.ingest.observe.tallies import HistogramTally
from services.writer.observe.database_stats import DatabaseSizes, DatabaseStats
from services.writer.observe.lag import Lag
from services.writer.observe.status import Status
from services.writer.observe.status_server import StatusServer
from shared.figures import GatewayFigures, WriterFigures
from shared.kafka_read.offsets import Partition
from shared.service_pages import PageError


def writer_with(landed: int, parked: int, status: Status) -> WriterFigures:
    totals = {("events.a", "events.a", "landed"): landed, ("events.a", "events.a", "parked"): parked}
    status.update({"db": "landing"}, {})
    status.update_lag({Partition("events.a", 0): Lag(5, None)})
    status.update_database("db", DatabaseStats(totals, {}, {}))
    status.update_sizes("db", DatabaseSizes(waiting=(7, None)))
    status.update_connections({"db": {"idle": 3}})
    return status.figures()


def accepted(events: int, instance: str = "first", name: str = "a") -> GatewayFigures:
    return GatewayFigures(instance=instance, uptime_seconds=1.0, events=[(name, "accepted", events)])


def view_between(before: WriterFigures | None, now: WriterFigures | None, seconds: float = 2.0) -> View:
    return view_of(Pair(None, None, 0.0), Pair(before, now, seconds))


def test_events_landed_between_two_polls_are_shown_per_second() -> None:
    status = Status(new_counter_seconds=60.0)
    before = writer_with(100, 1, status)
    view = view_between(before, writer_with(140, 3, status))
    (line,) = view.types
    assert (line.event_type, line.out_per_second, line.parked_per_second) == ("a", 20.0, 1.0)
    assert (line.parked, line.lag_events) == (3, 5)
    (database,) = view.databases
    assert (database.database, database.state, database.out_per_second) == ("db", "landing", 20.0)
    assert (database.waiting, database.connections) == (7, 3)
    assert (view.out_per_second, view.request_p99_seconds) == (20.0, None)


def test_age_of_the_lag_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    status = Status()
    assert view_between(status.figures(), status.figures()).lag_age_seconds is None
    read_at = time.time()
    monkeypatch.setattr(time, "time", lambda: read_at)
    figures = writer_with(100, 1, status)
    monkeypatch.setattr(time, "time", lambda: read_at + 4)
    view = view_between(figures, figures)
    assert view.lag_age_seconds == pytest.approx(4, abs=0.5)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(tables_of(view, []))
    assert "lag of 4 s ago" in console.export_text()
    status.update_standby("db")
    assert view_between(figures, status.figures()).lag_age_seconds is None


def test_a_gateway_that_restarted_counts_from_0() -> None:
    def rate(before: GatewayFigures, now: GatewayFigures) -> float:
        return view_of(Pair(before, now, 2.0), Pair(None, None, 0.0)).in_per_second

    assert rate(accepted(100), accepted(130)) == 15.0
    assert rate(accepted(100), accepted(130, "second")) == 65.0
    assert rate(accepted(100), accepted(100)) == 0.0


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
    tally = HistogramTally(Histogram("h", "h", buckets=(1, 10), registry=CollectorRegistry()), (1, 10))
    for _ in range(1000):
        tally.observe(9.0)  # before the first look
    before = tally.totals()
    for value in values:
        tally.observe(value)
    assert tally.totals().since(before).p99() == expected


def test_names_that_anybody_may_make_are_no_markup() -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    now = accepted(1, name='[red]"a\n')
    console.print(tables_of(view_of(Pair(now, now, 1.0), Pair(None, None, 0.0)), ["[bold]gone"]))
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
            for _ in range(10):
                metrics.EVENTS_TALLY.add("a", "shop", "accepted")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(figures.document())

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
    assert "The gateway does not answer: http://127.0.0.1:1/figures cannot be read" in answer.stderr


def test_a_service_that_comes_back_did_not_land_everything_at_once(services: tuple[str, str]) -> None:
    run = top_run.TopRun("http://127.0.0.1:1", "http://127.0.0.1:1", 0.0)
    run._next()
    run._writer = services[1]
    assert run._next().out_per_second == 0


def test_while_one_does_not_answer_it_stays_as_it_was_and_the_others_rates_are_true(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, status = {"now": 0.0}, Status()

    def read(service: str, _: type) -> GatewayFigures | WriterFigures:
        if service == "gateway" and clock["now"] > 0:
            raise PageError("It is down.", fix="")
        if service == "gateway":
            return accepted(7, name="b")
        return writer_with(1000 + int(100 * clock["now"]), 0, status)

    def sleep(seconds: float) -> None:
        clock["now"] += seconds

    monkeypatch.setattr(top_run, "read_figures", read)
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    run = top_run.TopRun("gateway", "writer", 2.0)
    run._next()
    for _ in range(2):
        view = run._next()
        assert view.out_per_second == 100.0
        assert {each.event_type: each.in_per_second for each in view.types} == {"a": 0.0, "b": 0.0}


def test_a_database_that_is_read_for_the_first_time_did_not_land_its_past_now() -> None:
    status = Status()
    view = view_between(status.figures(), writer_with(1000, 0, status))
    assert (view.out_per_second, view.types[0].parked) == (0.0, 0)
