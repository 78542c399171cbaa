"""Keys in the registry in Kafka: created, rotated and revoked by changes; and the rights of each."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.ingest.auth.api_keys import ApiKeys
from services.ingest.auth.quotas import Quotas
from services.ops.registry import change
from shared.errors import UserError
from shared.registry import Snapshot
from shared.registry.editor import Editor
from shared.registry.log import MemoryLog
from shared.registry.log_registry import LogRegistry


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    log = MemoryLog()

    monkeypatch.setattr(change, "open_log", lambda *_: log)
    return log


def onramp(*words: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*words, "--kafka", "127.0.0.1:1"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout) if "--json" in words else done.output


def opens(log: MemoryLog, secret: str) -> bool:
    registry = LogRegistry(log)
    registry.refresh()
    try:
        return bool(
            ApiKeys(registry, Quotas()).authenticate([(b"authorization", b"Bearer " + secret.encode())])
        )
    except UserError:
        return False


def keys(log: MemoryLog) -> Any:
    return Editor(log).chain.snapshot().keys


def test_a_key_is_made_rotated_and_revoked(log: MemoryLog) -> None:
    first = onramp("keys", "create", "shop", "--event", "order_*", "--reason", "new", "--json")["key"]
    assert opens(log, first)
    assert first not in str(log.records)
    assert keys(log)["shop"].events == ("order_*",)
    onramp("keys", "create", "shop", code=1)
    onramp("keys", "create", "Shop", code=1)

    second = onramp("keys", "rotate", "shop", "--overlap", "2h", "--json")["key"]
    assert opens(log, first)
    assert opens(log, second)
    old = keys(log)["shop"].hashes[1]
    assert timedelta(hours=1) < old.expires - datetime.now(UTC) <= timedelta(hours=2)
    assert keys(log)["shop"].events == ("order_*",)
    third = onramp("keys", "rotate", "shop", "--overlap", "0m", "--json")["key"]
    assert [opens(log, each) for each in (first, second, third)] == [False, False, True]
    listed = onramp("keys", "list", "--json")
    assert [(each["name"], each["secrets"]) for each in listed] == [("shop", 1)]

    onramp("keys", "create", "till")
    onramp("keys", "revoke", "shop", "--reason", "lost")
    assert not opens(log, third)
    assert list(keys(log)) == ["till"]
    assert orjson.loads(log.records[-1].value or b"")["reason"] == "lost"
    for words in (["revoke", "shop"], ["rotate", "shop"], ["rotate", "till", "--overlap", "x"]):
        onramp("keys", *words, code=2 if "x" in words else 1)


def test_a_dry_run_says_what_would_change_and_shows_no_secret(log: MemoryLog) -> None:
    onramp("keys", "create", "shop")
    before = list(log.records)
    for act, differs in (
        (["create", "till"], "+ keys.till"),
        (["rotate", "shop"], "~ keys.shop: hashes"),
        (["revoke", "shop"], "- keys.shop"),
    ):
        name = act[1]
        assert onramp("keys", *act, "--dry-run", "--json") == {"name": name, "changes": [differs]}
        assert onramp("keys", *act, "--dry-run") == f"{differs}\npossible\n"
    onramp("keys", "create", "shop", "--dry-run", code=1)
    assert log.records == before
    assert onramp("keys", "revoke", "shop", "--json") == {"name": "shop"}


def test_an_overlap_makes_no_secret_live_longer(log: MemoryLog) -> None:
    onramp("keys", "create", "shop")
    onramp("keys", "rotate", "shop", "--overlap", "1h")
    end = keys(log)["shop"].hashes[1].expires
    onramp("keys", "rotate", "shop", "--overlap", "7d")
    assert keys(log)["shop"].hashes[2].expires == end


HASHES = [{"sha256": "ab" * 32}]
REGISTRY: dict[str, Any] = {
    "event_types": {"order_placed": {}},
    "keys": {
        "shop": {"hashes": HASHES, "events": ["refund", "order_*"], "destinations": ["onramp.public.*"]},
        "gone": {"hashes": HASHES, "expires": "2020-01-01T00:00:00Z"},
        "known": {"hashes": HASHES, "max_new_names": 0},
    },
}


@pytest.mark.parametrize(
    ("key", "event", "destination", "more", "may", "line"),
    [
        ("shop", "order_placed", "", {}, True, "keys.shop.events.1"),
        ("shop", "order_placed", "onramp.public.orders", {}, True, "keys.shop.destinations.0"),
        ("shop", "order_placed", "other.public.orders", {}, False, "keys.shop.destinations"),
        ("shop", "invoice", "", {}, False, "keys.shop.events"),
        ("shop", "order_new", "", {}, True, "unknown_names: accept"),
        ("shop", "order_new", "", {"unknown_names": "refuse"}, False, "unknown_names: refuse"),
        ("known", "order_new", "", {}, False, "keys.known.max_new_names"),
        ("gone", "order_placed", "", {}, False, "keys.gone.expires"),
        ("nobody", "order_placed", "", {}, False, "there is no nobody"),
        ("shop", "onramp_settled", "", {}, False, "no event name"),
    ],
)
def test_a_yes_or_no_has_its_line(  # noqa: PLR0917
    log: MemoryLog, key: str, event: str, destination: str, more: Any, may: bool, line: str
) -> None:
    editor = Editor(log)
    change.change_to(editor, Snapshot.model_validate(REGISTRY | more), change.Wish())
    words = ["--key", key, "--event", event, "--destination", destination]
    said = onramp("access", "explain", *words, "--json", code=0 if may else 1)
    assert said["may"] is may
    assert [each["line"] for each in said["lines"] if each["yes"] is may and line in each["line"]]
