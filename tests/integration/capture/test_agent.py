"""The agent as a process: it follows the registry, reports states of sources, and runs requests."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from stack.connect import Connect
from stack.ports import free_port
from stack.postgres import Postgres
from stack.processes import Command
from stack.registry import OwnRegistry
from stack.services import ROOT, Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import FAST
from tests.fixtures.running_part import started
from tests.fixtures.sources import ENV, OTHER, Captured, captured, password_of
from tests.fixtures.writer import eventually

run = CliRunner()


def agent(shop: Captured, registry: OwnRegistry, folder: Path, *others: Captured) -> Service:
    port = free_port()
    env = {
        "PYTHONPATH": str(ROOT),
        "ONRAMP_KAFKA_BOOTSTRAP": shop.bootstrap,
        "ONRAMP_WRITER_DSN": shop.published,
        **registry.env,
        "ONRAMP_AGENT_CONNECT_URL": shop.connect.url,
        "ONRAMP_AGENT_HTTP_PORT": str(port),
        **{each.source.dsn_env: each.dsn for each in (shop, *others)},
    }
    argv = [sys.executable, "-m", "services.cdc.agent"]
    command = Command(name="agent", argv=argv, log=folder / "agent.log", env=env, cwd=ROOT)
    return Service(command, port, 120)


def test_a_source_that_left_the_registry_while_no_agent_ran_is_removed_by_the_next(
    shop: Captured, tmp_path: Path
) -> None:
    named = {"dsn_env": ENV, "schemas": ["app"], "publish": shop.name}
    registry = OwnRegistry(shop.bootstrap, {"sources": {shop.name: named}})
    with started(agent(shop, registry, tmp_path)):
        assert shop.slot()
    registry.put({"sources": {}})
    assert shop.slot()
    with started(agent(shop, registry, tmp_path)):
        eventually(lambda: shop.slot() is None)
    assert "Unclosed" not in (tmp_path / "agent.log").read_text()


@pytest.fixture
def mortal(shop: Captured, connect: Connect, kafka: HasBootstrap, tmp_path: Path) -> Iterator[Captured]:
    """A source on a separate server, published to the shop's database."""
    folder = tmp_path / "mortal"
    folder.mkdir()
    (folder / "password").write_text(password_of(shop.dsn))
    table = ["CREATE TABLE app.orders (id int PRIMARY KEY)", "INSERT INTO app.orders VALUES (1)"]
    with (
        started(Postgres(folder, settings=FAST)) as server,
        captured(server, connect, kafka.bootstrap, table, dsn_env=OTHER, published=shop.published) as made,
    ):
        yield made


def test_unreachable_source_is_reported_and_other_sources_keep_streaming(
    shop: Captured, mortal: Captured, tmp_path: Path
) -> None:
    named = {
        each.name: {"dsn_env": each.source.dsn_env, "schemas": ["app"], "publish": each.name}
        for each in (shop, mortal)
    }
    registry = OwnRegistry(shop.bootstrap, {"sources": named})

    def states() -> dict[str, tuple[str, str]]:
        listed = run.invoke(app, ["sources", "list", "--dsn", shop.published, "--json"])
        return {row["source"]: (row["state"], row["reason"]) for row in json.loads(listed.stdout)}

    with started(agent(shop, registry, tmp_path, mortal)):
        eventually(lambda: {state for state, _ in states().values()} == {"streaming"}, 60)
        eventually(lambda: len(mortal.changes("orders")) == 1 and len(shop.changes("orders")) == 1, 60)
        mortal.server.stop()
        try:
            eventually(lambda: states()[mortal.name][0] == "unreachable", 60)
            # The first query after the server's end may have the server's last message instead.
            reason = "cannot query the source: Connection refused"
            eventually(lambda: states()[mortal.name][1] == reason, 60)
            # The agent still works for the other source: its existing row is captured again.
            shop.execute("ALTER TABLE app.orders ADD COLUMN paid bool DEFAULT true")
            eventually(lambda: len(shop.changes("orders")) == 2, 60)
            shop.execute("INSERT INTO app.orders VALUES (2, 'x')")
            eventually(lambda: len(shop.changes("orders")) == 3, 60)
            assert (states()[shop.name][0], states()[mortal.name][0]) == ("streaming", "unreachable")
        finally:
            mortal.server.start()
            mortal.server.wait_ready()
        mortal.execute("INSERT INTO app.orders VALUES (2)")
        eventually(lambda: len(mortal.changes("orders")) == 2, 60)
        eventually(lambda: states()[mortal.name][0] == "streaming", 60)


@pytest.mark.parametrize("verb", ["sql", "check"])
def test_command_for_a_source_missing_from_the_registry_fails_with_its_name(
    verb: str, tmp_path: Path
) -> None:
    file = tmp_path / "onramp.yaml"
    file.write_text("sources: {}\n")
    result = run.invoke(app, ["sources", verb, "shop", "--file", str(file)])
    assert result.exit_code == 1
    assert "there is no source shop in the registry; known: none" in result.stderr
