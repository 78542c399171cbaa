"""Finds breaking changes of a registry for senders, by comparing its schemas with the previous ones."""

from typing import Any, NamedTuple

from shared.contracts.compatibility import findings
from shared.contracts.pair import Finding
from shared.registry.entries import EventType, Snapshot


class SchemaChange(NamedTuple):
    """A finding about an event type's schema."""

    event_type: str
    finding: Finding
    #: Line in the file, from 1; 0 if unknown.
    line: int = 0


def schema_changes(old: Snapshot, new: Snapshot) -> list[SchemaChange]:
    """Return the incompatibilities, by the mode of each event type in the new registry.

    A removed type accepts everything, like a type without a schema.
    """
    return [
        SchemaChange(name, finding)
        for name, event_type in sorted(new.event_types.items())
        if (before := old.event_types.get(name)) is not None
        for finding in findings(_schema(before), _schema(event_type), event_type.compatibility)
    ]


def _schema(event_type: EventType) -> dict[str, Any] | bool:
    return True if event_type.json_schema is None else event_type.json_schema
