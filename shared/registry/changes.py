"""What a changed registry breaks for those who send: its schemas against those before."""

from typing import Any, NamedTuple

from shared.contracts.compatibility import findings
from shared.contracts.pair import Finding
from shared.registry.model import EventType, Snapshot


class SchemaChange(NamedTuple):
    """One finding about the schema of one event type."""

    event_type: str
    finding: Finding
    #: Of the file, from 1 on; 0: there is none.
    line: int = 0


def schema_changes(old: Snapshot, new: Snapshot) -> list[SchemaChange]:
    """Return what is incompatible, by the mode that the new registry has for each event type.

    A type that is not registered any more takes everything, as one without a schema does.
    """
    return [
        SchemaChange(name, finding)
        for name, event_type in sorted(new.event_types.items())
        if (before := old.event_types.get(name)) is not None
        for finding in findings(_schema(before), _schema(event_type), event_type.compatibility)
    ]


def _schema(event_type: EventType) -> dict[str, Any] | bool:
    return True if event_type.json_schema is None else event_type.json_schema
