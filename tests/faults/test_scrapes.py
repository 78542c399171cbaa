"""Scrapes of a writer that starts, that is fenced, or whose database hangs."""

import asyncio
import re
import secrets
import threading
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from services.writer.driver import take_over
from services.writer.model.exits import EXIT_FENCED
from services.writer.observe.status_server import StatusServer
from tests.fixtures.inline import Inline, Places
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.silent_servers import Stopped
from tests.fixtures.writer import event, eventually, landed, make_topics, produce

_OFTEN = 0.1


def _scrape(writer: Inline) -> dict[str, float]:
    """The series of /metrics over HTTP, with their values."""
    server = StatusServer(writer.job._status, "127.0.0.1", 0).start()
    try:
        answer = httpx2.get(f"http://127.0.0.1:{server.port}/metrics", timeout=60)
    finally:
        server.stop()
    assert answer.status_code == 200
    samples = [s for f in text_string_to_metric_families(answer.text) for s in f.samples]
    return {f"{s.name}{sorted(s.labels.values())}": s.value for s in samples}


def _landed(writer: Inline, name: str) -> float:
    found = {n: v for n, v in _scrape(writer).items() if n.startswith("onramp_writer_events_total")}
    return sum(v for n, v in found.items() if "'landed'" in n and f"events.{name}'" in n)


def test_a_scrape_of_a_writer_that_starts_claims_nothing(
    inline: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_logs, started, go_on = take_over._read_logs, threading.Event(), threading.Event()

    async def held(*arguments: Any) -> Any:
        started.set()
        assert await asyncio.to_thread(go_on.wait, 120)
        return await read_logs(*arguments)

    monkeypatch.setattr(take_over, "_read_logs", held)
    make_topics(inline.bootstrap, inline.topic)
    produce(inline.bootstrap, inline.topic, [event(f"e-{n}", inline.name) for n in range(3)])
    writer: Inline = inline.writer(wait=False, metrics_seconds=_OFTEN)
    try:
        assert started.wait(120)
        shown = _scrape(writer)
    finally:
        go_on.set()
    assert shown["onramp_writer_kafka_reachable[]"] == 1
    assert shown["onramp_writer_kafka_answered_timestamp_seconds[]"] > 1e9
    assert shown["onramp_writer_loop_timestamp_seconds[]"] == 0
    assert shown["onramp_writer_batches_total[]"] == 0
    for unknown in ("lag_events", "lag_seconds", "events_total", "database_size", "database_state"):
        assert not [name for name in shown if name.startswith(f"onramp_writer_{unknown}")]
    eventually(lambda: _landed(writer, inline.name) == 3)


def test_a_scrape_of_a_fenced_writer_counts_nothing_that_is_anothers(inline: Scene, places: Places) -> None:
    make_topics(inline.bootstrap, inline.topic)
    produce(inline.bootstrap, inline.topic, [event(f"e-{n}", inline.name) for n in range(3)])
    fenced: Inline = inline.writer(metrics_seconds=_OFTEN)
    eventually(lambda: _landed(fenced, inline.name) == 3)
    settled = _scrape(fenced)["onramp_writer_batches_total[]"]
    held = places.hold_at("writer.before_commit")
    produce(inline.bootstrap, inline.topic, [event("last", inline.name)])
    held.wait()
    newer: Inline = inline.writer(wait=False, metrics_seconds=_OFTEN)
    try:
        assert _landed(fenced, inline.name) == 3  # it does not know yet that it is fenced
    finally:
        held.go_on()
    assert fenced.ended(120) == EXIT_FENCED
    eventually(lambda: inline.landed() == 4 and _landed(newer, inline.name) == 4)
    shown = _scrape(fenced)
    assert shown["onramp_writer_batches_total[]"] <= settled + 1
    assert _landed(fenced, inline.name) <= 4


def test_a_database_that_hangs_holds_up_no_other_ones_totals(
    inline: Scene, hung: Other, server: Stopped
) -> None:
    name = f"beside_{secrets.token_hex(4)}"
    make_topics(inline.bootstrap, inline.topic, f"events.{name}")
    writer: Inline = inline.writer_into(
        hung, topics=rf"events\.({inline.name}|{name})", metrics_seconds=_OFTEN, liveness_timeout_seconds=3600
    )
    read = "onramp_writer_database_read_timestamp_seconds['{}']"
    eventually(lambda: {read.format(n) for n in (inline.database, hung.name)} <= _scrape(writer).keys())
    server.stop()
    frozen = _scrape(writer)[read.format(hung.name)]
    healthy = _scrape(writer)[read.format(inline.database)]
    eventually(lambda: _scrape(writer)[read.format(inline.database)] > healthy + 1)
    assert _scrape(writer)[read.format(hung.name)] <= frozen + 1
    server.go_on()
    eventually(lambda: _scrape(writer)[read.format(hung.name)] > frozen + 1)
    assert landed(inline.dsn, inline.name) == 0


def test_how_long_a_topic_keeps_its_records_is_shown_beside_its_lag(
    inline: Scene,
) -> None:
    make_topics(inline.bootstrap, inline.topic, config={"retention.ms": "7200000"})
    ever = f"{inline.topic}_ever"
    writer: Inline = inline.writer(topics=rf"{re.escape(inline.topic)}(_ever)?", metrics_seconds=_OFTEN)
    make_topics(inline.bootstrap, ever, config={"retention.ms": "-1"})  # while it runs, as topics come
    kept = "onramp_writer_topic_retention_seconds"
    eventually(lambda: f"{kept}['{inline.topic}']" in _scrape(writer))
    found = {name: value for name, value in _scrape(writer).items() if name.startswith(kept)}
    assert found == {f"{kept}['{inline.topic}']": 7200.0}, "what is kept for ever has no end to compare with"
