"""TLS ports of the gateway: HTTP and syslog (RFC 5425), with certificates that change."""

import asyncio
import re
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx2
import orjson
import pytest
import uvloop
from fastapi import FastAPI

from services.ingest.app import State, assemble
from services.ingest.observe.metrics import EventCounts
from services.ingest.observe.rejection_log import RejectionLog
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.settings import IngestSettings
from services.ingest.sink import MemorySink
from services.ingest.syslog.listener import Syslog
from shared import wire
from shared.registry.memory import MemoryRegistry
from shared.tls import client_context
from stack.ports import LOOPBACK, free_port
from stack.services import Service
from stack.services import gateway as gateway_of
from tests.fixtures.authority import Authority, Issued, left
from tests.fixtures.ingest import until
from tests.fixtures.writer import eventually

_NO_KAFKA = "127.0.0.1:1"


class Door:
    """A gateway whose clients must have a certificate of the authority's."""

    def __init__(self, authority: Authority, folder: Path) -> None:
        self.authority = authority
        self.shown = authority.issue("door")
        self.syslog_port = free_port()
        self.client_cert = authority.issue("client")
        self.log = folder / "gateway.log"
        env = {
            "ONRAMP_INGEST_TLS_CERT_FILE": str(self.shown.cert),
            "ONRAMP_INGEST_TLS_KEY_FILE": str(self.shown.key),
            "ONRAMP_INGEST_TLS_CLIENT_CA_FILE": str(authority.ca),
            "ONRAMP_INGEST_SYSLOG_TLS_PORT": str(self.syslog_port),
            # What is served by several processes is shown by all of them.
            "ONRAMP_INGEST_WORKERS": "2",
        }
        self.service: Service = gateway_of(bootstrap=_NO_KAFKA, log=self.log, env=env)
        self.url = self.service.url.replace("http:", "https:")

    def context(self, issued: Issued | None = None) -> ssl.SSLContext:
        issued = issued or self.client_cert
        return client_context(self.authority.ca, issued.cert, issued.key)

    def client(self, issued: Issued | None = None) -> httpx2.Client:
        return httpx2.Client(verify=self.context(issued), base_url=self.url, timeout=60)

    def listens(self) -> bool:
        try:
            with self.client() as client:
                return client.get("/healthz").status_code == 200
        except httpx2.TransportError:
            return False

    def shown_now(self) -> str:
        """The name in the certificate of a new connection."""
        return asyncio.run(self._shown())

    async def _shown(self) -> str:
        _, writer = await asyncio.open_connection(LOOPBACK, self.service.port, ssl=self.context())
        found = writer.get_extra_info("peercert")["subject"][0][0][1]
        await left(writer)
        return str(found)


@pytest.fixture(scope="module")
def door(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    door = Door(authority, tmp_path_factory.mktemp("door"))
    door.service.start()
    try:
        eventually(door.listens, 120)
        yield door
    finally:
        door.service.stop()


def test_client_with_a_valid_certificate_is_answered(door: Door) -> None:
    with door.client() as client:
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("who", ["nobody", "foreign", "expired"])
def test_client_with_a_missing_foreign_or_expired_certificate_is_refused(
    door: Door, who: str, tmp_path: Path
) -> None:
    given = {"foreign": lambda: Authority(tmp_path).issue("x"), "expired": lambda: _expired(door)}
    context = door.context(given[who]()) if who in given else client_context(door.authority.ca, None, None)
    with httpx2.Client(verify=context, timeout=60) as client, pytest.raises(httpx2.TransportError):
        client.get(f"{door.url}/healthz")


def test_cleartext_is_not_answered(door: Door) -> None:
    with pytest.raises(httpx2.TransportError):
        httpx2.get(f"{door.service.url}/healthz", timeout=60)


def test_a_renewed_certificate_drops_no_request(door: Door) -> None:
    stop, answers = threading.Event(), list[int]()
    with door.client() as kept:
        load = threading.Thread(target=partial(_ask_on, door, kept, stop, answers))
        load.start()
        try:
            for name in ("second", "third"):
                door.shown.replace(door.authority.issue(name))
                eventually(lambda name=name: {door.shown_now() for _ in range(4)} == {name}, 60)
                before = len(answers)
                eventually(lambda before=before: len(answers) > before + 4, 60)
        finally:
            stop.set()
            load.join()
    assert set(answers) == {200}


def test_syslog_comes_in_by_rfc_5425(authority: Authority) -> None:
    issued, port = authority.issue("syslog"), free_port()
    settings = IngestSettings(
        tls_cert_file=issued.cert,
        tls_key_file=issued.key,
        tls_client_ca_file=authority.ca,
        syslog_tls_port=port,
    )
    client = authority.issue("client")
    context = client_context(authority.ca, client.cert, client.key)
    assert uvloop.run(_heard(settings, context, b"<34>1 - - - - - - over TLS")) == ["over TLS"]


def test_syslog_without_a_certificate_is_not_heard(door: Door) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        asyncio.run(_refused(door.syslog_port, client_context(door.authority.ca, None, None)))


def test_a_key_of_another_certificate_stops_the_start(authority: Authority, tmp_path: Path) -> None:
    env = {
        "ONRAMP_INGEST_TLS_CERT_FILE": str(authority.issue("a").cert),
        "ONRAMP_INGEST_TLS_KEY_FILE": str(authority.issue("b").key),
    }
    service = gateway_of(bootstrap=_NO_KAFKA, log=tmp_path / "gateway.log", env=env)
    service.start()
    try:
        said = re.compile("its certificate cannot be used.*name a certificate and the key")
        eventually(lambda: said.search(service.log.read_text()), 60)
    finally:
        service.stop()


def _expired(door: Door) -> Issued:
    return door.authority.issue("client", expired=True)


def _ask_on(door: Door, kept: httpx2.Client, stop: threading.Event, answers: list[int]) -> None:
    """One connection that stays and new ones, all the time."""
    while not stop.is_set():
        answers.append(kept.get("/healthz").status_code)
        with door.client() as fresh:
            answers.append(fresh.get("/healthz").status_code)


async def _heard(settings: IngestSettings, context: ssl.SSLContext, message: bytes) -> list[str]:
    """What a listener of these settings makes of `message`."""
    sink = MemorySink()
    gateway = assemble(
        settings,
        sink=sink,
        budget=ByteBudget(2**20),
        registry=MemoryRegistry(None),
        allow_keyless=True,
        lifespan=_nothing,
    )
    syslog = Syslog(gateway.flow, settings, RejectionLog(), events=EventCounts())
    await syslog.start()
    try:
        _, writer = await asyncio.open_connection(LOOPBACK, settings.syslog_tls_port, ssl=context)
        writer.write(b"%d %b" % (len(message), message))
        await writer.drain()
        await until(lambda: bool(sink.topics), 60)
        await left(writer)
    finally:
        await syslog.stop(within=1)
    found = sink.records(wire.topic_of("syslog_message"))
    return [orjson.loads(record.value)["payload"]["message"] for record in found]


async def _refused(port: int, context: ssl.SSLContext) -> None:
    """Come in and wait for what is said; a refusal is told at the first read."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=context)
    try:
        if not await reader.read():
            raise ConnectionResetError("closed without a word")
    finally:
        await left(writer)


@asynccontextmanager
async def _nothing(_: FastAPI) -> AsyncIterator[State]:
    raise AssertionError("nobody starts its lifespan")
    yield
