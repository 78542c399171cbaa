"""A server whose databases are sources, and a Kafka Connect worker, for all tests of this folder."""

import threading
from collections.abc import Iterator

import pytest

from services.elt.modeler.modeler import Modeler
from services.elt.modeler.published import Published
from services.elt.modeler.settings import ModelerSettings
from stack.connect import Connect
from stack.postgres import Postgres
from stack.registry import OwnRegistry
from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import FAST
from tests.fixtures.fix_stack import StartWriter
from tests.fixtures.sources import ENV, OTHER, Captured, captured, password_of
from tests.fixtures.started import started


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    settings = {**FAST, "max_replication_slots": "50", "max_wal_senders": "50"}
    with started(Postgres(tmp_path_factory.mktemp("source"), settings=settings)) as postgres:
        yield postgres


@pytest.fixture(scope="package")
def connect(
    kafka: HasBootstrap, server: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connect]:
    passwords = {f"{name}_PASSWORD": password_of(server.dsn) for name in (ENV, OTHER)}
    with started(Connect(tmp_path_factory.mktemp("connect"), kafka.bootstrap, passwords=passwords)) as worker:
        yield worker


@pytest.fixture
def shop(server: Postgres, connect: Connect, kafka: HasBootstrap) -> Iterator[Captured]:
    """A source with one table of one row."""
    tables = [
        (
            "CREATE TABLE app.orders (id int PRIMARY KEY, note text, "
            "upper_note text GENERATED ALWAYS AS (upper(note)) STORED)"
        ),
        "INSERT INTO app.orders VALUES (1, 'there before')",
    ]
    with captured(server, connect, kafka.bootstrap, tables) as made:
        yield made


@pytest.fixture
def warehouse(shop: Captured, start_writer: StartWriter) -> Iterator[Service]:
    """A writer that reads the source's topics, and a modeler; returns the writer."""
    name = shop.published.rsplit("/", 1)[1].partition("?")[0]
    source = shop.source.model_dump(mode="json", exclude_none=True)
    registry = OwnRegistry(shop.bootstrap, {"sources": {shop.name: source}})
    writer = start_writer(
        shop.bootstrap,
        shop.published,
        {
            "ONRAMP_WRITER_TOPICS": "none",
            "ONRAMP_WRITER_DATABASE": name,
            "ONRAMP_WRITER_STANDBY": "false",
            "ONRAMP_WRITER_DISCOVER_MS": "100",
            **registry.env,
        },
    )
    published = Published(sources={shop.name: shop.source}, models={})
    modeler = Modeler(name, shop.published, lambda: published, ModelerSettings(look_s=0.1, retry_s=0.5))
    thread = threading.Thread(target=modeler.run)
    thread.start()
    yield writer
    modeler.stop()
    thread.join(30)
