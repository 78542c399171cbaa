"""The versions of an event type in the registry's history, and the differences between two of them."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from services.ops.registry.registry_reader import Change
from shared.contracts.compatibility import findings
from shared.contracts.pair import Finding
from shared.json_differences import ABSENT
from shared.json_differences import differences as json_differences
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
    found = json_differences(before, after, lambda a, b: _is_of_objects(a) and _is_of_objects(b))
    places = (Difference(each.pointer, _given(each.first), _given(each.second)) for each in found)
    return islice((each for each in places if each.before != each.after), _MAX_DIFFERENCES)


def _given(value: Any) -> Any:
    return None if value is ABSENT else value


def _is_of_objects(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(each, dict) for each in values)


def _schema(entry: Mapping[str, Any]) -> Any:
    return entry.get("schema", _OPEN)
