"""The versions of an event type in the registry's history, and the differences between two of them."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from services.ops.registry.registry_reader import Change
from shared.contracts.compatibility import findings
from shared.contracts.pair import Finding, escaped
from shared.registry.change_log import written

_MAX_DIFFERENCES: Final = 200
#: A schema of an event type without one: it accepts every payload.
_OPEN: Final = True


class Difference(NamedTuple):
    """A place (JSON Pointer into the entry of `onramp.yaml`) whose value differs; None: it is absent."""

    pointer: str
    before: Any
    after: Any


class Version(NamedTuple):
    """An event type after a change of it; `entry` None: the change deleted it."""

    offset: int
    time: datetime
    actor: str
    reason: str
    entry: Mapping[str, Any] | None
    #: Differences from the version before; None if that one is not known.
    differences: tuple[Difference, ...] | None
    #: Places where the new schema may accept less than the one before.
    findings: tuple[Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "offset": self.offset,
            "time": self.time.isoformat(),
            "actor": self.actor,
            "reason": self.reason,
            "event_type": self.entry,
            "differences": None
            if self.differences is None
            else [each._asdict() for each in self.differences],
            "findings": [each._asdict() for each in self.findings],
        }


def versions_of(name: str, changes: Iterable[Change], *, is_whole: bool) -> list[Version]:
    """Return the versions of a type, the newest first.

    `changes`: change sets, the oldest first.  `is_whole`: they begin with the registry's first one, so the
    first version is new; else the version before it is not known.
    """
    found: list[Version] = []
    before: Mapping[str, Any] | None = None
    is_known = is_whole
    for offset, change in changes:
        if name in change.put.event_types:
            entry: Mapping[str, Any] | None = written(change.put.event_types[name])
        elif name in change.delete.get("event_types", ()):
            entry = None
        else:
            continue
        if is_known and entry == before:
            continue
        compared = tuple(differences(before or {}, entry or {})) if is_known else None
        faults = () if before is None or entry is None else tuple(findings(_schema(before), _schema(entry)))
        found.append(Version(offset, change.time, change.actor, change.reason, entry, compared, faults))
        before, is_known = entry, True
    return found[::-1]


def differences(before: Any, after: Any) -> Iterator[Difference]:
    """Yield the places that differ, in the order of the entry; at most 200."""
    for n, each in enumerate(_differences(before, after, "")):
        if n == _MAX_DIFFERENCES:
            return
        yield each


def _differences(before: Any, after: Any, pointer: str) -> Iterator[Difference]:
    # Not recursive: a schema may be nested as deeply as JSON may be.
    waiting: list[tuple[Any, Any, str]] = [(before, after, pointer)]
    while waiting:
        old, new, place = waiting.pop()
        if old == new:
            continue
        members = _members(old, new)
        if members is None:
            yield Difference(place, old, new)
        else:
            waiting += [(a, b, f"{place}/{escaped(name)}") for name, a, b in reversed(members)]


def _members(old: Any, new: Any) -> list[tuple[str, Any, Any]] | None:
    """Return the members of two objects, or of two lists of objects; None if they are compared whole."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [(name, old.get(name), new.get(name)) for name in {**old, **new}]
    if isinstance(old, list) and isinstance(new, list) and _is_of_objects(old) and _is_of_objects(new):
        longer = range(max(len(old), len(new)))
        return [(str(i), old[i] if i < len(old) else None, new[i] if i < len(new) else None) for i in longer]
    return None


def _is_of_objects(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(each, dict) for each in values)


def _schema(entry: Mapping[str, Any]) -> Any:
    return entry.get("schema", _OPEN)
