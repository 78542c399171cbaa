"""Gateway and writer over TLS: a changed password loses no event, and no secret is visible."""

import asyncio
import os
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx2
import psutil
import pytest

from services.ops.audit.run import Request, audit
from shared import wire
from stack import services
from stack.process_groups import family_of
from stack.services import Service
from tests.fixtures.fix_postgres import Database
from tests.fixtures.fix_tls import ROTATING, USER, Secured
from tests.fixtures.inline import Inline, start_inline
from tests.fixtures.running_part import started
from tests.fixtures.scenes import QUICK, Scene
from tests.fixtures.writer import event, eventually, landed, records

_PATIENCE = 120.0


@dataclass
class Line:
    """A gateway and a writer with a real Spark, and what was accepted."""

    secured: Secured
    password_file: Path
    folder: Path
    gateway: Service
    writer: Service
    dsn: str
    database: str
    name: str
    passwords: list[str]
    accepted: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def send(self) -> None:
        """Send ten events, again and again with the same ids until they are accepted."""
        ids = range(self.accepted, self.accepted + 10)
        body = b"[%b]" % b",".join(event(f"{self.name}-{i}", self.name, n=i) for i in ids)
        eventually(partial(self._accepts, body), _PATIENCE)
        self.accepted += 10

    def send_on(self) -> None:
        while not self.stop.is_set():
            self.send()

    def all_landed(self) -> bool:
        return landed(self.dsn, self.name) == self.accepted

    def change_password(self) -> None:
        """At the brokers first and in the file then: in between no login succeeds."""
        self.passwords.append(f"new-{secrets.token_hex(8)}")
        self.secured.user(ROTATING, self.passwords[-1])
        fresh = self.password_file.with_suffix(".fresh")
        fresh.write_text(self.passwords[-1] + "\n")
        fresh.rename(self.password_file)

    def _accepts(self, body: bytes) -> bool:
        answer = httpx2.post(
            f"{self.gateway.url}/v1/events",
            content=body,
            headers={"content-type": "application/json"},
            timeout=60,
        )
        assert answer.status_code in {202, 207, 503}, answer.text
        return answer.status_code == 202


@pytest.fixture(scope="module")
def line(
    secured: Secured, own_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Line]:
    folder, name = tmp_path_factory.mktemp("line"), f"event_{secrets.token_hex(4)}"
    password_file, passwords = folder / "password", [f"first-{secrets.token_hex(8)}"]
    password_file.write_text(passwords[0] + "\n")
    secured.user(ROTATING, passwords[0])
    env = secured.env("SASL", username=ROTATING, password_file=password_file)
    (folder / "spark").mkdir()
    database = f"db_{secrets.token_hex(4)}"
    of_writer = QUICK | {
        "ONRAMP_WRITER_TOPICS": re.escape(wire.topic_of(name)),
        "ONRAMP_WRITER_DATABASE": database,
        # All that Spark says of a batch: its options, its plans, its metrics.
        "JDK_JAVA_OPTIONS": os.environ["JDK_JAVA_OPTIONS"]
        + f" -Dspark.eventLog.enabled=true -Dspark.eventLog.dir=file://{folder}/spark"
        " -Dspark.eventLog.compress=false -Dspark.sql.maxMetadataStringLength=10000",
    }
    kafka = secured.kafka.bootstrap_of("SASL")
    gateway = services.gateway(bootstrap=kafka, log=folder / "gateway.log", env=env)
    writer = services.writer(
        bootstrap=kafka, dsn=own_database.dsn, log=folder / "writer.log", env=env | of_writer
    )
    with ExitStack() as stack:
        stack.enter_context(started(gateway))
        stack.enter_context(started(writer))
        yield Line(
            secured, password_file, folder, gateway, writer, own_database.dsn, database, name, passwords
        )


@pytest.mark.full
def test_a_password_that_changes_under_load_loses_nothing(line: Line) -> None:
    line.send()
    eventually(line.all_landed, _PATIENCE)
    load = threading.Thread(target=line.send_on)
    load.start()
    try:
        line.change_password()
        line.secured.kafka.stop()  # and with it every connection: all log in anew
        line.secured.kafka.start()
        line.secured.kafka.wait_ready(_PATIENCE)
        before = line.accepted
        eventually(lambda: line.accepted > before + 20, _PATIENCE)
        eventually(lambda: landed(line.dsn, line.name) > before, _PATIENCE)
    finally:
        line.stop.set()
        load.join()
    eventually(line.all_landed, _PATIENCE)
    topic, brokers = re.escape(wire.topic_of(line.name)), line.secured.brokers("SASL")
    report = asyncio.run(audit(Request(brokers, {line.database: line.dsn}, topic, deep=True)))
    assert (report.findings, report.unsettled) == ([], 0)


@pytest.mark.full
def test_no_password_is_anywhere_that_somebody_looks(line: Line) -> None:
    line.send()
    eventually(line.all_landed, _PATIENCE)
    plans = eventually(lambda: _plans(line.folder / "spark"))
    said = [file.read_text(errors="replace") for file in line.folder.rglob("*.log")]
    for service in (line.gateway, line.writer):
        for process in family_of(psutil.Process(service.pid)):
            said += _of_process(process)
    for password in line.passwords:
        assert not any(password in each for each in [*said, *plans])


@pytest.mark.parametrize("door", [pytest.param("MTLS", marks=pytest.mark.full), "SASL"])
def test_a_writer_lands_parks_and_publishes(
    secured: Secured, database: Database, tmp_path: Path, door: str
) -> None:
    issued = secured.authority.issue(USER)
    more = {"cert_file": issued.cert, "key_file": issued.key} if door == "MTLS" else {}
    env, running = secured.env(door, **more), list[Inline]()

    def start(_: str, dsn: str, settings: dict[str, str], *, wait: bool = True) -> Inline:
        return start_inline(running, secured.kafka.bootstrap_of(door), dsn, settings | env, wait=wait)

    scene = Scene(
        start_writer=start, bootstrap=secured.kafka.bootstrap, dsn=database.dsn, gateway="", folder=tmp_path
    )  # type: ignore[arg-type]
    scene.produce(event("good", scene.name), b"no json")
    scene.writer()
    try:
        eventually(lambda: landed(database.dsn, scene.name) == 1, _PATIENCE)
        eventually(lambda: _parked(secured, scene.topic) == [b"no json"], _PATIENCE)
    finally:
        for writer in running:
            writer.stop()


def _parked(secured: Secured, topic: str) -> list[bytes | None]:
    found = records(secured.kafka.bootstrap, wire.USER_ERRORS)
    return [r.value for r in found if r.error["topic"] == topic]


def _plans(folder: Path) -> list[str]:
    """What Spark has written down of its batches; nothing before there is one in it."""
    found = [file.read_text() for file in folder.rglob("*") if file.is_file()]
    return found if any("SparkListenerJobStart" in each for each in found) else []


def _of_process(process: psutil.Process) -> list[str]:
    try:
        return [" ".join(process.cmdline()), repr(process.environ())]
    except psutil.NoSuchProcess:
        return []
