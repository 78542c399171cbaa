"""`onramp transforms` over a real Kafka: a deploy with its test and rehearsal, rollback, states and logs."""

import asyncio
import json
import secrets
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from services.cli.app import app
from services.cli.exits import Exit
from services.cli.options import ROOT
from services.ops.kafka_logs import KafkaLogs
from shared import wire
from shared.registry.transforms import digest_of_source
from shared.settings import KafkaSettings
from shared.transform_state import TransformState
from stack.registry import OwnRegistry
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.writer import make_topics, produce

GOOD = 'def transform(event, lookup):\n    return {"event_name": "MADE", "payload": event["payload"]}\n'
BAD = GOOD.replace('event["payload"]', 'event["payload"]["absent"]')
TESTS = "- {given: {payload: {n: 1}}, expect: {event_name: MADE, payload: {n: 1}}}\n"


class Ground(NamedTuple):
    """A transform with names that no other test has."""

    name: str
    read: str
    made: str
    folder: Path
    registry: OwnRegistry
    environment: dict[str, str]

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["transforms", *arguments], env=self.environment)

    def write(self, source: str, tests: str = TESTS) -> str:
        source, tests = (text.replace("MADE", self.made) for text in (source, tests))
        (self.folder / f"{self.name}.py").write_text(source, "utf-8")
        (self.folder / f"{self.name}.tests.yaml").write_text(tests, "utf-8")
        return source

    def deploy(self, *options: str) -> Result:
        return self.run("deploy", self.name, f"--folder={self.folder}", "--last=10", *options)

    def send(self, *payloads: dict[str, Any]) -> None:
        metadata = {"id": "e1", "timestamp": "2026-01-01T00:00:00Z", "version": "1"}
        events = [{"metadata": metadata, "event_name": self.read, "payload": each} for each in payloads]
        make_topics(self.registry.bootstrap, f"events.{self.read}", partitions=1)
        produce(self.registry.bootstrap, f"events.{self.read}", map(orjson.dumps, events))

    def shown(self) -> dict[str, Any]:
        (transform,) = json.loads(self.run("list", "--json").stdout)
        return dict(transform)


@pytest.fixture
def ground(kafka: HasBootstrap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    suffix = secrets.token_hex(4)
    name, read, made = f"transform_{suffix}", f"read_{suffix}", f"made_{suffix}"
    registry = OwnRegistry(
        kafka.bootstrap,
        {"event_types": {read: {}, made: {}}, "transforms": {name: {"from": read, "to": [made]}}},
    )
    make_topics(kafka.bootstrap, wire.TRANSFORMERS, partitions=2)
    make_topics(kafka.bootstrap, wire.TRANSFORMED, wire.TRANSFORM_LOGS, partitions=1)
    monkeypatch.chdir(tmp_path)
    environment = {
        **registry.env,
        "ONRAMP_KAFKA_BOOTSTRAP": kafka.bootstrap,
        "PYTHONPATH": str(ROOT),  # as `bin/onramp` sets it
        "ONRAMP_DATA_DIR": str(tmp_path),
    }
    return Ground(name, read, made, tmp_path, registry, environment)


def test_a_deploy_needs_its_test_and_its_rehearsal(ground: Ground, capfd: pytest.CaptureFixture[str]) -> None:
    good = ground.write(GOOD)
    nothing = ground.deploy()
    assert nothing.exit_code == Exit.UNCHECKED
    ground.send({"n": 1}, {"n": 2})
    ground.write(GOOD, TESTS.replace("n: 1}}}", "n: 2}}}"))
    assert ground.deploy().exit_code == Exit.FAILED
    ground.write(BAD, "- {given: {payload: {absent: {}}}, expect: {event_name: MADE, payload: {}}}\n")
    assert ground.deploy().exit_code == Exit.FAILED
    assert "2 times transform_failed: KeyError at line 2" in capfd.readouterr().out
    assert ground.shown()["state"] == "not_deployed"

    ground.write(GOOD)
    deployed = ground.deploy("--reason", "first", "--json")
    assert deployed.exit_code == Exit.OK, deployed.output
    assert ground.shown()["digest"] == digest_of_source(good)
    bad = ground.write(BAD)
    hurried = ground.deploy("--untried", "in a hurry")
    assert hurried.exit_code == Exit.OK
    assert f"{ground.name}@{digest_of_source(bad)[:12]} is deployed" in hurried.stdout
    assert ground.shown()["digest"] == digest_of_source(bad)
    versions = json.loads(ground.run("list", ground.name, "--json").stdout)
    assert [each["reason"] for each in versions] == ["first", "untried: in a hurry"]

    assert ground.run("rollback", ground.name, "--reason", "broken").exit_code == Exit.OK
    assert ground.shown()["digest"] == digest_of_source(good)
    assert ground.run("rollback", "absent").exit_code == Exit.FAILED


def test_states_are_written_where_the_service_reads_them(ground: Ground) -> None:
    ground.write(GOOD)
    assert ground.deploy("--untried", "no events").exit_code == Exit.OK
    assert ground.shown()["state"] == "running"
    assert ground.run("pause", ground.name, "--reason", "wrong carriers").exit_code == Exit.OK
    shown = ground.shown()
    assert (shown["state"], shown["reason"]) == ("paused", "wrong carriers")
    assert ground.run("resume", ground.name, "--accept").exit_code == Exit.OK
    assert ground.shown()["state"] == TransformState().state
    assert ground.run("pause", "absent", "--reason", "x").exit_code == Exit.FAILED


def test_the_list_shows_totals_and_lag(ground: Ground) -> None:
    ground.write(GOOD)
    assert ground.deploy("--untried", "no events").exit_code == Exit.OK
    assert (ground.shown()["lag"], ground.shown()["emitted"]) == (None, 0)
    topic = f"events.{ground.read}"
    ground.send({"n": 1}, {"n": 2}, {"n": 3})

    async def topic_id() -> str:
        async with KafkaLogs(KafkaSettings(bootstrap=ground.registry.bootstrap).brokers) as logs:
            return (await logs.topic_ids())[topic]

    totals = {
        "transform": ground.name,
        "topic": topic,
        "partition": 0,
        "topic_id": asyncio.run(topic_id()),
        "first": 0,
        "next": 2,
        "filtered": 0,
        "dropped": 1,
        "parked": 0,
        "emitted": 1,
        "outputs": 1,
    }
    producer = Producer({"bootstrap.servers": ground.registry.bootstrap})
    for key, value in (("other", b"not totals"), (f"{ground.name}/{topic}/0", orjson.dumps(totals))):
        producer.produce(
            wire.TRANSFORMED, key=key, value=value, partition=0
        )  # compacted: a record needs a key
    assert producer.flush(30) == 0
    shown = ground.shown()
    assert (shown["lag"], shown["emitted"], shown["dropped"]) == (1, 1, 1)


def test_log_lines_are_of_one_transform(ground: Ground) -> None:
    producer = Producer({"bootstrap.servers": ground.registry.bootstrap})
    line = {"transform": ground.name, "digest": "d" * 64, "event_id": "e1", "at": 0.5, "level": "info"}
    for name, text in ((ground.name, "one"), ("other", "hidden"), (ground.name, "two\x1b[2J")):
        producer.produce(wire.TRANSFORM_LOGS, key=name, value=orjson.dumps({**line, "text": text}))
    producer.produce(wire.TRANSFORM_LOGS, key=ground.name, value=b"no line")
    assert producer.flush(30) == 0
    shown = ground.run("logs", ground.name)
    assert shown.stdout.splitlines() == [
        f"1970-01-01T00:00:00.500+00:00 info {ground.name}@dddddddddddd e1 one",
        f"1970-01-01T00:00:00.500+00:00 info {ground.name}@dddddddddddd e1 two\\x1b[2J",
    ]
    assert len(ground.run("logs", ground.name, "--last", "1").stdout.splitlines()) == 1


def test_new_files_have_the_shape_of_a_real_event(ground: Ground) -> None:
    ground.send({"n": 17, "carrier": "UA"})
    made = ground.run("new", "other", "--from", ground.read, "--folder", str(ground.folder / "t"))
    assert made.exit_code == Exit.OK, made.output
    assert f"  other: {{from: {ground.read}, to: [NAME_OF_AN_OUTPUT]}}" in made.stdout
    text = (ground.folder / "t" / "other.tests.yaml").read_text("utf-8")
    assert "n: 99" in text
    assert "carrier: AA" in text
    tested = ground.run("test", "other", "--folder", str(ground.folder / "t"))
    assert tested.exit_code == Exit.OK, tested.output
    assert ground.run("new", "other", "--from", ground.read, f"--folder={ground.folder / 't'}").exit_code == 1
