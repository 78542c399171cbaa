"""Changes of single sender keys, each returning the new set of keys."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from shared.registry import ApiKey, KeyHash
from shared.registry.key_secrets import rotated

Keys = Mapping[str, ApiKey]


def created(
    keys: Keys, name: str, sha256: str, *, events: Sequence[str] = (), destinations: Sequence[str] = ()
) -> dict[str, ApiKey]:
    """Return the keys with a new one. Raises `ValueError` if the name exists."""
    if name in keys:
        raise ValueError(f"there is a key {name}: rotate it, or revoke it first")
    granted: dict[str, object] = {"hashes": (KeyHash(sha256=sha256),)}
    if events:
        granted["events"] = events
    if destinations:
        granted["destinations"] = destinations
    return {**keys, name: ApiKey.model_validate(granted)}


def with_another_secret(keys: Keys, name: str, sha256: str, until: datetime) -> dict[str, ApiKey]:
    """Return the keys with a new secret of one, whose old ones expire at `until`. Raises `ValueError`."""
    return {**keys, name: rotated(known(keys, name), sha256, until)}


def without(keys: Keys, name: str) -> dict[str, ApiKey]:
    """Return the keys without one. Raises `ValueError` if it does not exist."""
    known(keys, name)
    return {other: key for other, key in keys.items() if other != name}


def known(keys: Keys, name: str) -> ApiKey:
    """Return a key. Raises `ValueError` if it does not exist."""
    if name not in keys:
        raise ValueError(f"there is no key {name}: `onramp keys list` prints what there is")
    return keys[name]


def view_of(name: str, key: ApiKey) -> dict[str, Any]:
    """Return a key for display: rights and expiry, without hashes."""
    end = key.last_moment()
    return {
        "name": name,
        "secrets": len(key.live_hashes(datetime.now(UTC))),
        "expires": end and end.isoformat(),
        "events": list(key.events),
        "destinations": list(key.destinations),
    }
