"""The readings that pages render from: a part that does not answer is named and delays nothing."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from services.admin.figures import watch
from services.admin.figures.addresses import Addresses, one_family
from services.admin.figures.http_get import Address, NoAnswerError, get
from services.admin.figures.parts import PartStates
from services.admin.figures.settings import FiguresSettings
from services.admin.figures.watch import FiguresWatch
from services.ops.settled.reader import SettledReader
from services.writer.observe.database_stats import DatabaseStats
from services.writer.observe.status import Status
from services.writer.observe.status_server import StatusServer
from shared.kafka_security import Brokers

NOWHERE = Brokers("127.0.0.1:1")


@contextmanager
def serving(status: Status) -> Iterator[str]:
    server = StatusServer(status, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()


def landed(status: Status, events: int, state: str = "landing") -> None:
    status.update({"onramp": state}, {})
    status.update_database("onramp", DatabaseStats({("events.a", "events.a", "landed"): events}, {}, {}))


def watch_of(gateways: str, writers: str) -> FiguresWatch:
    return FiguresWatch(
        FiguresSettings(gateway_urls=gateways, writer_urls=writers), NOWHERE, "", {}, SettledReader()
    )


def test_reading_has_the_figures_of_the_writer_and_names_the_gateway_that_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = {"now": 1000.0}
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    status = Status()
    landed(status, 100)
    with serving(status) as writer:
        figures = watch_of("http://127.0.0.1:1", writer)
        asyncio.run(figures.read())
        landed(status, 130)
        clock["now"] += 5.0
        asyncio.run(figures.read())
    reading = figures.reading
    assert (reading.landed, reading.accepted) == (6.0, None)
    assert [(each.name, each.landed, each.state) for each in reading.types] == [("a", 6.0, "landing")]
    assert [(each.name, each.writer.state) for each in reading.databases] == [("onramp", "landing")]
    (down,) = reading.down()
    assert down.describe().startswith("gateway does not answer, since ")
    assert "refused" in down.describe()
    asyncio.run(figures.read())
    assert figures.reading.landed is not None, "a writer that is down keeps what was known"
    assert [part.since for part in figures.reading.parts if part.name == "gateway"] == [down.since]
    assert [part.name for part in figures.reading.down()] == ["gateway", "writer"]


def test_a_service_that_is_silent_costs_the_patience_and_not_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PATIENCE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as hole:
        url = f"http://127.0.0.1:{hole.getsockname()[1]}"
        figures = watch_of(",".join([url, url + "/2", url + "/3"]), "")
        asyncio.run(figures.read())
    assert all("no answer in 0.2 s" in part.reason for part in figures.reading.down())
    assert len(figures.reading.down()) >= 1


def test_a_writer_that_stands_by_is_not_the_one_that_lands() -> None:
    standby, landing = Status(), Status()
    standby.update_standby("onramp")
    landed(landing, 5)
    with serving(standby) as first, serving(landing) as second:
        figures = watch_of("", f"{first},{second}")
        asyncio.run(figures.read())
    assert figures.reading.writer_state == "consuming"
    assert [each.name for each in figures.reading.databases] == ["onramp"]
    assert len(figures.reading.parts) == 2


def test_another_program_at_the_address_is_named() -> None:
    def answer(body: bytes) -> str:
        async def ask() -> str:
            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(body)
                await writer.drain()
                writer.close()

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            async with server:
                port = server.sockets[0].getsockname()[1]
                address = Address(f"http://127.0.0.1:{port}", "127.0.0.1")
                try:
                    return (await get(address, "/figures", 5)).decode()
                except NoAnswerError as error:
                    return f"not: {error}"

        return asyncio.run(ask())

    assert answer(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}") == "{}"
    assert answer(b"HTTP/1.0 200 OK\r\n\r\n{}") == "{}"
    assert answer(b"HTTP/1.1 404 Not Found\r\n\r\n") == "not: it answers 404"
    assert answer(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n") == "not: its answer is too large"
    assert answer(b"SSH-2.0-OpenSSH_9.2\r\n").startswith("not: ")
    assert answer(b"").startswith("not: ")


def test_a_host_name_with_several_addresses_means_all_of_them_and_is_resolved_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, known = {"now": 0.0}, {"ips": ["10.0.0.1", "10.0.0.2"]}
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])

    async def names() -> list[list[str]]:
        loop, found = asyncio.get_running_loop(), Addresses(["http://gateway:8083"])

        async def getaddrinfo(*_: object, **__: object) -> list[tuple[object, ...]]:
            if not known["ips"]:
                raise socket.gaierror
            return [(socket.AF_INET, 0, 0, "", (ip, 8083)) for ip in known["ips"]]

        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        seen = [[each.ip for each in await found.current()]]
        for now, ips in ((29.0, ["10.0.0.3"]), (31.0, ["10.0.0.3"]), (62.0, [])):
            clock["now"], known["ips"] = now, ips
            seen.append([each.ip for each in await found.current()])
        return seen

    two, three = ["10.0.0.1", "10.0.0.2"], ["10.0.0.3"]
    assert asyncio.run(names()) == [two, two, three, three]


def test_a_host_with_both_families_is_one_host() -> None:
    both = [(socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "127.0.0.1")]
    assert one_family(both) == ["127.0.0.1"]
    assert one_family(both[:1]) == ["::1"]


@pytest.mark.parametrize("url", ["gateway:8080", "ftp://x", "http://", "http://x?y", "http://user@x"])
def test_invalid_service_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="each URL is"):
        FiguresSettings(gateway_urls=url)


def test_since_is_the_start_of_a_state() -> None:
    parts = PartStates()
    parts.update("gateway", [("gateway", "")])
    parts.update("database", [("database a", "no route"), ("database b", "")])
    first = {part.name: part for part in parts.all()}
    time.sleep(0.001)
    parts.update("database", [("database a", "refused")])
    second = {part.name: part for part in parts.all()}
    assert second.keys() == {"gateway", "database a"}, "one that is no longer configured is gone"
    assert second["database a"].since == first["database a"].since
    assert second["database a"].reason == "refused"
    parts.update("database", [("database a", "")])
    assert {part.name: part for part in parts.all()}["database a"].since > first["database a"].since
