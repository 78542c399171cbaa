"""The databases that event types may name, as known to the process that changes the registry."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from shared.landing_columns import OPEN_SCHEMAS


class Places(Protocol):
    """DSNs by database, the default one first; and DSNs of separate roles that own tables."""

    @property
    def databases(self) -> Mapping[str, str]:
        """Return the writer's DSNs."""
        ...

    @property
    def owners(self) -> Mapping[str, str]:
        """Return the DSNs of `ddl_dsn`."""
        ...

    def open_schemas(self, database: str) -> tuple[str, ...]:
        """Return the schemas of a database to which the writer may write."""
        ...


@dataclass(frozen=True, slots=True)
class KnownPlaces:
    """Places given explicitly."""

    databases: Mapping[str, str] = field(repr=False)
    schemas: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict, repr=False)

    def open_schemas(self, database: str) -> tuple[str, ...]:
        """Return the schemas of a database to which the writer may write."""
        return self.schemas.get(database, OPEN_SCHEMAS)
