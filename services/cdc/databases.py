"""The databases that sources are published to, from the writer's settings."""

from typing import Any

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class WriterDatabases(BaseSettings):
    """The database fields of the writer's settings; the agent and the merger ignore the others."""

    model_config = SettingsConfigDict(
        env_prefix="ONRAMP_WRITER_", frozen=True, hide_input_in_errors=True, extra="ignore"
    )

    dsn: SecretStr = SecretStr("")
    database: str = "onramp"
    databases: dict[str, Any] = {}

    def by_name(self) -> dict[str, str]:
        """Return the DSNs of the roles that own tables, by public name; the default database is the first."""
        given = {self.database: self.dsn.get_secret_value()} | self.databases
        dsns = {name: _dsn(of_one) or self.dsn.get_secret_value() for name, of_one in given.items()}
        return {name: dsn for name, dsn in dsns.items() if dsn}


def _dsn(given: object) -> str:
    dsn = (given.get("ddl_dsn") or given.get("dsn")) if isinstance(given, dict) else given
    return dsn if isinstance(dsn, str) else ""
