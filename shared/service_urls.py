"""The URLs of gateways and writers, for the services that read pages of them or send to them."""

from typing import Self
from urllib.parse import urlsplit

from pydantic import model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class ServiceUrls(BaseSettings):
    """Lists of URLs, separated by commas; each service declares which port it means."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_", frozen=True, hide_input_in_errors=True)

    gateway_urls: str
    writer_urls: str

    @model_validator(mode="after")
    def _valid_urls(self) -> Self:
        for url in self.all_urls():
            parts = urlsplit(url)
            if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.username:
                raise ValueError(
                    "each URL is http:// or https://, a host, and a port if it is not the usual one"
                )
        return self

    def all_urls(self) -> tuple[str, ...]:
        """Return all URLs, which are checked at the start."""
        return (*self.gateways(), *self.writers())

    def gateways(self) -> tuple[str, ...]:
        """Return the URLs of the gateways."""
        return split_urls(self.gateway_urls)

    def writers(self) -> tuple[str, ...]:
        """Return the URLs of the writers."""
        return split_urls(self.writer_urls)


def split_urls(urls: str) -> tuple[str, ...]:
    """Return the URLs of a list that is separated by commas, without repetitions."""
    return tuple(dict.fromkeys(url.strip().rstrip("/") for url in urls.split(",") if url.strip()))
