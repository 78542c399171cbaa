"""A server whose databases are sources, and a Kafka Connect worker, for all tests of this folder."""

import threading
from collections.abc import Iterator
from typing import Final

import pytest

from services.cdc.merger.merger import Merger
from services.cdc.merger.published import Published
from services.cdc.merger.settings import MergerSettings
from services.writer.postgres import pool
from stack.connect import Connect
from stack.postgres import Postgres
from stack.registry import OwnRegistry
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import FAST
from tests.fixtures.inline import Inline
from tests.fixtures.running_part import started
from tests.fixtures.sources import ENV, OTHER, Captured, captured, password_of


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    settings = {**FAST, "max_replication_slots": "50", "max_wal_senders": "50"}
    with started(Postgres(tmp_path_factory.mktemp("source"), settings=settings)) as postgres:
        yield postgres


@pytest.fixture(scope="session")
def connect(
    kafka: HasBootstrap, server: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connect]:
    passwords = {f"{name}_PASSWORD": password_of(server.dsn) for name in (ENV, OTHER)}
    with started(Connect(tmp_path_factory.mktemp("connect"), kafka.bootstrap, passwords=passwords)) as worker:
        yield worker


#: One table of one row.
ORDERS: Final = (
    (
        "CREATE TABLE app.orders (id int PRIMARY KEY, note text, "
        "upper_note text GENERATED ALWAYS AS (upper(note)) STORED)"
    ),
    "INSERT INTO app.orders VALUES (1, 'there before')",
)


@pytest.fixture
def shop(server: Postgres, connect: Connect, kafka: HasBootstrap) -> Iterator[Captured]:
    """A source with the table of orders."""
    with captured(server, connect, kafka.bootstrap, ORDERS) as made:
        yield made


@pytest.fixture(scope="module")
def shop_of_module(server: Postgres, connect: Connect, kafka: HasBootstrap) -> Iterator[Captured]:
    """The same for all tests of a module, each with tables of its own."""
    with captured(server, connect, kafka.bootstrap, ORDERS) as made:
        yield made


class Warehouse:
    """A writer without Spark and a merger in this process, which turn a source's topics into tables."""

    def __init__(self, shop: Captured) -> None:
        name = shop.published.rsplit("/", 1)[1].partition("?")[0]
        source = shop.source.model_dump(mode="json", exclude_none=True)
        registry = OwnRegistry(shop.bootstrap, {"sources": {shop.name: source}})
        env = {
            "ONRAMP_WRITER_TOPICS": "none",
            "ONRAMP_WRITER_DATABASE": name,
            "ONRAMP_WRITER_STANDBY": "false",
            "ONRAMP_WRITER_DISCOVER_MS": "100",
            **registry.env,
        }
        self._new_writer = lambda: Inline(shop.bootstrap, shop.published, env)
        self._writer = self._new_writer()
        published = Published(sources={shop.name: shop.source}, models={})
        settings = MergerSettings(poll_seconds=0.1, retry_seconds=0.5)
        self._merger = Merger(name, shop.published, lambda: published, settings)
        self._merging = threading.Thread(target=self._merger.run)

    def start(self) -> None:
        self._merging.start()
        self._writer.start()

    def wait_ready(self) -> None:
        self._writer.wait_ready()

    def stop(self) -> None:
        self._writer.stop()
        self._merger.stop()
        self._merging.join(30)
        pool.close_all()

    def kill(self) -> None:
        self.stop()

    def restart_writer(self) -> None:
        """Replace the writer: one halts where a topic was made again, the next reads that from its start."""
        self._writer.stop()
        self._writer = self._new_writer().start()
        self._writer.wait_ready()


@pytest.fixture
def warehouse(shop: Captured) -> Iterator[Warehouse]:
    with started(Warehouse(shop)) as parts:
        yield parts
