"""Recovery of parked events with existing commands: show the bytes, correct them, send them again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from services.cli.app import app
from shared import wire
from shared.errors import RECORD_HEADERS_TOO_LARGE
from stack import services
from tests.faults.conftest import Ground
from tests.fixtures.fix_postgres import Database
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import envelope, event, eventually, execute

run = CliRunner()


class Person:
    """An operator at a terminal, with a file for an event."""

    def __init__(self, scene: Scene, ground: Ground, admin: str, file: Path) -> None:
        self._scene = scene
        self._gateway = ground.gateway
        self._at = ["--kafka", scene.bootstrap, "--dsn", scene.dsn, "--database", scene.database]
        self._admin = ["--admin", admin]
        self.file = file

    def parked(self) -> list[str]:
        """The keys of the scene's parked events, by receipt."""
        told = run.invoke(app, ["errors", "tail", "-n", "1000", "--kind", "parked", "--json", *self._at])
        found = [json.loads(line) for line in told.stdout.splitlines()]
        mine = [each for each in found if each["topic"] == self._scene.topic]
        return [each["key"] for each in sorted(mine, key=lambda each: (each["partition"], each["offset"]))]

    def reason(self, key: str) -> dict[str, Any]:
        shown = json.loads(eventually(lambda: self._show(key, "--json"), 120))
        return {"code": shown["code"], "fix": shown["reason"]["fix"]}

    def save(self, key: str) -> bytes:
        """`onramp errors show KEY --raw > file`."""
        shown = eventually(lambda: self._show(key, "--raw", "--reason", "to send it again"), 120)
        self.file.write_bytes(shown)
        return shown

    def _show(self, key: str, *how: str) -> bytes:
        """The output of `show`; empty until the event is stored."""
        return run.invoke(app, ["errors", "show", key, *how, *self._admin]).stdout_bytes

    def send(self) -> None:
        """`onramp send file`."""
        sent = run.invoke(app, ["send", str(self.file), "--url", self._gateway])
        assert sent.exit_code == 0, sent.output


@pytest.fixture(scope="module")
def admin(ground: Ground, own_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An admin service that stores the parked events of these tests, once a writer has created the topic."""
    log = tmp_path_factory.mktemp("admin") / "admin.log"
    service = services.admin(bootstrap=ground.kafka.bootstrap, dsn=own_database.dsn, log=log)
    service.start()
    try:
        yield service.url
    finally:
        service.stop()


@pytest.fixture
def person(inline: Scene, ground: Ground, admin: str, tmp_path: Path) -> Person:
    """Events of the scene go to their landing table and to public.mine, which is not there yet."""
    there = {"type": "postgres", "schema": "public", "table": "mine"}
    destinations = [{"type": "postgres"}, there]
    inline.writer(registry=inline.register({"event_types": {inline.name: {"destinations": destinations}}}))
    return Person(inline, ground, admin, tmp_path / "event.json")


def _make_table(scene: Scene) -> None:
    execute(scene.dsn, "CREATE TABLE public.mine (_id text PRIMARY KEY, n int, t text)")


def _mine(scene: Scene) -> list[tuple[Any, ...]]:
    return scene.ask("SELECT _id, n, t FROM public.mine ORDER BY 1")


def test_an_event_whose_table_was_missing_lands_when_it_is_sent_again_as_it_is(
    inline: Scene, person: Person
) -> None:
    value = envelope("a", inline.name, b'{"n": 1, "t": "\xc2\xa0\xe2\x80\xa8\\u0007\\n\xf0\x9f\x9a\x80"}')
    inline.produce(value)
    [key] = eventually(person.parked)
    assert person.reason(key)["code"] == "unknown_table"
    assert "Sending a parked event again" in person.reason(key)["fix"]
    _make_table(inline)
    assert person.save(key) == value
    person.send()
    eventually(lambda: _mine(inline) == [("a", 1, "\xa0\u2028\x07\n\U0001f680")])
    eventually(lambda: inline.totals() == {"landed": 2, "parked": 1, "duplicate": 1})
    inline.audited()


def test_an_event_whose_values_were_refused_lands_when_they_are_mended(inline: Scene, person: Person) -> None:
    _make_table(inline)
    inline.produce(event("a", inline.name, n="many"))
    [key] = eventually(person.parked)
    assert person.reason(key)["code"] == "data_rejected"
    person.file.write_bytes(person.save(key).replace(b'"many"', b"7"))
    person.send()
    eventually(lambda: _mine(inline) == [("a", 7, None)])


def test_a_packet_lands_when_any_kafka_client_sends_its_bytes_again(inline: Scene, person: Person) -> None:
    there = {"type": "postgres", "vanity": inline.database, "schema": "public", "table": "mine"}
    packet = {"pipeline_context": {"destinations": [there]}, "data": {"_id": "p", "n": 3}}
    inline.produce(orjson.dumps(packet))
    [key] = eventually(person.parked)
    _make_table(inline)
    inline.produce(person.save(key))
    eventually(lambda: _mine(inline) == [("p", 3, None)])


def test_an_event_whose_headers_were_too_large_lands_when_it_is_sent_again_without_them(
    person: Person, inline: Scene
) -> None:
    large = (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES.ljust(wire.MAX_HEADER_BYTES + 1))
    inline.produce(event("large", inline.name), headers=[large])
    (key,) = eventually(person.parked)
    assert person.reason(key)["code"] == RECORD_HEADERS_TOO_LARGE.code
    assert person.save(key) == event("large", inline.name)
    person.send()
    eventually(lambda: inline.landed() == 1)
