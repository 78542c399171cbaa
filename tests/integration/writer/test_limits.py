"""Limits of a database under load, watched from the database: connections and rows per second."""

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx2
import orjson
import psycopg2
import pytest

from services.writer.model.connection_budget import OF_A_TASK, OF_THE_DRIVER
from shared import wire
from stack.registry import OwnRegistry
from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database
from tests.fixtures.fix_stack import StartWriter
from tests.fixtures.writer import event, eventually, execute, landed, make_topics, produce, rows

SECRET = "secret_4711"
_SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s"
PARTITIONS, EACH, RATE, SLOW = 3, 2500, 200, 900
#: A landing table whose rows say when they landed.
_TIMED = """
    CREATE SCHEMA events;
    CREATE TABLE events.{} (_id text PRIMARY KEY, _event_name text, _timestamp timestamptz, _version text,
        _received_at timestamptz, _topic text, _partition int, _offset bigint, payload jsonb,
        landed_at timestamptz DEFAULT clock_timestamp())
"""


@contextmanager
def watched(dsn: str, user: str) -> Iterator[list[int]]:
    """How many sessions `user` has, asked over and over."""
    seen: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        conn = psycopg2.connect(dsn)
        conn.autocommit = True
        with conn.cursor() as cursor:
            while not stop.is_set():
                cursor.execute(_SESSIONS, (user,))
                seen.append(cursor.fetchone()[0])  # type: ignore[index]
                stop.wait(0.05)
        conn.close()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


@pytest.mark.full
def test_neither_connections_nor_rows_cross_their_limits_under_load(
    kafka: HasBootstrap, database: Database, start_writer: StartWriter, tmp_path: Path
) -> None:
    """Three slots would take twelve connections; the server itself refuses the one above the bound."""
    fast, slow = (f"event_{secrets.token_hex(4)}" for _ in range(2))
    make_topics(kafka.bootstrap, wire.topic_of(fast), partitions=PARTITIONS)
    make_topics(kafka.bootstrap, wire.topic_of(slow))
    for p in range(PARTITIONS):
        values = [event(f"f-{p}-{i}", fast, card="4111") for i in range(EACH)]
        produce(kafka.bootstrap, wire.topic_of(fast), values, partition=p)
    produce(kafka.bootstrap, wire.topic_of(slow), [event(f"s-{i}", slow) for i in range(SLOW)])
    bound = OF_THE_DRIVER + OF_A_TASK
    user, limited = _role(database.dsn, bound)
    registry = OwnRegistry(kafka.bootstrap, {"event_types": {slow: {"destinations": [{"vanity": "slow"}]}}})
    with _beside(database.dsn) as slow_dsn, watched(database.dsn, user) as sessions:
        execute(slow_dsn, _TIMED.format(slow))
        databases = {
            "onramp": {"max_connections": bound},
            "slow": {"dsn": slow_dsn, "max_rows_per_second": RATE},
        }
        ((begin,),) = rows(slow_dsn, "SELECT clock_timestamp()")
        service = start_writer(
            kafka.bootstrap,
            limited,
            {
                "ONRAMP_WRITER_MASTER": f"local[{PARTITIONS}]",
                "ONRAMP_WRITER_TOPICS": rf"events\.({fast}|{slow})",
                "ONRAMP_WRITER_DATABASES": orjson.dumps(databases).decode(),
                **registry.env,
                "ONRAMP_WRITER_METRICS_SECONDS": "0.5",
                "ONRAMP_WRITER_EVENT_LINES": "100000",
            },
            wait=False,
        )
        eventually(lambda: landed(database.dsn, fast) == PARTITIONS * EACH, 150)
        eventually(lambda: landed(slow_dsn, slow) == SLOW, 100)
        assert 0 < max(sessions) <= bound
        assert "a database is unreachable" not in (tmp_path / "writer-0.log").read_text()
        _shows_what_the_ledgers_say(service, fast, slow)
        _has_a_line_for_every_event((tmp_path / "writer-0.log").read_text(), slow)
        batches = rows(slow_dsn, f"SELECT count(*) FROM events.{slow} GROUP BY xmin::text")  # noqa: S608
        assert max(batches) <= (RATE,)
        # At no moment had more landed than a second's rows and what the time until then allows.
        when = [at for (at,) in rows(slow_dsn, f"SELECT landed_at FROM events.{slow} ORDER BY 1")]  # noqa: S608
        allowed = [RATE * (1 + (at - begin).total_seconds()) for at in when]
        assert not [(n, at) for n, at in enumerate(allowed, 1) if n > at]


def _shows_what_the_ledgers_say(service: Service, fast: str, slow: str) -> None:
    def page() -> dict[str, float]:
        lines = httpx2.get(f"{service.url}/metrics").text.splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}

    def landed_in(database: str, name: str) -> str:
        where = f'database="{database}",event_type="{name}",outcome="landed",step="persist"'
        return f'onramp_writer_events_total{{{where},table="events.{name}",topic="events.{name}"}}'

    expected = {landed_in("onramp", fast): PARTITIONS * EACH, landed_in("slow", slow): SLOW}
    eventually(lambda: expected.items() <= page().items())
    found = page()
    step = f'database="slow",event_type="{slow}",step="persist",table="events.{slow}",topic="events.{slow}"'
    assert found[f"onramp_writer_step_rows_total{{{step}}}"] == SLOW
    assert found[f"onramp_writer_step_seconds_total{{{step}}}"] > 0
    delays = f'onramp_writer_received_to_committed_seconds_count{{database="slow",event_type="{slow}"}}'
    assert 0 < found[delays] <= SLOW, "what had waited for its database has no delay"
    for phase in ("plan", "land", "relay", "mark", "settle"):
        assert found[f'onramp_writer_phase_seconds_count{{phase="{phase}"}}'] > 0
    of_onramp = 'onramp_writer_connections{database="onramp"'
    sessions = sum(n for name, n in found.items() if name.startswith(of_onramp))
    assert 0 < sessions <= found['onramp_writer_connections_limit{database="onramp"}']
    assert found[f'onramp_writer_lag_seconds{{partition="0",topic="events.{slow}"}}'] >= 0
    assert found['onramp_writer_waiting_events{database="slow",where="kafka"}'] == 0


def _has_a_line_for_every_event(log: str, slow: str) -> None:
    lines = [orjson.loads(line) for line in log.splitlines() if '"message":"event"' in line]
    landed = {(x["receipt"], x["event_id"], x["step"], x["table"]) for x in lines if x["outcome"] == "landed"}
    table = f"events.{slow}"
    assert {(f"{table}/0/{i}", f"s-{i}", "persist", table) for i in range(SLOW)} <= landed
    assert len(landed) == SLOW + PARTITIONS * EACH
    assert "4111" not in log, "no value is logged"
    assert SECRET not in log


def _role(dsn: str, connections: int) -> tuple[str, str]:
    """A role that owns the database and may have so many connections; its name and its DSN."""
    parts = urlsplit(dsn)
    name = f"role_{parts.path[1:]}"
    execute(dsn, f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}' CONNECTION LIMIT {connections}")
    execute(dsn, f"GRANT ALL ON DATABASE {parts.path[1:]} TO {name}")
    return name, urlunsplit(parts._replace(netloc=f"{name}:{SECRET}@{parts.netloc.rpartition('@')[2]}"))


@contextmanager
def _beside(dsn: str) -> Iterator[str]:
    """A second database of the same server."""
    parts = urlsplit(dsn)
    name = f"{parts.path[1:]}_slow"
    conn = psycopg2.connect(dsn)
    conn.autocommit = True
    try:
        with conn.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
            yield urlunsplit(parts._replace(path=f"/{name}"))
            cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        conn.close()
