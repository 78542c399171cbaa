"""`onramp sources add` verifies the schemas, and hands the DSN to a running `onramp up`."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from services.cli.app import app
from services.cli.exits import Exit
from stack.addresses import Addresses, note
from stack.registry import OwnRegistry
from stack.registry_follower import RegistryFollower
from stack.source_secrets import folder_of
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import eventually, execute

SHOP = "ONRAMP_SOURCE_ADDED"


@pytest.fixture
def registry(kafka: HasBootstrap, monkeypatch: pytest.MonkeyPatch) -> OwnRegistry:
    made = OwnRegistry(kafka.bootstrap)
    monkeypatch.setenv("ONRAMP_REGISTRY_TOPIC", made.topic)
    monkeypatch.delenv("ONRAMP_KAFKA_BOOTSTRAP", raising=False)
    return made


@pytest.fixture
def source(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    execute(database.dsn, "CREATE SCHEMA app")
    monkeypatch.setenv(SHOP, database.dsn)
    return database


def add(data: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["sources", "add", "added", *options, "--data-dir", str(data)])


def test_beside_a_running_up_it_is_named_and_its_dsn_is_stored(
    registry: OwnRegistry, source: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(tmp_path, Addresses(kafka=registry.bootstrap))
    named = RegistryFollower(registry.bootstrap)
    try:
        assert named.news() == {}
        result = add(tmp_path, "--schema", "app")
        assert result.exit_code == Exit.OK, result.output
        assert result.stdout == (
            "added: added; its tables appear in the schema added: `onramp sources list`\n"
        )
        assert (folder_of(tmp_path) / SHOP).read_text() == source.dsn
        new = eventually(named.news)
        assert (list(new), new["added"].publish, new["added"].dsn_env) == (["added"], "added", SHOP)
        # The same once more is another password.
        monkeypatch.setenv(SHOP, f"{source.dsn}?application_name=other")
        assert add(tmp_path, "--schema", "app").exit_code == Exit.OK
        assert (folder_of(tmp_path) / SHOP).read_text().endswith("other")
        result = add(tmp_path, "--schema", "app", "--publish", "elsewhere")
        assert (result.exit_code, "there is a source added" in result.stderr) == (Exit.FAILED, True)
    finally:
        named.close()


@pytest.mark.usefixtures("source")
def test_a_schema_that_does_not_exist_is_refused_and_nothing_is_added(
    registry: OwnRegistry, tmp_path: Path
) -> None:
    kafka = ["--kafka", registry.bootstrap]
    result = add(tmp_path, "--schema", "ap", *kafka)
    assert result.exit_code == Exit.FAILED
    assert "the source added has no schema ap; it has app, public" in result.stderr
    result = add(tmp_path, "--schema", "app", *kafka)
    assert result.exit_code == Exit.OK, result.output
    assert f"the agent needs {SHOP}, and Kafka Connect {SHOP}_PASSWORD" in result.stdout
    assert not folder_of(tmp_path).exists()


def test_a_source_that_cannot_be_asked_is_added_with_libpqs_text(
    registry: OwnRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHOP, "postgresql://me:s3cret@127.0.0.1:1/app")
    result = add(tmp_path, "--schema", "app", "--kafka", registry.bootstrap)
    assert (result.exit_code, "s3cret" in result.output) == (Exit.OK, False)
    assert "the schemas are not checked: cannot log in to the source" in result.stderr
    assert "Connection refused" in result.stderr
