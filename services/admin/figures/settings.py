"""Where the admin service reads figures: the URLs of the gateways and of the writers."""

from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class FiguresSettings(BaseSettings):
    """Addresses of the other services, whose figures the web UI shows."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_", frozen=True, hide_input_in_errors=True)

    gateway_urls: str = Field(
        "http://127.0.0.1:8080",
        description="URLs of the gateways whose `/figures` the admin service reads, separated by commas: "
        "those of the port for operators, if there is one. A host name with several addresses means all of "
        "them; it is resolved every 30 seconds. Empty: none is read.",
    )
    writer_urls: str = Field(
        "http://127.0.0.1:8081",
        description="The same for the writers, one of which lands events while the others are on standby.",
    )

    @model_validator(mode="after")
    def _valid_urls(self) -> Self:
        for url in (*self.gateways(), *self.writers()):
            parts = urlsplit(url)
            if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.username:
                raise ValueError(
                    "each URL is http:// or https://, a host, and a port if it is not the usual one"
                )
        return self

    def gateways(self) -> tuple[str, ...]:
        """Return the URLs of the gateways."""
        return _split(self.gateway_urls)

    def writers(self) -> tuple[str, ...]:
        """Return the URLs of the writers."""
        return _split(self.writer_urls)


def _split(urls: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(url.strip().rstrip("/") for url in urls.split(",") if url.strip()))
