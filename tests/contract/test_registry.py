"""The contract of every registry, checked on the registry in memory and on the log."""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest

from shared.registry import Registry, Snapshot
from shared.registry.change_log import NAMED, Chain
from shared.registry.kafka_log import KafkaLog
from shared.registry.log import MemoryLog, RegistryLog
from shared.registry.log_registry import LogRegistry
from shared.registry.memory import MemoryRegistry
from shared.settings import KafkaSettings
from shared.topics import REGISTRY_TOPIC

HASH = "ab" * 32
GOOD: dict[str, Any] = {
    "event_types": {
        "order_placed": {
            "owner": "shop",
            "topic": "shop.orders",
            "key": "/customer/id",
            "partitions": 4,
            "schema": {"type": "object"},
            "destinations": [{"database": "main", "schema": "shop", "table": "orders"}],
        }
    },
    "keys": {"shop": {"hashes": [{"sha256": HASH}], "events": ["order_*"], "events_per_second": 10}},
}


@dataclass
class Rig:
    registry: Registry
    put: Callable[[Any], None]


def refuse_marked(snapshot: Snapshot) -> None:
    if "refused_by_the_service" in snapshot.event_types:
        raise ValueError("the service refuses this")


@pytest.fixture(params=["memory", "log", "kafka"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    if request.param == "kafka":
        bootstrap = request.getfixturevalue("kafka").bootstrap
        log = KafkaLog(
            KafkaSettings(bootstrap=bootstrap),
            replace(REGISTRY_TOPIC, name=f"registry.{secrets.token_hex(8)}"),
        )
        yield of_log(log)
        log.close()
    elif request.param == "log":
        yield of_log(MemoryLog())
    else:
        memory = MemoryRegistry(GOOD, refuse_marked)
        yield Rig(memory, memory.put)


def of_log(log: RegistryLog) -> Rig:
    registry = LogRegistry(log, refuse_marked)
    put = as_whole_documents(log)
    put(GOOD)
    registry.refresh()
    return Rig(registry, put)


def as_whole_documents(log: RegistryLog) -> Callable[[Any], None]:
    """Write the change sets from the last valid document to this one, without a check."""
    chain = Chain()

    def put(document: Any) -> None:
        there, span = chain.document(), log.span()
        deleted = {
            section: sorted(there.get(section, {}).keys() - (document.get(section) or {}).keys())
            for section in NAMED
        }
        change = {
            "format": 1,
            "after": chain.last,
            "actor": "test",
            "time": "2026-01-01T00:00:00Z",
            "put": document,
            "delete": {section: names for section, names in deleted.items() if names},
        }
        log.append(orjson.dumps(change))
        for record in log.read(span.end, log.span().end):
            chain.take(record.offset, record.value)

    return put


def test_the_snapshot_is_what_was_written(rig: Rig) -> None:
    order = rig.registry.snapshot().event_types["order_placed"]

    assert (order.topic, order.key, order.partitions) == ("shop.orders", "/customer/id", 4)
    assert order.json_schema == {"type": "object"}
    assert order.destinations[0].db_schema == "shop"
    key = rig.registry.snapshot().keys["shop"]
    assert key.may_send("order_placed")
    assert not key.may_send("refund_made")


REFUSED: dict[str, Any] = {**GOOD, "event_types": {"refused_by_the_service": {}}}


def test_it_says_whether_the_snapshot_is_what_was_written(rig: Rig) -> None:
    assert rig.registry.is_read
    assert rig.registry.is_valid
    rig.put(REFUSED)
    rig.registry.refresh()
    rig.registry.refresh()  # which does not look again
    assert not rig.registry.is_valid
    rig.put(GOOD)
    rig.registry.refresh()
    assert rig.registry.is_valid


def test_a_change_is_another_snapshot_after_a_refresh(rig: Rig) -> None:
    before = rig.registry.snapshot()
    rig.put({"keys": {"other": {"hashes": [{"sha256": HASH}]}}})

    assert rig.registry.refresh()
    after = rig.registry.snapshot()
    assert list(after.keys) == ["other"]
    assert after.digest != before.digest
    assert "shop" in before.keys  # a snapshot never changes


def test_no_change_is_the_same_snapshot(rig: Rig) -> None:
    before = rig.registry.snapshot().digest
    assert not rig.registry.refresh()
    rig.put(GOOD)
    assert not rig.registry.refresh()
    assert rig.registry.snapshot().digest == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"event_types": {"Order": {}}},
        {"event_types": {"onramp_settled": {}}},
        {"event_types": {"order": {"topic": "a b"}}},
        {"event_types": {"order": {"topic": "onramp.user_errors"}}},
        {"event_types": {"order": {"topic": "__consumer_offsets"}}},
        {"event_types": {"order": {"topic": ".."}}},
        {"event_types": {"order": {"key": "customer"}}},
        {"event_types": {"order": {"owner": "x", "unknown": 1}}},
        {"event_types": {"refused_by_the_service": {}}},
        {"keys": {"shop": {"hashes": []}}},
        {"keys": {"shop": {"hashes": [{"sha256": "short"}]}}},
        {"keys": {"shop": {"hashes": [{"sha256": HASH, "expire": "2026-01-01T00:00:00Z"}]}}},
        {"keys": {"shop": {"hashes": [{"sha256": HASH, "expires": "2026-01-01T00:00:00"}]}}},
        {"keys": {"a_b": {"hashes": [{"sha256": HASH}]}}},
        {"everything": {}},
        {"keys": None},
    ],
)
def test_invalid_registry_leaves_the_previous_snapshot_in_force(rig: Rig, wrong: Any) -> None:
    before = rig.registry.snapshot().digest
    rig.put(wrong)

    assert not rig.registry.refresh()
    assert rig.registry.snapshot().digest == before
    rig.put({"keys": {}})
    assert rig.registry.refresh()  # and the next good one is taken


def test_hashes_are_not_in_logs(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.put({"keys": {"shop": {"hashes": [{"sha256": HASH + "0"}]}}})
    rig.registry.refresh()

    assert "registry" in caplog.text
    assert HASH not in caplog.text
    assert HASH not in str([vars(record) for record in caplog.records])


def test_a_snapshot_cannot_be_changed(rig: Rig) -> None:
    with pytest.raises(TypeError):
        rig.registry.snapshot().keys["shop"] = None  # type: ignore[index]


def test_key_is_reported_as_removed_only_while_a_change_has_deleted_it(rig: Rig) -> None:
    def removed() -> list[bool]:
        rig.registry.refresh()
        return [rig.registry.has_removed("keys", name) for name in ("shop", "other")]

    assert removed() == [False, False]
    rig.put({**GOOD, "keys": {}})
    assert removed() == [True, False]
    rig.put(GOOD)
    assert removed() == [False, False]
