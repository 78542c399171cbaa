"""Computes the smallest change set from the registry in effect to a desired one.

A section that the file does not name remains unchanged: a file of event types alone revokes no key.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

from shared.registry.change_log import NAMED, Chain, written
from shared.registry.entries import Snapshot

#: Maximum types and bytes of routes for which the writer's look-ups and its log are measured.
MAX_TYPES: Final = 5_000
MAX_ROUTE_BYTES: Final = 900_000
#: Placeholder for a database name that comes from the writer's settings: no name is longer.
_ANY_NAME: Final = "x" * 63


class Difference(NamedTuple):
    """The entries to put and to delete, by section."""

    put: dict[str, Any]
    delete: dict[str, list[str]]

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changes."""
        return not self.put and not self.delete

    def lines(self, before: dict[str, Any]) -> list[str]:
        """Return a line per entry, with `+`, `~` or `-` before its place; no values."""
        return sorted(self._lines(before), key=lambda line: line[2:])

    def _lines(self, before: dict[str, Any]) -> Iterator[str]:
        for section, value in self.put.items():
            if section not in NAMED:
                yield f"~ {section}"
                continue
            for name, entry in value.items():
                old = before.get(section, {}).get(name)
                yield f"+ {section}.{name}" if old is None else f"~ {section}.{name}: {_fields(old, entry)}"
        for section, names in self.delete.items():
            yield from (f"- {section}.{name}" for name in names)


def difference(chain: Chain, desired: Snapshot) -> Difference:
    """Return the difference between the registry in effect and `desired`, in the sections of `desired`."""
    there, put, delete = chain.document(), dict[str, Any](), dict[str, list[str]]()
    for section in sorted(desired.model_fields_set):
        value = written(getattr(desired, section))
        if section not in NAMED:
            if value != there.get(section):
                put[section] = value
            continue
        old = there.get(section, {})
        if changed := {name: entry for name, entry in value.items() if old.get(name) != entry}:
            put[section] = changed
        if gone := sorted(old.keys() - value.keys()):
            delete[section] = gone
    return Difference(put, delete)


def too_large(snapshot: Snapshot) -> str:
    """Return why this registry is too large for the writer; empty if it is not."""
    if len(snapshot.event_types) > MAX_TYPES:
        return f"there are {len(snapshot.event_types):,} event types; the maximum is {MAX_TYPES:,}"
    size = sum(len(orjson.dumps(route)) + 1 for route in _routes(snapshot))
    if size > MAX_ROUTE_BYTES:
        return (
            f"its routes have {size:,} bytes, and at most {MAX_ROUTE_BYTES:,} can be: they are one record "
            "of onramp.settled; name fewer destinations, or cover contracts by patterns"
        )
    return ""


def _routes(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield the parts of a registry that the writer stores, in its format."""
    for name, event_type in snapshot.event_types.items():
        for each in event_type.database_destinations:
            place = {"database": each.vanity or each.database or _ANY_NAME, "schema": each.db_schema or ""}
            yield {"event_name": name, "table": each.table or "", **place}
            if event_type.contract.model_fields_set and each.table:
                yield {"unknown_fields": "discard", "table": each.table, **place}
    for pattern in (*snapshot.grants, *snapshot.contracts):
        yield {"topic": _ANY_NAME, **written(pattern)}


def _fields(old: Any, new: Any) -> str:
    return ", ".join(sorted(name for name in {*old, *new} if old.get(name) != new.get(name)))
