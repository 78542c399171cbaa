"""Finds databases and schemas in a registry that the writer's settings do not have.

A change of the registry with such a place is refused. A writer with other settings confines the fault to the
affected events.
"""

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase

from shared.registry.entries import Destination, Snapshot


def unknown_places(
    snapshot: Snapshot, schemas: Mapping[str, Collection[str]], default: str
) -> dict[str, str]:
    """Return the reason by place (`event_types.a.destinations.0`).

    `schemas`: the open schemas by configured database; `default`: the database of a destination without a
    name.
    """
    found: dict[str, str] = {}
    for name, event_type in snapshot.event_types.items():
        for n, destination in enumerate(event_type.destinations):
            if not destination.is_lake and (reason := _reason(destination, schemas, default)):
                found[f"event_types.{name}.destinations.{n}"] = reason
    patterns = {f"grants.{n}": grant.database for n, grant in enumerate(snapshot.grants)}
    patterns |= {f"contracts.{n}": contract.database for n, contract in enumerate(snapshot.contracts)}
    for place, pattern in patterns.items():
        if not any(fnmatchcase(name, pattern) for name in schemas):
            found[place] = _no_such_database(pattern, schemas)
    for name, source in snapshot.sources.items():
        if source.database and source.database not in schemas:
            found[f"sources.{name}"] = _no_such_database(source.database, schemas)
    for name, lookup in snapshot.lookups.items():
        if lookup.database not in schemas:
            found[f"lookups.{name}"] = _no_such_database(lookup.database, schemas)
    return found


def _reason(destination: Destination, schemas: Mapping[str, Collection[str]], default: str) -> str:
    database = destination.vanity or destination.database or default
    if database not in schemas:
        return _no_such_database(database, schemas)
    if destination.table and destination.db_schema not in schemas[database]:
        opened = ", ".join(schemas[database])
        return f"database {database} opens the schemas {opened}, not {destination.db_schema:.70}"
    return ""


def _no_such_database(name: str, known: Iterable[str]) -> str:
    return f"no such database: {name:.70}; configured are {', '.join(sorted(known)) or 'none'}"
