"""Syslog: its grammars, its framing on a stream, and the listeners with real senders."""

import asyncio
import contextlib
import re
import shutil
import socket
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingest.observe.metrics import REGISTRY
from services.ingest.observe.page import exposition
from services.ingest.syslog.framing import Framer, FramingError
from services.ingest.syslog.message import parse, to_envelope
from shared import envelope, strict_json
from tests.fixtures.ingest import until
from tests.unit.ingest.conftest import Rig, counted

pytestmark = pytest.mark.anyio

ARRIVAL = "2026-11-21T08:00:00+00:00"


def test_rfc5424() -> None:
    fields = parse(
        b"<165>1 2003-10-11T22:14:15.003Z host.example evntslog 77 ID47 "
        b'[exampleSDID@32473 iut="3" eventSource="App \\"x\\\\ \\]"][b@1 k="v"] \xef\xbb\xbfAn event'
    )
    assert fields == {
        "format": "rfc5424",
        "facility": 20,
        "severity": 5,
        "timestamp": "2003-10-11T22:14:15.003Z",
        "hostname": "host.example",
        "app_name": "evntslog",
        "procid": "77",
        "msgid": "ID47",
        "structured_data": {
            "exampleSDID@32473": {"iut": "3", "eventSource": 'App "x\\ ]'},
            "b@1": {"k": "v"},
        },
        "message": "An event",
        "encoding": "utf-8",
    }


def test_rfc5424_with_nothing_but_its_frame() -> None:
    fields = parse(b"<0>1 - - - - - -")
    assert fields["format"] == "rfc5424"
    assert {fields[name] for name in ("timestamp", "hostname", "app_name", "procid", "msgid")} == {None}
    assert fields["message"] == ""


def test_rfc3164() -> None:
    fields = parse(b"<34>Oct 11 22:14:15 mymachine su[42]: 'su root' failed")
    assert fields["format"] == "rfc3164"
    assert (fields["facility"], fields["severity"]) == (4, 2)
    assert (fields["hostname"], fields["app_name"], fields["procid"]) == ("mymachine", "su", "42")
    assert fields["timestamp"] == "Oct 11 22:14:15"
    assert fields["message"] == "'su root' failed"


@pytest.mark.parametrize(
    ("raw", "severity", "message"),
    [
        (b"<13>no date", 5, "no date"),
        (b"no pri", None, "no pri"),
        (b"<192>too high", None, "<192>too high"),
        (b"<13>caf\xe9", 5, "caf\xe9"),
        (b"<13>a\x00b", 5, "a\ufffdb"),
    ],
)
def test_message_of_unknown_format_is_stored_as_text(raw: bytes, severity: int | None, message: str) -> None:
    fields = parse(raw)
    assert (fields["format"], fields["severity"], fields["message"]) == ("unknown", severity, message)


@given(st.binary(max_size=300) | st.from_regex(rb"<\d{1,3}>1 \S+ \S+ \S+ \S+ \S+ (-|\[.*\]) .*"))
def test_every_message_becomes_a_valid_envelope(raw: bytes) -> None:
    value = orjson.dumps(to_envelope(raw, "2026-11-21T08:00:00+00:00", "10.0.0.1", "udp", 1))
    strict_json.loads(value)
    assert envelope.parse(value).event_name == "syslog_message"


@pytest.mark.parametrize(
    "moment",
    [
        *("2024-01-01T00:00+00:00", "20240101T000000Z", "2024-W01-1T00:00:00Z", "2024-01-01T00:00:00,5Z"),
        *("9999-12-31T23:59:59-08:00", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_a_time_that_no_envelope_takes_loses_no_message(moment: str) -> None:
    made = to_envelope(f"<13>1 {moment} host app - - - kept".encode(), ARRIVAL, "10.0.0.1", "tcp", 0)
    assert envelope.parse(orjson.dumps(made))
    assert made["metadata"]["timestamp"] == ARRIVAL
    assert made["payload"]["timestamp"] == moment


def test_ids_come_from_content_and_arrival() -> None:
    def identity(raw: bytes, sequence: int) -> str:
        return str(to_envelope(raw, "2026-11-21T08:00:00Z", "p", "tcp", sequence)["metadata"]["id"])

    assert identity(b"a", 1) == identity(b"a", 1)
    assert len({identity(b"a", 1), identity(b"a", 2), identity(b"b", 1)}) == 3


@given(
    st.lists(st.binary(min_size=1, max_size=50).map(lambda raw: b"<13>" + re.sub(rb"[\r\n\0]", b"x", raw))),
    st.lists(st.booleans()),
    st.lists(st.integers(1, 30)),
)
def test_framing_does_not_depend_on_packets(
    messages: list[bytes], counted: list[bool], cuts: list[int]
) -> None:
    framed = b"".join(
        b"%d %s" % (len(each), each) if by_count else each + b"\n"
        for each, by_count in zip(messages, counted + [False] * len(messages), strict=False)
    )
    framer, found = Framer(1000), []
    for cut in [*cuts, len(framed)]:
        found += framer.feed(framed[:cut])
        framed = framed[cut:]
    assert found + framer.finish() == messages


def test_a_line_over_the_limit_is_cut_and_the_next_is_whole() -> None:
    framer = Framer(10)
    assert framer.feed(b"<13>" + b"x" * 50) == [b"<13>xxxxxx"]
    assert framer.feed(b"y" * 100) == []
    assert framer.feed(b"zz\n<13>next\n") == [b"<13>next"]


def test_a_count_over_the_limit_ends_the_connection() -> None:
    with pytest.raises(FramingError):
        Framer(10).feed(b"999999 <13>")


def test_memory_is_bounded_whatever_comes() -> None:
    framer = Framer(100)
    for piece in (b"x", b"12345678", b"9" * 10, b"<13>"):
        for _ in range(1000):
            with contextlib.suppress(FramingError):
                framer.feed(piece)
            assert len(framer._buffer) <= 200


@pytest.mark.skipif(shutil.which("logger") is None, reason="util-linux is not installed")
@pytest.mark.parametrize(
    "options",
    [("--udp",), ("--tcp",), ("--tcp", "--octet-count"), ("--udp", "--rfc3164"), ("--tcp", "--rfc3164")],
)
async def test_a_real_logger(rig: Rig, options: tuple[str, ...]) -> None:
    port = str(rig.udp if "--udp" in options else rig.tcp)
    command = ["logger", "--server", "127.0.0.1", "--port", port, *options]
    command += ["--priority", "local4.warning", "--tag", "shop", "grüße from logger"]
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0
    await until(lambda: len(rig.payloads) == 1, 5)

    (payload,) = rig.payloads
    assert payload["message"] == "grüße from logger"
    assert (payload["facility"], payload["severity"], payload["app_name"]) == (20, 4, "shop")
    assert payload["format"] == ("rfc3164" if "--rfc3164" in options else "rfc5424")
    assert payload["transport"] == ("udp" if "--udp" in options else "tcp")
    assert payload["peer"] == "127.0.0.1"


async def test_tcp_reading_stops_while_kafka_is_down(rig: Rig) -> None:
    rig.gateway.sink.down = True
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.tcp)
    line = b"<13>" + b"x" * 1000 + b"\n"
    sent = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(3):
            while sent < 200_000:
                writer.write(line)
                await writer.drain()
                sent += 1
    assert sent < 200_000, "the sender never felt the outage"
    assert not rig.payloads

    rig.gateway.sink.down = False
    writer.write_eof()
    await until(lambda: len(rig.payloads) >= sent)
    assert await reader.read() == b""
    writer.close()


async def test_udp_keeps_what_fits_and_counts_the_rest(start: Callable[..., Any]) -> None:
    rig: Rig = await start(syslog_queue_bytes=5000)
    before = counted("udp", "lost")
    rig.gateway.sink.down = True
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for n in range(50):
            sender.sendto(b"<13>message %d" % n, ("127.0.0.1", rig.udp))
            await asyncio.sleep(0)
    await until(lambda: counted("udp", "lost") > before, 5)
    rig.gateway.sink.down = False
    await until(lambda: len(rig.payloads) + counted("udp", "lost") - before == 50, 5)
    assert 5 <= len(rig.payloads) < 50
    ids = [record.key for record in rig.gateway.sink.records("events.syslog_message")]
    assert len(set(ids)) == len(ids)


async def test_stopping_delivers_what_was_read(rig: Rig) -> None:
    before = counted_events()
    _, writer = await asyncio.open_connection("127.0.0.1", rig.tcp)
    writer.write(b"<13>first\n<13>second\n")
    await until(lambda: len(rig.payloads) == 2, 5)
    await rig.syslog.stop(within=1)
    assert rig.messages == ["first", "second"]
    assert counted_events() - before == 2
    writer.close()


def counted_events() -> float:
    exposition()
    exposition()
    labels = {"event_type": "syslog_message", "key": "syslog", "outcome": "accepted"}
    return REGISTRY.get_sample_value("onramp_ingest_events_total", labels) or 0.0
