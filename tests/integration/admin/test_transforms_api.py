"""Transforms over HTTP: an admin deploys and resumes, an operator pauses; the audit log has each."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from services.ops.transforms.reader import TransformReader
from shared import wire
from shared.kafka_read.offsets import Partition
from shared.registry.transforms import digest_of_source
from shared.settings import KafkaSettings
from shared.transform_totals import Position, Totals, as_record
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.writer import make_topics
from tests.integration.admin.conftest import topic_id_of
from tests.integration.admin.registry_service import WHY, Office, office_of

TYPES = {
    "event_types": {"read": {}, "made": {}},
    "transforms": {"api_test": {"from": "read", "to": ["made"]}},
}
PATH = "/v1/transforms/api_test"


@pytest.fixture(scope="module")
def office(
    own_topics: HasBootstrap, postgres: HasDsn, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Office]:
    make_topics(own_topics.bootstrap, wire.TRANSFORMERS, partitions=2)
    make_topics(own_topics.bootstrap, wire.TRANSFORMED, partitions=1)
    with office_of(own_topics.bootstrap, postgres.dsn, tmp_path_factory.mktemp("office")) as office:
        assert office.registry is not None
        office.registry.put(TYPES)
        yield office


def test_an_admin_deploys_and_rolls_back(office: Office) -> None:
    assert (
        office.of("otto").ask("POST", f"{PATH}/deploy", params=WHY, json={"source": "a"}).status_code == 403
    )
    assert office.of("ada").ask("POST", f"{PATH}/deploy", params=WHY, json={"source": "a"}).status_code == 428
    for source in ("a", "b"):
        deployed = office.change("POST", f"{PATH}/deploy", json={"source": source})
        assert deployed.json()["changes"] == ["~ transforms.api_test: digest, source"], deployed.text
    assert office.acts[-1] == ["ada", "deploy transform", "transform api_test", WHY["reason"]]
    shown = office.of("vera").get(PATH).json()
    assert (shown["source"], [each["digest"] for each in shown["versions"]]) == (
        "b",
        [digest_of_source(each) for each in "ab"],
    )
    assert office.change("POST", f"{PATH}/rollback").status_code == 200
    (listed,) = office.of("vera").get("/v1/transforms").json()["transforms"]
    assert (listed["digest"], listed["state"]) == (digest_of_source("a"), "running")
    refused = office.change("POST", f"{PATH}/deploy", json={"source": "é" * 40_000})
    assert "80,000 bytes" in refused.json()["detail"]
    assert office.change("POST", "/v1/transforms/absent/deploy", json={"source": "a"}).status_code == 404


def test_totals_are_of_all_topics_of_a_name_and_the_lag_is_of_the_present_one(office: Office) -> None:
    topic = wire.topic_of("read")
    make_topics(office.bootstrap, topic, partitions=1)
    producer = Producer({"bootstrap.servers": office.bootstrap})
    for n in range(3):
        producer.produce(topic, f"{n}")
    for topic_id, position, emitted in (
        ("0f6a0e3f8a11", 1_000, 7),
        (topic_id_of(office.bootstrap, topic), 1, 1),
    ):
        totals = Totals(topic_id=topic_id, first=0, emitted=emitted)
        key, value = as_record("api_test", Partition(topic, 0), Position(position, totals))
        producer.produce(wire.TRANSFORMED, value, key)
    assert producer.flush(30) == 0
    (listed,) = office.of("vera").get("/v1/transforms").json()["transforms"]
    assert (listed["emitted"], listed["lag"]) == (8, 2)


def test_an_operator_pauses_and_an_admin_resumes(office: Office) -> None:
    def state() -> str:
        found = TransformReader(KafkaSettings(bootstrap=office.bootstrap).brokers).read().states
        return found["api_test"].state if "api_test" in found else ""

    dry = office.of("otto").ask("POST", f"{PATH}/pause", params=WHY | {"dry_run": "true"})
    assert (dry.status_code, state()) == (200, ""), dry.text
    assert office.of("vera").ask("POST", f"{PATH}/pause", params=WHY).status_code == 403
    assert office.of("otto").ask("POST", f"{PATH}/pause", params=WHY).status_code == 200
    assert state() == "paused"
    assert office.acts[-1] == ["otto", "pause transform", "transform api_test", WHY["reason"]]
    assert office.of("otto").ask("POST", f"{PATH}/resume", params=WHY).status_code == 403
    assert office.of("ada").ask("POST", f"{PATH}/resume", params=WHY).status_code == 200
    assert state() == "running"
