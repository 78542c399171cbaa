"""The admin service's settings.  Frozen, checked at the start, passed as arguments."""

import ipaddress

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class AdminSettings(BaseSettings):
    """What an operator sets of the admin service."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_ADMIN_", frozen=True, hide_input_in_errors=True)

    host: str = Field(
        "127.0.0.1",
        description="Address to listen on: one of this machine's own, because the service has no operators' "
        "keys yet.",
    )
    port: int = Field(8082, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    dsn: SecretStr = Field(
        SecretStr(""),
        description="The control database, where parked events are kept in the schema onramp_admin; "
        "without it the writer's default one (ONRAMP_WRITER_DSN). It must be encoded in UTF8.",
    )
    store: str = Field(
        "",
        description="Where the bytes of parked events go from the control database, each hour or 64 MB: a "
        "folder, or s3://bucket/path (credentials as the AWS tools take them). Without it they stay in the "
        "database.",
    )
    log_level: str = Field("INFO", description="Least level that is logged: DEBUG, INFO, WARNING or ERROR.")

    @field_validator("host")
    @classmethod
    def _is_this_machine(cls, value: str) -> str:
        try:
            here = value == "localhost" or ipaddress.ip_address(value).is_loopback
        except ValueError:
            here = False
        if not here:
            raise ValueError("whoever reached it could read parked events: give a loopback address")
        return value
