"""One registry file creates keys, routes and tables on an empty stack, without a restart."""

import json
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from services.cli.app import app
from services.ops.registry.change import Wish, apply_file, editing
from shared.registry.key_secrets import new_key
from shared.settings import KafkaSettings
from stack.registry import OwnRegistry
from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database
from tests.fixtures.fix_stack import StartGateway
from tests.fixtures.inline import Inline
from tests.fixtures.writer import event, eventually, landed

PATIENCE = 90
BOTH_READ = threading.Barrier(2)
RUN = secrets.token_hex(3)
ORDERS, REFUNDS = f"orders_{RUN}", f"refunds_{RUN}"


class Stack:
    """A gateway and a writer that follow the topic, and the command line."""

    def __init__(self, registry: OwnRegistry, gateway: Service, dsns: dict[str, str], folder: Path) -> None:
        self.bootstrap, self.gateway, self.dsns = registry.bootstrap, gateway, dsns
        self.file = folder / "onramp.yaml"
        names = list(dsns)
        env = {
            "ONRAMP_WRITER_DATABASE": names[0],
            "ONRAMP_WRITER_DATABASES": orjson.dumps({name: dsns[name] for name in names[1:]}).decode(),
            "ONRAMP_WRITER_TOPICS": rf"events\.(orders|refunds)_{RUN}",
            "ONRAMP_WRITER_DISCOVER_MS": "100",
            **registry.env,
        }
        self.writer = Inline(self.bootstrap, dsns[names[0]], env)

    def onramp(self, *words: str) -> Result:
        return CliRunner().invoke(app, [*words, "--kafka", self.bootstrap])

    def apply(self, document: Any, *options: str) -> Result:
        self.file.write_text(yaml.safe_dump(document))
        name, *others = self.dsns
        further = orjson.dumps({other: self.dsns[other] for other in others}).decode()
        where = ("--database", name, "--dsn", self.dsns[name], "--databases", further)
        return self.onramp("apply", str(self.file), *where, *options)

    def send(self, event_id: str, name: str, key: str, **payload: Any) -> int:
        headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        content = event(event_id, name, **payload)
        answer = httpx2.post(f"{self.gateway.url}/v1/events", content=content, headers=headers, timeout=30)
        return answer.status_code


@pytest.fixture
def registry(kafka: HasBootstrap, monkeypatch: pytest.MonkeyPatch) -> OwnRegistry:
    """One that the command line and the services of this test have to themselves."""
    registry = OwnRegistry(kafka.bootstrap)
    for name, value in registry.env.items():
        monkeypatch.setenv(name, value)
    return registry


@pytest.fixture
def stack(
    registry: OwnRegistry,
    start_gateway: StartGateway,
    database: Database,
    own_database: Database,
    tmp_path: Path,
) -> Iterator[Stack]:
    gateway = start_gateway(registry.bootstrap)
    stack = Stack(registry, gateway, {"main": database.dsn, "second": own_database.dsn}, tmp_path)
    stack.writer.start()
    yield stack
    stack.writer.stop()


def test_registry_file_yields_keys_routes_and_rows_without_a_restart(stack: Stack) -> None:
    keys = {name: new_key(name) for name in ("shop", "till", "old")}
    registry: dict[str, Any] = {
        "event_types": {
            ORDERS: {"schema": {"required": ["n"], "properties": {"n": {"type": "integer"}}}},
            REFUNDS: {"destinations": [{"type": "postgres"}, {"type": "postgres", "vanity": "second"}]},
        },
        "keys": {name: {"hashes": [{"sha256": sha256}]} for name, (_, sha256) in keys.items()},
    }
    dry = stack.apply(registry, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert f"+ event_types.{ORDERS}" in dry.stdout
    assert stack.send("early", ORDERS, keys["shop"][0], n=1) == 401
    done = stack.apply(registry, "--reason", "the first", "--json")
    assert (done.exit_code, json.loads(done.stdout)["state"]) == (0, "applied")

    eventually(lambda: stack.send("first", ORDERS, keys["shop"][0], n=1) == 202, PATIENCE)
    assert stack.send("wrong", ORDERS, keys["shop"][0], n="one") == 422
    assert stack.send("back", REFUNDS, keys["till"][0]) == 202
    eventually(lambda: landed(stack.dsns["main"], ORDERS) == 1, PATIENCE)
    eventually(
        lambda: [landed(dsn, REFUNDS) for dsn in stack.dsns.values()] == [1, 1],
        PATIENCE,
    )

    del registry["keys"]["old"]
    registry["event_types"][ORDERS]["schema"]["properties"]["n"] = {"type": "string"}
    refused = stack.apply(registry)
    assert refused.exit_code == 1
    assert "/properties/n" in refused.output
    assert stack.send("kept", ORDERS, keys["old"][0], n=1) == 202
    registry["event_types"][ORDERS]["schema"]["properties"]["n"] = {"type": ["integer", "string"]}
    assert stack.apply(registry).exit_code == 0
    eventually(lambda: stack.send("gone", ORDERS, keys["old"][0], n="one") == 401, PATIENCE)
    assert stack.send("text", ORDERS, keys["shop"][0], n="one") == 202
    exported = yaml.safe_load(stack.onramp("export").stdout)
    assert exported == registry

    two = [{**registry, "unknown_names": "refuse"}, {**registry, "grants": [{"topic": "x"}]}]
    files = [stack.file.with_name(f"{n}.yaml") for n in range(2)]
    for file, document in zip(files, two, strict=True):
        file.write_text(yaml.safe_dump(document))
    with ThreadPoolExecutor(2) as pool:
        states = list(pool.map(apply_late, [stack.bootstrap] * 2, files))
    assert sorted(states) == ["applied", "conflict"]


def apply_late(bootstrap: str, file: Path) -> str:
    """Apply, with all that is read before anybody writes."""
    with editing(KafkaSettings(bootstrap=bootstrap)) as editor:
        BOTH_READ.wait(60)
        return str(apply_file(editor, file, Wish()).state)
