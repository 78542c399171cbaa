"""Rolling restart under load, with TLS: two gateways restart in turn behind a balancer, and a broker dies."""

import asyncio
import logging
import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from clients.python.onramp_client import Onramp
from services.ops.audit.run import Request, audit
from shared import wire
from shared.kafka_security import Brokers, KafkaSecurity
from shared.registry.key_secrets import new_key
from shared.settings import KafkaSettings
from stack import services
from stack.kafka import Kafka
from stack.postgres import Postgres
from stack.process_groups import family_of
from stack.registry import OwnRegistry
from stack.services import Service
from tests.fixtures.authority import Authority
from tests.fixtures.balancer import Balancer
from tests.fixtures.fix_postgres import FAST
from tests.fixtures.fix_tls import USER, scram_user, tls_settings
from tests.fixtures.running_part import started
from tests.fixtures.scenes import QUICK
from tests.fixtures.tls_postgres import tls_in_front_of
from tests.fixtures.writer import eventually, landed

pytestmark = pytest.mark.full

_PATIENCE = 120.0
_PER_SECOND, _TICK_SECONDS = 2_000, 0.05
#: A balancer that looks ten times a second hears of a gateway's end long before.
_DRAIN_SECONDS = 5
_DATABASE = "warehouse"


@dataclass
class Site:
    """The running processes, and the secrets that must not be visible."""

    kafka: Kafka
    brokers: Brokers
    gateways: list[Service]
    writer: Service
    balancer: Balancer
    dsn: str
    key: str
    folder: Path
    secrets: list[str]
    name: str = field(default_factory=lambda: f"event_{secrets.token_hex(4)}")

    def landed(self) -> int:
        return landed(self.dsn, self.name)

    def restart(self, gateway: Service) -> None:
        """As a supervisor would: stop it, and go on with the next one when this one is back."""
        gateway.stop()
        assert self.balancer.sees(gateway.port, ready=False)
        gateway.start()
        gateway.wait_ready(_PATIENCE)
        eventually(lambda: self.balancer.sees(gateway.port, ready=True))


class Load:
    """Sends at a constant rate from a separate thread until it is stopped."""

    def __init__(self, site: Site) -> None:
        self.client = Onramp(
            f"http://127.0.0.1:{site.balancer.port}",
            key=site.key,
            queue_size=500_000,
            queue_bytes=2**30,
            give_up_seconds=3600,
            connections=4,
        )
        self._name = site.name
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def accepted(self) -> int:
        return self.client.tally.accepted

    def goes_on(self) -> None:
        """Wait until two seconds' worth of more events are accepted."""
        at_least = self.accepted + 2 * _PER_SECOND
        eventually(lambda: self.accepted >= at_least, _PATIENCE)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        start, sent = time.monotonic(), 0
        while not self._stop.wait(_TICK_SECONDS):
            due = int((time.monotonic() - start) * _PER_SECOND)
            for n in range(sent, due):
                self.client.send(self._name, {"n": n})
            sent = due


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    authority, password = Authority(tmp_path / "ca"), secrets.token_hex(12)
    key, digest = new_key("shop")
    password_file = tmp_path / "kafka.password"
    password_file.write_text(f"{password}\n")
    kafka = Kafka(
        tmp_path / "kafka",
        brokers=3,
        heap_mb=384,
        listeners={"SASL": "SASL_SSL"},
        settings=tls_settings(authority.issue("broker").both, authority.ca),
    )
    postgres = Postgres(tmp_path / "postgres", settings=FAST)
    with ExitStack() as running:
        running.enter_context(started(kafka))
        running.enter_context(started(postgres))
        scram_user(kafka, USER, password)
        at, issued = urlsplit(postgres.dsn), authority.issue("postgres")
        port = running.enter_context(tls_in_front_of(at.port or 0, issued.both))
        passfile = tmp_path / "pgpass"
        passfile.write_text(f"*:*:*:{at.username}:{at.password}\n")
        passfile.chmod(0o600)
        dsn = (
            f"postgresql://{at.username}@localhost:{port}{at.path}"
            f"?sslmode=verify-full&sslrootcert={authority.ca}&passfile={passfile}"
        )
        security = KafkaSecurity(
            protocol="SASL_SSL", ca_file=authority.ca, username=USER, password_file=password_file
        )
        brokers = Brokers(kafka.bootstrap_of("SASL"), security)
        env = kafka.promise | {
            "ONRAMP_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "ONRAMP_KAFKA_CA_FILE": str(authority.ca),
            "ONRAMP_KAFKA_USERNAME": USER,
            "ONRAMP_KAFKA_PASSWORD_FILE": str(password_file),
        }
        as_user = KafkaSettings(
            bootstrap=brokers.bootstrap,
            security_protocol="SASL_SSL",
            ca_file=authority.ca,
            username=USER,
            password_file=password_file,
            replication=3,
            min_insync=2,
        )
        keys = {"shop": {"hashes": [{"sha256": digest}], "events": ["*"]}}
        env |= OwnRegistry(brokers.bootstrap, {"keys": keys}, kafka=as_user).env
        of_gateway = env | {
            "ONRAMP_INGEST_DRAIN_SECONDS": str(_DRAIN_SECONDS),
            "ONRAMP_INGEST_GRACE_SECONDS": "25",
        }
        of_writer = env | QUICK | {"ONRAMP_WRITER_DATABASE": _DATABASE}
        gateways = [
            services.gateway(bootstrap=brokers.bootstrap, log=tmp_path / f"gateway-{n}.log", env=of_gateway)
            for n in range(2)
        ]
        writer = services.writer(
            bootstrap=brokers.bootstrap, dsn=dsn, log=tmp_path / "writer.log", env=of_writer
        )
        for service in (*gateways, writer):
            running.enter_context(started(service))
        balancer = running.enter_context(Balancer([g.port for g in gateways], [g.is_ready for g in gateways]))
        for gateway in gateways:
            eventually(lambda gateway=gateway: balancer.sees(gateway.port, ready=True))  # type: ignore[misc]
        hidden = [password, key, str(at.password)]
        yield Site(kafka, brokers, gateways, writer, balancer, dsn, key, tmp_path, hidden)


def test_a_rolling_restart_and_a_dead_broker_lose_nothing(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "onramp_client")
    load = Load(site)
    try:
        eventually(lambda: site.landed() > 0, _PATIENCE)
        for gateway in site.gateways:
            site.restart(gateway)
            load.goes_on()
        site.writer.stop()
        load.goes_on()
        site.writer.start()
        site.writer.wait_ready(_PATIENCE)
        assert site.balancer.refused == 0
        assert [r.getMessage() for r in caplog.records if r.name == "onramp_client"] == []

        site.kafka.kill(1)
        load.goes_on()
        site.kafka.children[1].start()
        load.goes_on()
    finally:
        load.stop()
        tally = load.client.close(_PATIENCE)
    assert (tally.accepted, tally.rejected, tally.unknown) == (tally.sent, 0, 0)
    assert site.balancer.refused == 0
    assert all(site.balancer.taken.values())
    eventually(lambda: site.landed() == tally.sent, _PATIENCE)
    topic = re.escape(wire.topic_of(site.name))
    report = asyncio.run(audit(Request(site.brokers, {_DATABASE: site.dsn}, topic, deep=True)))
    assert (report.findings, report.unsettled) == ([], 0)
    _no_secret_is_seen(site)


def _no_secret_is_seen(site: Site) -> None:
    said = [file.read_text(errors="replace") for file in site.folder.glob("*.log")]
    for service in (*site.gateways, site.writer):
        said += _command_lines(service)
    assert len(said) > len(site.gateways)
    for secret in site.secrets:
        assert not any(secret in each for each in said)


def _command_lines(service: Service) -> Iterator[str]:
    for process in family_of(psutil.Process(service.pid)):
        with suppress(psutil.NoSuchProcess):  # it ends while we look
            yield " ".join(process.cmdline())
