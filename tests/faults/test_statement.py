"""The statement of a real log: transaction markers and aborted records are offsets, and no records."""

import asyncio

from confluent_kafka import Producer

from services.ops.settled.reader import SettledReader
from services.ops.statement.balance import Period, Statement, statement
from services.ops.statement.collect import collect
from shared.kafka_security import Brokers
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import CONTEXT, event, eventually, ledger_of


def stated(scene: Scene) -> Statement:
    found = asyncio.run(collect(Brokers(scene.bootstrap), {scene.database: scene.dsn}, 30, SettledReader()))
    periods = {name: Period(None, reading) for name, reading in found.databases.items()}
    return statement(periods, shows=lambda topic: topic == scene.topic, missing=found.missing)


def test_markers_and_aborted_records_are_no_records(inline: Scene) -> None:
    inline.send(3)
    inline.writer()
    inline.all_landed_once()
    producer = Producer({"bootstrap.servers": inline.bootstrap, "transactional.id": inline.name})
    producer.init_transactions(30)
    for number, ends in enumerate((producer.abort_transaction, producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(inline.topic, event(f"in-{number}", inline.name), headers=CONTEXT, partition=0)
        producer.flush(30)
        ends(30)
    # One record was aborted; the other one and two markers follow it.
    eventually(lambda: sum(ledger_of(inline.dsn, inline.topic).values()) == 3 + 4)
    found = eventually(lambda: said if (said := stated(inline)).lines[0].records is not None else None)
    (line,) = found.lines
    assert (found.differences, found.unevaluated) == ([], {})
    assert (line.records, [each.records for each in line.destinations]) == (4, [4])
