"""A ground of their own: these writers fence each other, and Kafka is stopped under them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stack import services
from stack.kafka import Kafka
from tests.fixtures.fix_kafka import started
from tests.fixtures.fix_postgres import Database
from tests.fixtures.fix_stack import StartWriter
from tests.fixtures.scenes import Scene


@dataclass(frozen=True)
class Ground:
    """A Kafka and its gateway."""

    kafka: Kafka
    gateway: str


@pytest.fixture(scope="package")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Shared by all fault tests, one after the other; every scene has its own topic and database."""
    folder = tmp_path_factory.mktemp("faults")
    with started(Kafka(folder / "kafka")) as kafka:
        gateway = services.gateway(bootstrap=kafka.bootstrap, log=folder / "gateway.log")
        try:
            gateway.start()
            gateway.wait_ready()
            yield Ground(kafka, gateway.url)
        finally:
            gateway.stop()


@pytest.fixture
def scene(ground: Ground, database: Database, start_writer: StartWriter, tmp_path: Path) -> Scene:
    return Scene(start_writer, ground.kafka.bootstrap, database.dsn, ground.gateway, tmp_path)
