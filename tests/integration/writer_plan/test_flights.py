"""Real flights, a planted change of a type, and the program as it is run: Spark, Kafka and Postgres."""

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from stack import flights
from stack.java import find_java
from stack.services import ROOT
from tests.fixtures.flights import Flight, Sender
from tests.fixtures.writer import event, execute, make_topics, rows
from tests.integration.writer_plan.conftest import Ground

FLIGHTS = int(os.environ.get("ONRAMP_PLAN_FLIGHTS", "3000"))
PARTITIONS = 3
TABLE = """
    CREATE TABLE public.flights (
        _id text PRIMARY KEY, _topic text, _partition int, _offset bigint,
        year smallint, month smallint, day smallint, dep_time int, sched_dep_time int, dep_delay int,
        arr_time int, sched_arr_time int, arr_delay int, carrier text NOT NULL, flight int, tailnum text,
        origin text, dest text, air_time jsonb, distance int CHECK (distance > 0), hour smallint,
        minute smallint, time_hour timestamptz
    )
"""
_SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'onramp-writer plan'"


def sent(name: str, planted: set[int]) -> Iterator[Flight]:
    """Yield the flights; those that are planted say how long they flew as text."""
    for number, envelope in enumerate(flights.envelopes(FLIGHTS)):
        payload = envelope["payload"]
        if number in planted:
            payload["air_time"] = f"{payload['air_time']} min"
        yield Flight(envelope["metadata"]["id"], orjson.dumps(envelope | {"event_name": name}), ())


def registry(air_time: list[str]) -> dict[str, Any]:
    whole = ("year", "month", "day", "hour", "minute", "flight", "distance")
    schema = {
        "type": "object",
        "required": ["carrier", "flight", "origin", "dest"],
        "properties": {
            **{name: {"type": "integer"} for name in whole},
            "carrier": {"type": "string", "minLength": 2},
            "time_hour": {"type": "string", "format": "date-time"},
            "air_time": {"type": air_time},
        },
    }
    return {"schema": schema, "destinations": [{"type": "postgres", "schema": "public", "table": "flights"}]}


@contextmanager
def most_sessions(dsn: str) -> Iterator[list[int]]:
    """Count the sessions of a trial while the block runs."""
    found, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            found.append(rows(dsn, _SESSIONS)[0][0])

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield found
    finally:
        ended.set()
        watching.join()


@pytest.mark.full
def test_spark_submit_runs_a_trial_too(ground: Ground) -> None:
    ground.send(*(event(f"a{i}", ground.name, n=i) for i in range(6_000)), event("b", ground.name, n="x"))
    in_force, file = ground.registries({}, {"schema": {"properties": {"n": {"type": "integer"}}}})
    submit = Path(sys.executable).with_name("spark-submit")
    main = ROOT / "services" / "writer" / "plan" / "__main__.py"
    command = [str(submit), "--master", "local[2]", str(main), "--since", "1h", "--json", str(file)]
    environment = ground.environment(in_force) | {
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr.decode()[-3000:]
    # spark-submit prints a Python driver's stderr, here the progress, to its own stdout.
    of_type = json.loads(done.stdout.splitlines()[-1])["types"][ground.name]
    assert (of_type["read"], of_type["newly_fails"]["events"]) == (6_001, 1)


def test_a_planted_change_of_a_type_is_found_in_real_flights_and_counted_exactly(ground: Ground) -> None:
    planted = set(random.Random(1).sample(range(FLIGHTS), FLIGHTS // 150))
    make_topics(ground.bootstrap, ground.topic, partitions=PARTITIONS)
    Sender(ground.bootstrap).send(ground.topic, sent(ground.name, planted))
    execute(ground.dsn, TABLE)
    in_force, file = ground.registries(registry(["integer", "string", "null"]), registry(["integer", "null"]))
    command = [sys.executable, "-m", "services.cli", "plan", str(file), "--last", str(FLIGHTS), "--json"]
    command += ["--kafka", ground.bootstrap, "--dsn", ground.dsn, "--event", ground.name]
    environment = ground.environment(in_force)
    with most_sessions(ground.dsn) as sessions:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr.decode()[-3000:]
    said = done.stderr.decode().splitlines()
    assert [line for line in said if not line.startswith("plan: ")] == [], "the JVM is not heard"
    assert f"plan: starting Spark for {FLIGHTS:,} offsets of {PARTITIONS} partitions" in said
    found = json.loads(done.stdout)
    sys.stdout.write(f"{found['read']:,} events in {found['seconds']} s: {found['events_per_second']:,}/s\n")
    of_type = found["types"][ground.name]
    assert of_type["read"] == found["window"]["offsets"] == FLIGHTS
    assert of_type["old"]["landed"] == FLIGHTS
    assert (of_type["new"]["refused"], of_type["new"]["landed"]) == (len(planted), FLIGHTS - len(planted))
    [reason] = of_type["newly_fails"]["reasons"]
    assert (reason["code"], reason["pointer"]) == ("schema_mismatch", "/payload/air_time")
    assert reason["events"] == of_type["newly_fails"]["events"] == len(planted)
    assert len(of_type["newly_fails"]["samples"]) == 5
    assert found["schemas"][0]["kind"] == "break"
    assert max(sessions) in {1, 2}, "one for each slot"
    assert rows(ground.dsn, "SELECT count(*) FROM public.flights") == [(0,)]
