"""The load generator on a real gateway: its history equals Kafka's records, and stalls are recorded."""

import os
import secrets
import signal
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from loadtest.bodies import FIRST_NUMBER, Names
from loadtest.client_claims import IS_OK, NEVER_SENT, Claims
from loadtest.generator import Order
from loadtest.history import Recorder
from loadtest.landed_rows import topic_of
from loadtest.run import generate
from loadtest.shapes import BATCH, KAFKA, NDJSON, SINGLE, Shape, Step
from loadtest.target import Target, admin
from loadtest.watch import Watch
from stack.process_groups import family_of
from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_stack import StartGateway

PARTITIONS = 2


def generated(shape: Shape, url: str, bootstrap: str, folder: Path, ca_file: str = "") -> tuple[Claims, int]:
    """Run the generator; returns its claims and how many records its topic has."""
    names = Names(secrets.token_hex(3))
    topic = topic_of(shape.via, names)
    client = admin(bootstrap)
    client.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(20)
    target = Target(url=url, bootstrap=bootstrap)
    with (
        Watch(target, topic, PARTITIONS) as watch,
        Recorder(folder / "history.jsonl", FIRST_NUMBER) as recorder,
    ):
        order = Order(
            shape=shape,
            names=names,
            history=recorder.address,
            api_key="",
            bootstrap=bootstrap,
            topic=topic,
            syslog=None,
            ca_file=ca_file,
        )
        order.write(folder / "order.json")
        generate(target, shape, folder, watch, recorder, web=False)
    partitions = {TopicPartition(topic, n): OffsetSpec.latest() for n in range(PARTITIONS)}
    ends = [answer.result().offset for answer in client.list_offsets(partitions).values()]
    return Claims.read(folder / "history.jsonl"), sum(ends)


@pytest.mark.parametrize(
    ("via", "batch"),
    [
        (BATCH, 7),
        pytest.param(NDJSON, 7, marks=pytest.mark.full),
        pytest.param(KAFKA, 1, marks=pytest.mark.full),
    ],
)
def test_requests_recorded_as_ok_are_on_kafka(
    via: str, batch: int, gateway: Service, kafka: HasBootstrap, tmp_path: Path
) -> None:
    shape = Shape(name="x", via=via, size=15, batch=batch, steps=(Step(0.4, 50 * batch),), connections=3)
    claims, records = generated(shape, gateway.url, kafka.bootstrap, tmp_path)
    assert claims.count(IS_OK) == records == 20 * batch
    assert claims.count(IS_OK) + claims.count(NEVER_SENT) == len(claims.states)
    assert np.diff(np.sort(claims.requests.intended)) == pytest.approx(0.02)  # whoever was late with it
    if via == KAFKA:
        assert sorted(zip(claims.requests.partition, claims.requests.offset, strict=True)) == [
            (p, n) for p in range(PARTITIONS) for n in range(int((claims.requests.partition == p).sum()))
        ]


@pytest.mark.full
def test_a_gateway_that_stands_still_is_late_for_everything_that_was_due_meanwhile(
    start_gateway: StartGateway, kafka: HasBootstrap, tmp_path: Path
) -> None:
    gateway = start_gateway(kafka.bootstrap)
    family = [process.pid for process in family_of(psutil.Process(gateway.pid))]
    stood_still = threading.Thread(target=_stand_still, args=(family, tmp_path / "history.jsonl"))
    stood_still.start()
    # One connection: in a closed loop only the one request in flight would notice.
    shape = Shape(name="x", via=SINGLE, size=15, steps=(Step(3, 50),), connections=1)
    claims, records = generated(shape, gateway.url, kafka.bootstrap, tmp_path)
    stood_still.join()
    assert claims.count(IS_OK) == records == 150
    latency = claims.requests.ended - claims.requests.intended
    assert int((latency > 0.4).sum()) >= 25  # fifty were due in that second, half of them in its first half


def _stand_still(family: list[int], history: Path) -> None:
    """Stop the gateway for a second as soon as it has answered anything."""
    while not (history.exists() and b'"ok"' in history.read_bytes()):
        time.sleep(0.01)
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(1.0)  # a stall has a length: there is no condition to wait for
    finally:
        for pid in family:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.full
def test_a_shape_that_breaks_ends_when_packets_wait_too_long_to_be_sent(
    start_gateway: StartGateway, kafka: HasBootstrap, tmp_path: Path
) -> None:
    # One connection that waits for a broker's flush each time cannot send 20,000 a second for a minute.
    gateway = start_gateway(kafka.bootstrap)
    shape = Shape(name="x", via=SINGLE, size=15, steps=(Step(60, 20_000),), connections=1, breaks=1.0)
    claims, records = generated(shape, gateway.url, kafka.bootstrap, tmp_path)
    assert claims.count(IS_OK) == records > 0
    assert claims.count(IS_OK) < 20_000 * 60
    assert claims.count(IS_OK) + claims.count(NEVER_SENT) == len(claims.states)
