"""`onramp up` as a subprocess: first commands, output, interrupts and kills."""

import json
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx2
import psycopg2
import pytest

from stack.kafka import Kafka
from tests.fixtures.fix_postgres import Database
from tests.fixtures.printed import PAGES, Reader
from tests.fixtures.up import StartUp, Up, post
from tests.fixtures.writer import eventually, rows


def result_of(run: Up) -> dict[str, object]:
    lines = [line for line in run.text.splitlines() if line.startswith("{")]
    assert len(lines) == 1, run.text
    document: dict[str, object] = json.loads(lines[0])
    return document


def test_flights_land_and_the_next_run_starts_from_what_is_there_and_stays_until_ctrl_c(
    up: StartUp, with_prometheus: list[str], tmp_path: Path
) -> None:
    """The commands of the pages for producers, analysts and operators run beside it as printed."""
    first = up("--exit", "--json", "--events", "500")
    assert first.wait() == 0, first.text
    result = result_of(first)
    assert (result["sent"], result["accepted"], result["landed"]) == (500, 500, 500)
    assert (result["landed_now"], result["landed_before"]) == (500, 0)
    assert first.processes() == []

    with occupied(8080):
        run = up("--events", "700", *with_prometheus)
        run.until("Ctrl-C stops everything")
    assert "(200 now, 500 were there already)" in run.text
    if with_prometheus:
        prometheus = run.until(r"Alerts    (http://\S+)").group(1)
        eventually(lambda: targets_of(prometheus) == ["onramp-gateway", "onramp-tracer", "onramp-writer"])
    assert "Port 8080 is taken: The gateway listens on" in run.text
    gateway = run.until(r"Gateway   http://127\.0\.0\.1:(\d+)").group(1)
    dsn = run.until(r"Postgres  (\S+)").group(1)
    key = run.until(r"Key       (onramp_dev_\S+)").group(1)
    assert post(int(gateway), "order-0", "order_placed", "onramp_dev_" + "x" * 43) == 401
    assert post(int(gateway), "order-1", "order_placed", key) == 202
    eventually(lambda: payload_of(dsn, "order-1") == {"total": 42})

    admin = run.until(r"Admin     (http://\S+)").group(1)
    eventually(lambda: keeps(admin))
    reader = Reader(run, tmp_path / "reader", tmp_path / "data")
    for page in PAGES:
        reader.follow(page)
    [service] = [each for each in run.processes() if "services.admin" in each.cmdline()]
    [writer, *_] = [each for each in run.processes() if "services.writer" in each.cmdline()]
    assert service.nice() > writer.nice()  # what is parked has time
    service.kill()  # nobody's dependency: it ends alone, and is told
    run.until("The admin service has ended, and nothing starts it again")
    assert post(int(gateway), "order-2", "order_placed", key) == 202
    eventually(lambda: payload_of(dsn, "order-2") == {"total": 42})

    second = up("--events", "0")
    assert second.wait() == 3
    assert f"process {run.process.pid}" in second.text

    assert len(run.processes()) > 5
    run.process.send_signal(signal.SIGINT)
    assert run.wait() == 0, run.text
    assert run.processes() == []
    stopped = re.findall(r"Stopping (.+): done", run.text)
    looking = ["Prometheus"] if with_prometheus else []
    assert stopped == [
        *looking,
        "the admin service",
        "the tracer",
        "the gateway",
        "the writer",
        "Postgres",
        "Kafka",
    ]


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("Checking the jars", marks=pytest.mark.full),
        pytest.param("Starting Kafka", marks=pytest.mark.full),
        "Starting the gateway",
        pytest.param("Sending flights", marks=pytest.mark.full),
    ],
)
def test_up_leaves_no_process_behind_when_sigterm_arrives_at_any_moment(up: StartUp, moment: str) -> None:
    run = up("--exit")
    run.until(moment)
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 1, run.text
    assert run.processes() == []


def test_a_part_that_crashes_is_named_with_the_end_of_its_log(up: StartUp) -> None:
    run = up("--events", "0")
    run.until("Starting the gateway and the writer: done")
    [gateway] = [each for each in run.processes() if "services.ingest" in each.cmdline()]
    gateway.kill()
    assert run.wait() == 1
    assert "onramp: gateway was ended by SIGKILL." in run.text
    assert "gateway.log" in run.text
    assert run.processes() == []


@pytest.mark.full
def test_a_given_database_and_given_brokers_are_used(
    up: StartUp, own_kafka: Kafka, database: Database
) -> None:
    run = up("--exit", "--events", "700", "--dsn", database.dsn, "--kafka", own_kafka.bootstrap)
    assert run.wait() == 0, run.text
    assert "landed          700" in run.text
    assert "Starting Kafka" not in run.text
    stopped = re.findall(r"Stopping (.+): done", run.text)
    assert stopped == ["the admin service", "the tracer", "the gateway", "the writer"]
    with closing(psycopg2.connect(database.dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT _id), count(*) FROM events.flight_departed")
        assert cursor.fetchone() == (700, 700)


@pytest.mark.full
def test_killed_itself_it_takes_everything_along(up: StartUp) -> None:
    run = up("--events", "0")
    run.until("Starting the gateway and the writer")
    while not any("pyspark-shell" in each.cmdline() for each in run.processes()):
        assert run.process.poll() is None, run.text
        time.sleep(0.1)
    run.process.kill()
    run.wait()
    assert run.gone_within(180), [each.cmdline() for each in run.processes()]


def keeps(admin: str) -> bool:
    """Return whether the admin service has stored all parked events."""
    try:
        return bool(httpx2.get(f"{admin}/readyz").status_code == 200)
    except httpx2.TransportError:
        return False  # it is starting


def targets_of(prometheus: str) -> list[str]:
    targets = httpx2.get(f"{prometheus}/api/v1/targets", timeout=60).json()["data"]["activeTargets"]
    return sorted(each["labels"]["job"] for each in targets)


@contextmanager
def occupied(port: int) -> Iterator[None]:
    with socket.socket() as ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Somebody else may have it already: taken is taken.
        with suppress(OSError):
            ours.bind(("127.0.0.1", port))
            ours.listen()
        yield


def payload_of(dsn: str, event_id: str) -> object:
    """Return the payload of a row, None while there is none."""
    if rows(dsn, "SELECT to_regclass('events.order_placed')") == [(None,)]:
        return None
    found = rows(dsn, "SELECT payload FROM events.order_placed WHERE _id = %s", event_id)
    return found[0][0] if found else None
