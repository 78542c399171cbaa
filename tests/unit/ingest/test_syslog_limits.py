"""Syslog under any input: listeners survive, and each sender gets only its share."""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from services.ingest import accept
from services.ingest.observe.metrics import REGISTRY, SYSLOG_MESSAGES
from services.ingest.settings import IngestSettings
from tests.fixtures.ingest import until
from tests.unit.ingest.conftest import Rig, counted

pytestmark = pytest.mark.anyio

PATIENT = 6


async def test_an_outage_does_not_end_the_udp_pump(start: Callable[..., Any]) -> None:
    rig: Rig = await start(max_batch=100)
    rig.gateway.sink.down = True
    await say(rig, *(b"<13>message %d" % n for n in range(300)))
    await until(lambda: rig.syslog.waiting == 300, PATIENT)
    rig.gateway.sink.down = False
    await until(lambda: len(rig.payloads) == 300, PATIENT)
    await say(rig, b"<13>later")
    await until(lambda: len(rig.payloads) == 301, PATIENT)


async def test_tcp_takes_more_messages_at_once_than_a_batch_may_have(start: Callable[..., Any]) -> None:
    rig: Rig = await start(max_batch=10)
    _, writer = await asyncio.open_connection("127.0.0.1", rig.tcp)
    writer.write(b"".join(b"<13>message %d\n" % n for n in range(100)))
    writer.write_eof()
    await until(lambda: len(rig.payloads) == 100, PATIENT)
    writer.close()


async def test_a_message_at_which_the_flow_fails_harms_only_itself(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, before = accept.decode, counted("udp", "refused")

    def poisoned(body: bytes, *rest: Any) -> Any:
        if b"poison" in body:
            raise RuntimeError
        return real(body, *rest)

    monkeypatch.setattr(accept, "decode", poisoned)
    rig.gateway.sink.down = True
    await say(rig, b"<13>one", b"<13>poison", b"<13>two", b"<13>three")
    await until(lambda: rig.syslog.waiting == 4, PATIENT)
    rig.gateway.sink.down = False
    await until(lambda: rig.messages == ["one", "three", "two"], PATIENT)
    await until(lambda: counted("udp", "refused") == before + 1, PATIENT)


async def test_message_that_fails_to_reach_kafka_is_sent_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = rig.gateway.sink.send, [RuntimeError(), RuntimeError()]

    async def flaky(records: Any) -> Any:
        if failures:
            raise failures.pop()
        return await real(records)

    monkeypatch.setattr(rig.gateway.sink, "send", flaky)
    await say(rig, b"<13>kept")
    await until(lambda: rig.messages == ["kept"], PATIENT)


async def test_only_networks_that_are_listed_may_send(start: Callable[..., Any]) -> None:
    rig: Rig = await start(syslog_networks="127.0.0.2/32, 10.0.0.0/8")
    before = counted("udp", "refused"), counted("tcp", "refused")
    await say(rig, b"<13>foreign")
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.tcp)
    async with asyncio.timeout(PATIENT):
        assert await reader.read() == b""
    writer.close()
    await say(rig, b"<13>listed udp", source="127.0.0.2")
    _, writer = await asyncio.open_connection("127.0.0.1", rig.tcp, local_addr=("127.0.0.2", 0))
    writer.write(b"<13>listed tcp\n")
    await until(lambda: rig.messages == ["listed tcp", "listed udp"], PATIENT)
    writer.close()
    assert (counted("udp", "refused"), counted("tcp", "refused")) == (before[0] + 1, before[1] + 1)


async def test_every_outcome_is_shown_at_0_before_the_first_message(start: Callable[..., Any]) -> None:
    SYSLOG_MESSAGES.clear()
    await start()
    outcomes = ("accepted", "refused", "lost", "limited")
    shown = [counted_at_all(transport, o) for transport in ("tcp", "udp") for o in outcomes]
    assert shown == [0.0] * 8


def counted_at_all(transport: str, outcome: str) -> float | None:
    labels = {"transport": transport, "outcome": outcome}
    return REGISTRY.get_sample_value("onramp_ingest_syslog_messages_total", labels)


def test_a_network_that_is_none_stops_the_start() -> None:
    with pytest.raises(ValidationError, match=r"10\.0\.0\.0/99"):
        IngestSettings(syslog_networks="10.0.0.0/99")


async def test_a_connection_that_says_nothing_is_closed(start: Callable[..., Any]) -> None:
    rig: Rig = await start(syslog_idle_seconds=0.3, syslog_connections=1)
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.tcp)
    writer.write(b"<13>whole\n<13>its last line")
    async with asyncio.timeout(PATIENT):
        assert await reader.read() == b""
    assert rig.messages == ["its last line", "whole"]
    writer.close()
    _, writer = await asyncio.open_connection("127.0.0.1", rig.tcp)
    writer.write(b"<13>another\n")
    await until(lambda: len(rig.payloads) == 3, PATIENT)
    writer.close()


async def test_a_source_over_its_quota_harms_only_itself(start: Callable[..., Any]) -> None:
    rig: Rig = await start(syslog_source_events_per_second=1)
    before = counted("udp", "limited")
    await say(rig, *(b"<13>flood %d" % n for n in range(50)))
    await until(lambda: counted("udp", "limited") > before, PATIENT)
    await say(rig, b"<13>modest", source="127.0.0.2")
    await until(lambda: "modest" in rig.messages, PATIENT)
    await until(lambda: len(rig.payloads) + counted("udp", "limited") - before == 51, PATIENT)


async def test_all_sources_together_have_a_quota(start: Callable[..., Any]) -> None:
    rig: Rig = await start(syslog_bytes_per_second=10)
    before = counted("udp", "limited")
    for source in ("127.0.0.1", "127.0.0.2"):
        await say(rig, *(b"<13>" + b"x" * 100 for _ in range(5)), source=source)
    await until(lambda: len(rig.payloads) + counted("udp", "limited") - before == 10, PATIENT)
    assert counted("udp", "limited") > before


async def test_a_connection_over_its_quota_waits_and_loses_nothing(start: Callable[..., Any]) -> None:
    rig: Rig = await start(syslog_source_events_per_second=20)
    began = time.monotonic()
    _, writer = await asyncio.open_connection("127.0.0.1", rig.tcp)
    writer.write(b"<13>early\n" * 60)
    await until(lambda: len(rig.payloads) == 60, PATIENT)
    writer.write(b"<13>late\n")
    await until(lambda: len(rig.payloads) == 61, PATIENT)
    assert time.monotonic() - began >= 1
    writer.close()


async def test_single_address_cannot_occupy_all_connections(start: Callable[..., Any]) -> None:
    rig: Rig = await start(syslog_connections=3)
    before = counted("tcp", "refused")
    hog = [await asyncio.open_connection("127.0.0.1", rig.tcp) for _ in range(3)]
    for n in (1, 2):
        hog[n][1].write(b"<13>held %d\n" % n)
        await until(lambda n=n: len(rig.payloads) == n, PATIENT)
    _, writer = await asyncio.open_connection("127.0.0.1", rig.tcp, local_addr=("127.0.0.2", 0))
    writer.write(b"<13>modest\n")
    await until(lambda: "modest" in rig.messages, PATIENT)
    # The one that has said nothing went, and who has as many as the others shuts out nobody.
    async with asyncio.timeout(PATIENT):
        assert await hog[0][0].read() == b""
    hog.append(await asyncio.open_connection("127.0.0.1", rig.tcp))
    async with asyncio.timeout(PATIENT):
        assert await hog[3][0].read() == b""
    hog[1][1].write(b"<13>goes on\n")
    await until(lambda: "goes on" in rig.messages, PATIENT)
    assert counted("tcp", "refused") == before + 1
    for _, each in [*hog, (None, writer)]:
        each.close()


async def test_connection_with_undelivered_messages_is_never_evicted(start: Callable[..., Any]) -> None:
    rig: Rig = await start(syslog_connections=2)
    rig.gateway.sink.down = True
    hog = [await asyncio.open_connection("127.0.0.1", rig.tcp) for _ in range(2)]
    for n, (_, each) in enumerate(hog):
        each.write(b"<13>waits %d\n" % n)
    await until(lambda: len(rig.syslog._connections.delivering) == 2, PATIENT)
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.tcp, local_addr=("127.0.0.2", 0))
    async with asyncio.timeout(PATIENT):
        assert await reader.read() == b""
    rig.gateway.sink.down = False
    await until(lambda: rig.messages == ["waits 0", "waits 1"], PATIENT)
    for each in (writer, *(w for _, w in hog)):
        each.close()


async def test_many_connections_of_one_source_take_no_more_of_the_quota_of_all(
    start: Callable[..., Any],
) -> None:
    rig: Rig = await start(syslog_events_per_second=1000, syslog_source_events_per_second=10)
    flood = [await asyncio.open_connection("127.0.0.1", rig.tcp) for _ in range(40)]
    for _, each in flood:
        each.write(b"<13>flood\n" * 200)
    await until(lambda: len(rig.payloads) >= 200, PATIENT)
    await say(rig, b"<13>modest", source="127.0.0.2")
    await until(lambda: "modest" in rig.messages, PATIENT)
    for _, each in flood:
        each.close()


async def say(rig: Rig, *messages: bytes, source: str = "127.0.0.1") -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((source, 0))
        for message in messages:
            sender.sendto(message, ("127.0.0.1", rig.udp))
            await asyncio.sleep(0)
