"""The agent as a process: it follows the registry, shows how sources are, and does what people ask."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from stack.ports import free_port
from stack.processes import Command
from stack.registry import OwnRegistry
from stack.services import ROOT, Service
from tests.fixtures.sources import ENV, Captured
from tests.fixtures.started import started
from tests.fixtures.writer import eventually

run = CliRunner()


def agent(shop: Captured, registry: OwnRegistry, folder: Path) -> Service:
    port = free_port()
    env = {
        "PYTHONPATH": str(ROOT),
        "ONRAMP_KAFKA_BOOTSTRAP": shop.bootstrap,
        "ONRAMP_WRITER_DSN": shop.published,
        **registry.env,
        "ONRAMP_AGENT_CONNECT_URL": shop.connect.url,
        "ONRAMP_AGENT_HTTP_PORT": str(port),
        ENV: shop.dsn,
    }
    argv = [sys.executable, "-m", "services.elt.agent"]
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


@pytest.mark.parametrize("verb", ["sql", "check"])
def test_a_source_that_the_registry_does_not_name_is_told(verb: str, tmp_path: Path) -> None:
    file = tmp_path / "onramp.yaml"
    file.write_text("sources: {}\n")
    result = run.invoke(app, ["sources", verb, "shop", "--file", str(file)])
    assert result.exit_code == 1
    assert "there is no source shop in the registry; known: none" in result.stderr
