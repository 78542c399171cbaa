"""`onramp keys new`: the printed key authenticates a sender, and no other key does."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.ingest.auth.api_keys import ApiKeys
from services.ingest.auth.quotas import Quotas
from shared.errors import UserError
from shared.registry.bearer import bearer
from shared.registry.file import load
from shared.registry.memory import MemoryRegistry
from shared.registry.strict_yaml import loads

RUNNER = CliRunner()


def test_the_key_opens_a_door_with_what_is_to_be_written_down() -> None:
    printed = RUNNER.invoke(app, ["keys", "new", "shop"]).stdout
    (key,) = [word for word in printed.split() if word.startswith("onramp_shop_")]
    senders = ApiKeys(MemoryRegistry(loads(printed[printed.index("keys:\n") :])), Quotas())

    assert senders.authenticate([(b"authorization", b"Bearer " + key.encode())]).name == "shop"
    with pytest.raises(UserError):
        senders.authenticate([(b"authorization", b"Bearer " + key.encode() + b"0")])


def test_an_operators_key_is_written_down_with_its_role(tmp_path: Path) -> None:
    printed = RUNNER.invoke(app, ["keys", "new", "ann", "--operator", "viewer"]).stdout
    (tmp_path / "onramp.yaml").write_text(printed[printed.index("operators:\n") :])
    (key,) = [word for word in printed.split() if word.startswith("onramp_ann_")]
    snapshot = load(tmp_path / "onramp.yaml")
    given = bearer(f"Bearer {key}".encode())

    assert given is not None
    assert (given.name, snapshot.operators["ann"].role, dict(snapshot.keys)) == ("ann", "viewer", {})
    assert any(given.matches(snapshot.operators["ann"].live_hashes(datetime.now(UTC))))


def test_as_json_and_never_the_same_twice() -> None:
    made = [json.loads(RUNNER.invoke(app, ["keys", "new", "shop", "--json"]).stdout) for _ in range(2)]

    assert made[0]["name"] == "shop"
    assert made[0]["key"] != made[1]["key"]
    assert made[0]["sha256"] != made[1]["sha256"]


@pytest.mark.parametrize("name", ["Shop", "a_b", "", "a" * 33])
def test_a_name_that_no_key_can_have(name: str) -> None:
    refused = RUNNER.invoke(app, ["keys", "new", "--", name])

    assert refused.exit_code == 1
    assert "a key's id has 1 to 32 of a-z 0-9 -" in refused.stderr
