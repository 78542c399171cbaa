"""The databases that events are parked for, by the writer's own settings: replays are staged there."""

from typing import Any

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.ops.registry.database_addresses import KnownPlaces


class DestinationSettings(BaseSettings):
    """The databases of the writer's settings; the admin service ignores the other settings."""

    model_config = SettingsConfigDict(
        env_prefix="ONRAMP_WRITER_", frozen=True, hide_input_in_errors=True, extra="ignore"
    )

    dsn: SecretStr = SecretStr("")
    database: str = "onramp"
    databases: dict[str, Any] = {}

    def by_name(self) -> dict[str, str]:
        """Return the DSNs by public name, the default one first."""
        further = {name: _dsn(given) for name, given in self.databases.items()}
        default = {self.database: further.get(self.database) or self.dsn.get_secret_value()}
        return {name: dsn for name, dsn in (default | further | default).items() if dsn}

    def places(self) -> KnownPlaces:
        """Return the databases with their open schemas and table owners."""
        said = {name: given for name, given in self.databases.items() if isinstance(given, dict)}
        schemas = {
            n: tuple(map(str, each)) for n, of in said.items() if isinstance(each := of.get("schemas"), list)
        }
        owners = {name: dsn for name, of in said.items() if isinstance(dsn := of.get("ddl_dsn"), str)}
        return KnownPlaces(self.by_name(), schemas, owners)


def _dsn(given: object) -> str:
    dsn = given.get("dsn") if isinstance(given, dict) else given
    return dsn if isinstance(dsn, str) else ""
