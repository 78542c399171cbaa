"""The databases that event types may name, as whoever changes the registry knows them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from shared.landing_table import OPEN_SCHEMAS


class Places(Protocol):
    """DSNs by database, the default one first; and of the roles that own tables, where others write."""

    @property
    def databases(self) -> Mapping[str, str]:
        """The writer's own."""
        ...

    @property
    def owners(self) -> Mapping[str, str]:
        """Those of `ddl_dsn`."""
        ...

    def open_schemas(self, database: str) -> tuple[str, ...]:
        """Return the schemas of a database to which the writer may write."""
        ...


@dataclass(frozen=True, slots=True)
class KnownPlaces:
    """Places that are said one by one."""

    databases: Mapping[str, str] = field(repr=False)
    schemas: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict, repr=False)

    def open_schemas(self, database: str) -> tuple[str, ...]:
        """Return the schemas of a database to which the writer may write."""
        return self.schemas.get(database, OPEN_SCHEMAS)
