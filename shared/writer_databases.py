"""The database fields of the writer's settings, for the services that use the same databases."""

from typing import Any

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class WriterDatabases(BaseSettings):
    """The databases of the writer's settings; the other settings of the writer are ignored."""

    model_config = SettingsConfigDict(
        env_prefix="ONRAMP_WRITER_", frozen=True, hide_input_in_errors=True, extra="ignore"
    )

    dsn: SecretStr = SecretStr("")
    database: str = "onramp"
    databases: dict[str, Any] = {}

    def by_name(self) -> dict[str, str]:
        """Return the writer's DSNs by public name, the default database first."""
        further = {name: _text(given, "dsn") for name, given in self.databases.items()}
        default = {self.database: further.get(self.database) or self.dsn.get_secret_value()}
        return {name: dsn for name, dsn in (default | further | default).items() if dsn}

    def owners(self) -> dict[str, str]:
        """Return the DSNs of separate roles that own tables, by public name."""
        return {
            name: dsn
            for name, given in self.databases.items()
            if isinstance(given, dict) and (dsn := _text(given, "ddl_dsn"))
        }

    def owners_by_name(self) -> dict[str, str]:
        """Return the DSNs of the roles that own tables, of all databases, the default one first."""
        return self.by_name() | self.owners()

    def schemas(self) -> dict[str, tuple[str, ...]]:
        """Return the schemas that are open to the writer, of databases that name them."""
        return {
            name: tuple(map(str, schemas))
            for name, given in self.databases.items()
            if isinstance(given, dict) and isinstance(schemas := given.get("schemas"), list)
        }


def _text(given: object, key: str) -> str:
    """Return a text of a database's settings, which may be its DSN alone."""
    text = given.get(key) if isinstance(given, dict) else given
    return text if isinstance(text, str) else ""
