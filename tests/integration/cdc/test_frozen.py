"""A source or destination database that freezes is reported, and blocks no other work."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from services.cdc.agent.connect_api import ConnectApi
from services.cdc.agent.reconcile import Reach, SourceReconciler
from services.cdc.agent.source_sql import SourceDatabase
from services.cdc.agent.source_state_sql import StateStore
from services.cdc.merger.merger import Merger
from services.cdc.merger.published import Published
from services.cdc.merger.settings import MergerSettings
from services.cli.app import app
from shared.registry.sources import Source
from stack.postgres import Postgres
from tests.fixtures.changes import Stream
from tests.fixtures.silent_servers import Stopped
from tests.fixtures.writer import Bench, eventually
from tests.integration.cdc.merge_bench import Desk

SOURCE = Source(dsn_env="ONRAMP_SOURCE_SHOP", schemas=("app",), publish="shop")
#: What is away in all of these tests, once the databases were asked.
_AWAY = "Kafka Connect"


@contextmanager
def stopped(server: Stopped) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.go_on()


def make_reconciler(source: str, published: str) -> SourceReconciler:
    """An agent whose Kafka Connect is unreachable."""
    reach = Reach(
        database=SourceDatabase("shop", SOURCE, source),
        store=StateStore("shop", "ONRAMP_SOURCE_SHOP", published),
        connect=ConnectApi("http://127.0.0.1:1"),
        topics=None,  # type: ignore[arg-type] - it comes after what is away
        rendering=None,  # type: ignore[arg-type]
    )
    return SourceReconciler("shop", SOURCE, reach)


def listed(*databases: str) -> tuple[int, str]:
    """The printed text, and the exit code."""
    named = ",".join(f'"d{n}":"{dsn}"' for n, dsn in enumerate(databases[1:]))
    env = {"ONRAMP_WRITER_DSN": databases[0], "ONRAMP_WRITER_DATABASES": f"{{{named}}}"}
    result = CliRunner().invoke(app, ["sources", "list"], env=env)
    return result.exit_code, result.output


@pytest.mark.timeout(300)
def test_a_source_that_freezes_is_unreachable_and_so_it_is_listed(desk: Desk, own_postgres: Postgres) -> None:
    reconciler = make_reconciler(own_postgres.dsn, desk.bench.dsn)
    assert reconciler.reconcile().reason.startswith(_AWAY)  # its connections are open
    with stopped(Stopped(own_postgres)):
        shown = reconciler.reconcile()
        assert (shown.state, shown.reason[:32]) == ("unreachable", "the source shop does not answer:")
        code, said = listed(desk.bench.dsn)
        assert (code, bool(re.search(r"(?m)^ *shop  +unreachable ", said))) == (1, True)
        assert "the source shop does not answer:" in said
    eventually(lambda: reconciler.reconcile().reason.startswith(_AWAY))
    reconciler.close()


@pytest.mark.timeout(300)
def test_a_database_that_sources_are_published_to_freezes_and_others_are_listed(
    desk: Desk, own_postgres: Postgres
) -> None:
    other = make_reconciler(desk.bench.dsn, desk.bench.dsn)
    other.reconcile()
    other.close()
    Bench(own_postgres.dsn).migrate().prepare()
    frozen = make_reconciler(desk.bench.dsn, own_postgres.dsn)
    assert frozen.reconcile().reason.startswith(_AWAY)
    with stopped(Stopped(own_postgres)):
        assert frozen.reconcile().reason.startswith("the database that it is published to does not answer:")
        code, said = listed(own_postgres.dsn, desk.bench.dsn)
        assert (code, "shop  " in said) == (3, True)
        assert "to onramp: the database that it is published to does not answer:" in said
    eventually(lambda: frozen.reconcile().reason.startswith(_AWAY))
    frozen.close()


@pytest.mark.timeout(300)
def test_a_modeler_says_that_its_database_is_frozen_goes_on_with_it_and_ends(
    own_postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(Bench(own_postgres.dsn).migrate().prepare()).prepare().tell()
    published = Published(sources={"shop": SOURCE}, models={})
    merger = Merger(
        "onramp", desk.bench.dsn, lambda: published, MergerSettings(poll_seconds=0.05, retry_seconds=0.1)
    )
    thread = threading.Thread(target=merger.run)
    thread.start()
    try:
        desk.land(Stream().insert(id=1, note="a"))
        eventually(lambda: desk.model()["changes"] == 1)
        with stopped(Stopped(own_postgres)):
            eventually(lambda: "the database does not answer" in caplog.text)
        desk.land(Stream(at=1200).insert(id=2, note="b"))
        eventually(lambda: desk.model()["changes"] == 2)
        with stopped(Stopped(own_postgres)):
            merger.stop()
            thread.join(120)
            assert not thread.is_alive()
    finally:
        merger.stop()
        thread.join()
