"""Deploys of transforms: versions in the registry's log, and the one to roll back to."""

from typing import Any

import pytest

from services.ops.transforms.deploys import (
    DeployError,
    Version,
    counted_changes,
    version_before,
    versions_in,
    with_source,
)
from shared.registry.change_log import Chain
from shared.registry.difference import difference
from shared.registry.entries import Snapshot
from shared.registry.log import MemoryLog
from shared.registry.transforms import MAX_SOURCE_BYTES, digest_of_source
from tests.unit.shared.test_registry_change_log import record

FILE = {
    "event_types": {"read": {}, "made": {}},
    "transforms": {"t": {"from": "read", "to": ["made"]}},
}


def history(*puts: dict[str, Any]) -> list[Version]:
    log = MemoryLog()
    for n, put in enumerate(puts):
        log.append(record(n - 1, put, reason=f"change {n}"))
    return versions_in(counted_changes(log), "t")


def deployed(source: str, **fields: Any) -> dict[str, Any]:
    entry = {**FILE["transforms"]["t"], **fields, "source": source, "digest": digest_of_source(source)}
    return {"transforms": {"t": entry}}


def test_a_deploy_changes_the_source_alone() -> None:
    chain = Chain()
    chain.take(0, record(-1, FILE))
    change = difference(chain, with_source(chain.snapshot(), "t", "code"))
    assert change.put == deployed("code")
    assert change.lines(chain.document()) == ["~ transforms.t: digest, source"]
    with pytest.raises(DeployError, match=r"no transform u: add it to onramp\.yaml"):
        with_source(chain.snapshot(), "u", "code")
    with pytest.raises(ValueError, match="65,537 bytes"):
        with_source(chain.snapshot(), "t", "#" * (MAX_SOURCE_BYTES + 1))
    with pytest.raises(DeployError):
        with_source(Snapshot(), "t", "code")


def test_each_source_is_a_version_and_other_changes_are_not() -> None:
    versions = history(FILE, deployed("a"), deployed("a", lanes=2), deployed("b"), deployed("a"))
    assert [(each.offset, each.source, each.reason) for each in versions] == [
        (1, "a", "change 1"),
        (3, "b", "change 3"),
        (4, "a", "change 4"),
    ]
    assert "source" not in versions[0].as_dict()


def test_a_rollback_takes_the_newest_other_version_or_the_named_one() -> None:
    versions = history(FILE, deployed("a"), deployed("b"))
    a, b = map(digest_of_source, "ab")
    assert version_before(versions, b, None).source == "a"
    assert version_before(versions, a, None).source == "b"
    assert version_before(versions, b, b[:12]).source == "b"
    with pytest.raises(DeployError, match="no version begins with 0000"):
        version_before(versions, b, "0000")
    with pytest.raises(DeployError, match="there is no earlier version"):
        version_before(versions[:1], a, None)
