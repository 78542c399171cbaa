"""Decides whether a key may send an event, and names the deciding lines of the registry."""

from collections.abc import Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from shared import wire
from shared.registry import ApiKey, Snapshot


def answers(snapshot: Snapshot, name: str, event: str, destination: str) -> Iterator[tuple[bool, str]]:
    """Yield each deciding line and whether it permits; the first refusal is the last line."""
    key = snapshot.keys.get(name)
    if key is None:
        yield False, f"keys: there is no {name}"
        return
    if not key.live_hashes(datetime.now(UTC)):
        yield False, f"keys.{name}.expires: none of its secrets is valid any more"
        return
    yield True, f"keys.{name}.hashes: a secret is valid"
    if wire.is_reserved(event) or not wire.EVENT_NAME.fullmatch(event):
        yield False, f"{event:.70} is no event name for senders"
        return
    yield _covered(key.events, event, f"keys.{name}.events")
    yield _named(snapshot, key, name, event)
    if destination:
        yield _covered(key.destinations, destination, f"keys.{name}.destinations")


def _named(snapshot: Snapshot, key: ApiKey, name: str, event: str) -> tuple[bool, str]:
    if event in snapshot.event_types:
        return True, f"event_types.{event}: it is registered"
    if snapshot.unknown_names == "refuse":
        return False, f"unknown_names: refuse, and event_types has no {event}"
    if not key.max_new_names:
        return False, f"keys.{name}.max_new_names: 0, and event_types has no {event}"
    return True, f"unknown_names: accept, up to {key.max_new_names} of keys.{name}.max_new_names"


def _covered(patterns: tuple[str, ...], name: str, place: str) -> tuple[bool, str]:
    for n, pattern in enumerate(patterns):
        if fnmatchcase(name, pattern):
            return True, f"{place}.{n}: {pattern!r} covers {name}"
    return False, f"{place}: none of {len(patterns)} covers {name}"
