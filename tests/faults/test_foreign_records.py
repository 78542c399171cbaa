"""Foreign records on Onramp's own topics: they stop neither the writer nor the readers."""

import asyncio
import json
import re

from confluent_kafka import Producer
from typer.testing import CliRunner

from services.cli.app import app
from services.ops.audit.run import Request, audit
from shared import wire
from shared.kafka_security import Brokers
from tests.fixtures.odd_records import produce_with_odd_header
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import event, eventually, landed, make_topics, produce

OWN = (wire.SETTLED, wire.SYSTEM_ERRORS, wire.USER_ERRORS, wire.WRITERS)
SHAPES = (b"hello", b"[]", b"{}", b'{"kind":"marker","database":7}', b'{"kind":"event"}', b'{"code":[]}', b"")
#: Parsers give up on these by another error than on what is no JSON; as much as a header may hold.
DEEP = b"[" * 5000
DEEP_SHAPES = (
    DEEP,
    b'{"zz":' + DEEP + b"]" * 5000 + b"}",
    b'{"kind":"event","database":"x","topic":"t","partition":0,"offset":1,"z":' + DEEP + b"]" * 5000 + b"}",
)
KEYS = (
    "plan/x",
    "plan/7",
    "baseline/x/2",
    "leader/x/1",
    "halt/x/1",
    "word/x/1",
    "line/x/1",
    "totals/x/1/2",
    "baseline/x/1",
    "routes/x",
    "routes",
    "plan",
    "writer",
    "\x00",
    "x/y",
)


def _litter(bootstrap: str) -> None:
    """Send foreign records to each of Onramp's own topics."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for topic in OWN:
        compacted = topic in (wire.SETTLED, wire.WRITERS)  # Kafka takes no record without a key there
        for key in (None, *KEYS)[compacted:]:
            for value in (None, *SHAPES, *DEEP_SHAPES):
                for name in ("onramp-error", "onramp-waiting"):
                    producer.produce(topic, key=key, value=value, headers=[(name, value)])
                producer.produce(topic, key=key, value=value)
    assert producer.flush(30) == 0
    for topic in OWN:
        produce_with_odd_header(bootstrap, topic, b"hello")


def _add(scene: Scene, n: int) -> None:
    produce(scene.bootstrap, scene.topic, [event(f"e-{scene.accepted + i}", scene.name) for i in range(n)])
    scene.accepted += n


def test_foreign_records_on_own_topics_stop_neither_a_running_nor_a_new_writer(
    alone: Scene, other: Other
) -> None:
    make_topics(alone.bootstrap, alone.topic)
    writer = alone.writer_into(other)
    _add(alone, 5)
    eventually(lambda: landed(other.dsn, alone.name) == 5)

    other.close()
    eventually(lambda: (_add(alone, 1), writer.states[other.name] == "out")[1])
    produce(alone.bootstrap, alone.topic, [b"no json"])
    eventually(lambda: alone.landed() == alone.accepted)
    _litter(alone.bootstrap)
    _add(alone, 5)  # the one that runs goes on, and takes nothing on onramp.writers for a newer one
    eventually(lambda: alone.landed() == alone.accepted)
    other.open()
    eventually(lambda: landed(other.dsn, alone.name) == alone.accepted)  # drained, past all of it
    writer.stop()

    alone.writer_into(other)  # and so does the next one, which reads it all when it starts
    _add(alone, 5)
    eventually(lambda: landed(other.dsn, alone.name) == alone.landed() == alone.accepted)
    alone.all_landed_once()

    databases = {alone.database: alone.dsn, other.name: other.dsn}
    report = asyncio.run(
        audit(Request(Brokers(alone.bootstrap), databases, re.escape(alone.topic), deep=True))
    )
    assert (report.findings, report.unsettled) == ([], 0)
    said = CliRunner().invoke(app, ["errors", "tail", "-n", "1000", "--json", "--kafka", alone.bootstrap])
    assert said.exit_code == 0, said.output
    found = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
    assert {e["code"] for e in found} == {"no_envelope", "database_unavailable"}
