"""The admin service's settings.  Frozen, checked at the start, passed as arguments."""

import ssl
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.tls import context_if_given, require_certificate


class AdminSettings(BaseSettings):
    """The admin service's settings."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_ADMIN_", frozen=True, hide_input_in_errors=True)

    host: str = Field(
        "127.0.0.1",
        description="Address to listen on; an address beyond this machine needs `operators` in the registry, "
        "and TLS (docs/security.md).",
    )
    port: int = Field(8082, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    dev_key: SecretStr = Field(
        SecretStr(""),
        description="An operator's key that `onramp up` creates; its holder may do everything, in addition "
        "to the operators of the registry. Refused beyond this machine.",
    )
    dsn: SecretStr = Field(
        SecretStr(""),
        description="DSN of the control database, which stores parked events in the schema onramp_admin. "
        "Empty: the writer's default database (ONRAMP_WRITER_DSN). It must be encoded in UTF8.",
    )
    store: str = Field(
        "",
        description="Storage to which the bytes of parked events move, each hour or 64 MB: a folder, or "
        "s3://bucket/path (credentials as for the AWS tools; other servers than AWS with "
        "?endpoint_override=host:port, and &scheme=http without TLS). Empty: they stay in the database.",
    )
    dsn_folder: Path | None = Field(
        None,
        description="Folder with the DSNs of sources, as the agent's (ONRAMP_AGENT_DSN_FOLDER): sources are "
        "checked with them. A source without a file there is checked with its environment variable.",
    )
    rehearsed_groups_per_hour: int = Field(
        3600,
        ge=0,
        description="Maximum groups of parked events per hour that are rehearsed, ten events of each, the "
        "oldest rehearsal first. The writer rehearses them, which costs a database as much as landing the "
        "same number of rows; 0 disables it.",
    )
    statement_days: int = Field(
        400,
        ge=0,
        description="Days for which the hourly readings of the databases are stored in the control database: "
        "`onramp statement` begins and ends a period at them. 0 disables them.",
    )
    tls_cert_file: Path | None = Field(
        None,
        description="The certificate and its chain, as PEM; without it HTTP is cleartext. Reloaded when it "
        "changes (docs/tls.md).",
    )
    tls_key_file: Path | None = Field(None, description="The key of that certificate, as PEM.")
    tls_client_ca_file: Path | None = Field(
        None, description="CAs, as PEM: only clients with a certificate of theirs can connect (mTLS)."
    )
    allow_cleartext_http: bool = Field(
        False,
        description="Accept the risk that operators' keys and parked events are intercepted: HTTP "
        "without TLS beyond this machine.",
    )
    log_level: str = Field("INFO", description="Minimum level that is logged: DEBUG, INFO, WARNING or ERROR.")

    @model_validator(mode="after")
    def _whole_certificates(self) -> Self:
        require_certificate(self.tls_cert_file, self.tls_key_file, self.tls_client_ca_file)
        return self

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context; None without a certificate.

        Raises:
            OSError: a file cannot be read or used.
        """
        return context_if_given(self.tls_cert_file, self.tls_key_file, self.tls_client_ca_file)
